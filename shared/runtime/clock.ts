import type { MonotonicMillis, UnixMillis } from '../model/time.ts';

/** The only source of time. `now` may jump with the wall clock; `monotonic` never goes back and measures durations. */
export interface Clock {
  now(): UnixMillis;
  monotonic(): MonotonicMillis;
}

export const systemClock: Clock = {
  now: () => Date.now() as UnixMillis,
  monotonic: () => performance.now() as MonotonicMillis,
};
