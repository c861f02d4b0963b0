import { uptime } from 'node:os';
import { type MonotonicMillis, secondMs, type UnixMillis } from '../model/time.ts';

/**
 * The only source of time. `now` may jump with the wall clock; `monotonic` never goes back and measures
 * durations.
 */
export interface Clock {
  /** `momentMs`: the value of `monotonic`, if just read, to save a carried clock a second reading. */
  now(momentMs?: MonotonicMillis): UnixMillis;
  /** Includes the sleep of the machine, as far as the system counts it, so that ages are true. */
  monotonic(): MonotonicMillis;
}

/** One reading of both clocks, the moment of a whole synchronous section. */
export interface Moment {
  readonly monotonicMs: MonotonicMillis;
  readonly nowMs: UnixMillis;
}

export function momentOf(clock: Clock): Moment {
  const monotonicMs = clock.monotonic();
  return { monotonicMs, nowMs: clock.now(monotonicMs) };
}

/**
 * A change of this size in wall clock minus awake time means that the machine slept, or the wall clock was
 * set.
 */
const stepMsMin = secondMs / 4;

/**
 * The clocks of this machine. performance.now() is CLOCK_MONOTONIC on Linux, which stops while the machine
 * sleeps; the wall clock does not, so a change of their difference shows a sleep before any decision on an
 * age. The uptime (CLOCK_BOOTTIME), which counts sleep and is never set, tells a sleep from a set wall clock.
 * It takes 5 us, so it is read only then.
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
