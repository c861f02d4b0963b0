import { isFault } from './plan.ts';
import type { Simulation } from './simulation.ts';
import type { Result } from './world.ts';

export interface Shrunk {
  readonly result: Result;
  /** The steps that the violation does not need. */
  readonly without: ReadonlySet<number>;
}

/**
 * Leaves out faults and then requests as long as something is violated: halves, then quarters, down to single
 * steps. `triesMax` bounds how often the seed is played.
 */
export async function shrink({ runSeed }: Simulation, failed: Result, triesMax = 150): Promise<Shrunk> {
  let shrunk: Shrunk = { result: failed, without: new Set() };
  let tries = 0;
  const tryWithout = async (places: readonly number[]): Promise<boolean> => {
    tries++;
    const without = new Set([...shrunk.without, ...places]);
    const result = await runSeed(failed.seed, { without });
    if (result.violation === null) return false;
    shrunk = { result, without };
    return true;
  };
  const all = failed.steps.map((step, place) => ({ step, place }));
  for (const steps of [all.filter(({ step }) => isFault(step)), all.filter(({ step }) => !isFault(step))]) {
    let left = steps.map(({ place }) => place);
    for (let size = left.length; size >= 1 && tries < triesMax; size = Math.floor(size / 2)) {
      const kept: number[] = [];
      for (let at = 0; at < left.length; at += size) {
        const some = left.slice(at, at + size);
        if (tries >= triesMax || !(await tryWithout(some))) kept.push(...some);
      }
      left = kept;
    }
  }
  return shrunk;
}

/** The command that plays it again. */
export const replayOf = ({ result, without }: Shrunk): string =>
  `npm run sim -- --seed ${result.seed}${without.size === 0 ? '' : ` --without ${renderPlaces(without)}`}`;

/** As `0-4,7`. */
export function renderPlaces(places: Iterable<number>): string {
  const runs: [number, number][] = [];
  for (const place of [...places].sort((one, other) => one - other)) {
    const last = runs.at(-1);
    if (last !== undefined && place === last[1] + 1) last[1] = place;
    else runs.push([place, place]);
  }
  return runs.map(([first, last]) => (first === last ? `${first}` : `${first}-${last}`)).join();
}

export function parsePlaces(text: string): Set<number> {
  const places = new Set<number>();
  for (const run of text.split(',')) {
    const [first = '', last = first] = run.split('-');
    for (let place = Number(first); place <= Number(last); place++) places.add(place);
  }
  return places;
}

/** What somebody needs who sees this seed fail; null: it does not. */
export async function explained(simulation: Simulation, seed: bigint): Promise<string | null> {
  const result = await simulation.runSeed(seed);
  if (result.violation === null) return null;
  return `${result.violation}\n${replayOf(await shrink(simulation, result))}`;
}
