import { LRUCache } from 'lru-cache';
import type { Clock } from '../../shared/runtime/clock.ts';

/** Rate limit of attempts per key. */
export interface AttemptLimit {
  /**
   * Counts one attempt. Returns null within the limit, else the milliseconds until the key may try again; a
   * refused attempt does not extend that time.
   */
  take(key: string): number | null;
  /** Uncounts an attempt that turned out to be none. */
  giveBack(key: string): void;
}

/**
 * At most `max` attempts of one key in `windowMs`, counted from its first one. Counts are kept in this
 * process: N replicas allow N times as many. Remembers `keysMax` keys; beyond that the oldest are evicted and
 * may try again early, so the total work needs a second bound.
 */
export function attemptLimit(
  clock: Pick<Clock, 'monotonic'>,
  { max, windowMs, keysMax }: { readonly max: number; readonly windowMs: number; readonly keysMax: number },
): AttemptLimit {
  const counts = new LRUCache<string, number>({
    max: keysMax,
    ttl: windowMs,
    noUpdateTTL: true,
    // Read the clock at every access; the default caches it for a millisecond with a timer.
    ttlResolution: 0,
    perf: { now: () => clock.monotonic() },
  });
  return {
    take: (key) => {
      const count = counts.get(key) ?? 0;
      if (count >= max) return Math.max(1, Math.ceil(counts.getRemainingTTL(key)));
      counts.set(key, count + 1);
      return null;
    },
    giveBack: (key) => {
      const count = counts.get(key) ?? 0;
      if (count > 0) counts.set(key, count - 1);
    },
  };
}
