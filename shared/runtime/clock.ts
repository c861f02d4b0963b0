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

/** The readings that a clock is made of, in milliseconds. */
interface Readings {
  /** CLOCK_MONOTONIC: stops while the machine sleeps. */
  awakeMs(): number;
  wallMs(): number;
  /** CLOCK_BOOTTIME: counts sleep and is never set. Costs 5 us, and may be in steps of 10 ms. */
  uptimeMs(): number;
}

/**
 * The clocks of this machine. performance.now() is CLOCK_MONOTONIC on Linux, which stops while the machine
 * sleeps; the wall clock does not, so a change of their difference shows a sleep before any decision on an
 * age. The uptime (CLOCK_BOOTTIME), which counts sleep and is never set, tells a sleep from a set wall clock.
 *
 * The readings are taken one after the other, and the process may be stopped between two. That is no sleep:
 * `awakeMs` goes on meanwhile, so a sleep is what the uptime has beyond an `awakeMs` that was read after it.
 * Counted as one it would put this clock ahead for good, and with it the time of the control plane until the
 * next answer, by which records are stamped.
 */
export function machineClock({ awakeMs, wallMs, uptimeMs }: Readings): Clock {
  let sleptMs = 0;
  let wallAheadMs = wallMs() - awakeMs();

  /** Uptime less the time awake. Null where the process was stopped between the readings. */
  const uptimeAhead = (): number | null => {
    const beganAtMs = awakeMs();
    const upMs = uptimeMs();
    const endedAtMs = awakeMs();
    return endedAtMs - beganAtMs < stepMsMin ? upMs - endedAtMs : null;
  };
  let awakeUptimeAheadMs = uptimeAhead();

  const countSleep = (): void => {
    const aheadMs = uptimeAhead();
    // The next reading of the clock tries again.
    if (aheadMs === null) return;
    awakeUptimeAheadMs ??= aheadMs;
    wallAheadMs = wallMs() - awakeMs();
    const allSleptMs = aheadMs - awakeUptimeAheadMs;
    if (allSleptMs - sleptMs > stepMsMin) sleptMs = allSleptMs;
  };

  return {
    now: () => wallMs() as UnixMillis,
    monotonic: () => {
      const atMs = awakeMs();
      if (Math.abs(wallMs() - atMs - wallAheadMs) > stepMsMin) countSleep();
      return (atMs + sleptMs) as MonotonicMillis;
    },
  };
}

export const systemClock: Clock = machineClock({
  awakeMs: () => performance.now(),
  wallMs: () => Date.now(),
  uptimeMs: () => uptime() * secondMs,
});
