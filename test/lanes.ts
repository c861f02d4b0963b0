/** The folders below `test` of each lane. CONTRIBUTING.md says what the tests of a lane may use. */
export const lanes = {
  pure: ['unit', 'property', 'pii'],
  service: ['api', 'database'],
  process: ['e2e', 'faults', 'sim'],
  extra: [
    'bench',
    'clients',
    'console',
    'contract',
    'docs',
    'io',
    'postgres',
    'programs',
    'proxies',
    'upgrade',
  ],
} as const;

export type Lane = keyof typeof lanes;

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
export function laneOf(path: string): Lane | null {
  const folder = path.split('/')[1] ?? '';
  return (
    Object.keys(lanes)
      .filter(isLane)
      .find((lane) => lanes[lane].some((each) => each === folder)) ?? null
  );
}
