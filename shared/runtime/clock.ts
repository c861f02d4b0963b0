import { uptime } from 'node:os';
import { type MonotonicMillis, secondMs, type UnixMillis } from '../model/time.ts';

/**
 * The only source of time. `now` may jump with the wall clock; `monotonic` never goes back and measures
 * durations.
 */
export interface Clock {
  /**
   * `momentMs`: what `monotonic` has just returned, so that a clock which is carried on that one is not read
   * again.
   */
  now(momentMs?: MonotonicMillis): UnixMillis;
  /**
   * Counts the time for which the machine slept, as far as its system does: whatever is that old is that old.
   */
  monotonic(): MonotonicMillis;
}

/** One reading of both clocks: everything that one synchronous section does, it does at this moment. */
export interface Moment {
  readonly monotonicMs: MonotonicMillis;
  readonly nowMs: UnixMillis;
}

export function momentOf(clock: Clock): Moment {
  const monotonicMs = clock.monotonic();
  return { monotonicMs, nowMs: clock.now(monotonicMs) };
}

/**
 * Wall clock and awake time that differ by so much more than before: the machine has slept, or the wall clock
 * was set.
 */
const stepMsMin = secondMs / 4;

/**
 * The clocks of this machine. performance.now() is CLOCK_MONOTONIC on Linux, which stops while the machine
 * sleeps; the wall clock does not, so a difference between the two that has changed shows a sleep before
 * anything is decided on an age. Whether it was one, or only somebody who set the wall clock, is known from
 * the uptime (CLOCK_BOOTTIME), which counts sleep and is never set. It takes 5 us to read, and is therefore
 * read only then.
 */
function machineClock(): Clock {
  let sleptMs = 0;
  let wallAheadMs = Date.now() - performance.now();
  const uptimeAheadMs = uptime() * secondMs - performance.now();

  const countSleep = (awakeMs: number): void => {
    wallAheadMs = Date.now() - awakeMs;
    const allSleptMs = uptime() * secondMs - awakeMs - uptimeAheadMs;
    if (allSleptMs - sleptMs > stepMsMin) sleptMs = allSleptMs;
  };

  return {
    now: () => Date.now() as UnixMillis,
    monotonic: () => {
      const awakeMs = performance.now();
      if (Math.abs(Date.now() - awakeMs - wallAheadMs) > stepMsMin) countSleep(awakeMs);
      return (awakeMs + sleptMs) as MonotonicMillis;
    },
  };
}

export const systemClock: Clock = machineClock();
