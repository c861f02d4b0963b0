/** The folders below `test` of each lane. CONTRIBUTING.md says what the tests of a lane may use. */
export const lanes = {
  pure: ['unit', 'property', 'pii'],
  service: ['api', 'database'],
  process: ['faults'],
  extra: [
    'bench',
    'clients',
    'console',
    'contract',
    'docs',
    'e2e',
    'io',
    'postgres',
    'programs',
    'proxies',
    'sim',
    'upgrade',
  ],
} as const;

export type Lane = keyof typeof lanes;

/** What a name of a file says beyond its folder. */
export const endings = {
  /** Lane extra, whatever its folder: it searches, kills, floods or waits. */
  extra: '.extra.test.ts',
  /** In none of the lanes: it has only a long form, which `npm run test:long` plays. */
  long: '.long.test.ts',
  /** It judges time or memory: it runs after all others, and nothing beside it. */
  alone: '.alone.test.ts',
} as const;

const isLane = (name: string): name is Lane => Object.hasOwn(lanes, name);

/** The lanes that LANES names, as `pure,service`; without it, all of them. */
export function askedLanes(names: string | undefined): readonly Lane[] {
  if (names === undefined || names === '') return Object.keys(lanes).filter(isLane);
  return names.split(',').map((name) => {
    if (isLane(name)) return name;
    throw new Error(
      `LANES names no lane ${JSON.stringify(name)}. There are ${Object.keys(lanes).join(', ')}.`,
    );
  });
}

/** The lane of a test, by the path from the root of the project; null: it is in none. */
export function laneOf(path: string): Lane | 'long' | null {
  if (path.endsWith(endings.long)) return 'long';
  if (path.endsWith(endings.extra)) return 'extra';
  const folder = path.split('/')[1] ?? '';
  return (
    Object.keys(lanes)
      .filter(isLane)
      .find((lane) => lanes[lane].some((each) => each === folder)) ?? null
  );
}
