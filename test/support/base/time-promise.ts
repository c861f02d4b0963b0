import { measureStall } from './machine-stall.ts';
import { until } from './until.ts';

/** How long something took, and how long the machine stood still meanwhile, both in milliseconds. */
export interface Timed {
  readonly ms: number;
  readonly stalledMs: number;
}

/** A machine that stands still five times in a row is too busy to hold a promise about time on. */
const triesMax = 5;

/**
 * Holds a promise about time: throws unless what is tried takes less than `boundMs`. The time is held as it
 * is, with nothing subtracted. Where it was too long and the machine stood still for more than half of the
 * bound, the try is inconclusive and is repeated, five tries at most; so each try sets up what it needs.
 */
export async function expectWithin(
  boundMs: number,
  what: string,
  attempt: () => Promise<Timed>,
): Promise<Timed> {
  const inconclusive: string[] = [];
  while (inconclusive.length < triesMax) {
    const timed = await attempt();
    if (timed.ms < boundMs) return timed;
    const found = `${Math.round(timed.ms)} ms, with the machine still for ${Math.round(timed.stalledMs)} ms`;
    if (timed.stalledMs <= boundMs / 2) throw new Error(`${what} within ${boundMs} ms: took ${found}`);
    inconclusive.push(found);
  }
  throw new Error(`${what} within ${boundMs} ms: no try was conclusive:\n${inconclusive.join('\n')}`);
}

/**
 * As `expectWithin`, of something that cannot be tried again: where the machine stood still for more than
 * half of the bound, a time that was too long shows nothing.
 */
export function expectOnceWithin(boundMs: number, what: string, { ms, stalledMs }: Timed): void {
  if (ms < boundMs || stalledMs > boundMs / 2) return;
  const stalled = `with the machine still for ${Math.round(stalledMs)} ms`;
  throw new Error(`${what} within ${boundMs} ms: took ${Math.round(ms)} ms, ${stalled}`);
}

/** Measures the work. `result`: what it resolves to. */
export async function timed<T>(work: () => Promise<T>): Promise<Timed & { readonly result: T }> {
  const stalledMs = measureStall();
  const startedMs = performance.now();
  const result = await work();
  return { ms: performance.now() - startedMs, stalledMs: stalledMs(), result };
}

/**
 * Measures until the condition was last seen not to hold; how long a look takes is not part of it. Gives up
 * as `until` does.
 */
export async function timeUntil(condition: () => boolean | Promise<boolean>, what: string): Promise<Timed> {
  const stalledMs = measureStall();
  const startedMs = performance.now();
  let notYetAfterMs = 0;
  const look = async (): Promise<boolean> => {
    const afterMs = performance.now() - startedMs;
    const holds = await condition();
    if (!holds) notYetAfterMs = afterMs;
    return holds;
  };
  // A longer pause would make what is measured look shorter than it was.
  await until(look, { what, pauseMsMax: 5 });
  return { ms: notYetAfterMs, stalledMs: stalledMs() };
}

/** The one in the middle by time; of an even number, the slower of two. */
export function medianOf(tries: readonly Timed[]): Timed {
  const middle = tries.toSorted((a, b) => a.ms - b.ms)[Math.floor(tries.length / 2)];
  if (middle === undefined) throw new Error('a median needs a try');
  return middle;
}
