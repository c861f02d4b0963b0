import type { MonotonicMillis, UnixMillis } from '../../../shared/model/time.ts';
import type { Clock } from '../../../shared/runtime/clock.ts';

/**
 * For `vi.useFakeTimers` where the time stands still: all but `nextTick` and microtasks, without which
 * nothing that is awaited would go on.
 */
export const fakedTimers = [
  'setTimeout',
  'clearTimeout',
  'setInterval',
  'clearInterval',
  'setImmediate',
  'clearImmediate',
  'performance',
  'Date',
] as const;

/**
 * The time that faked timers move. The clocks of the machine would find it at odds with the uptime, and take
 * that for sleep.
 */
export const fakedClock: Clock = {
  now: () => Date.now() as UnixMillis,
  monotonic: () => performance.now() as MonotonicMillis,
};
