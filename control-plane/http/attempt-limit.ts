import { LRUCache } from 'lru-cache';
import type { Clock } from '../../shared/runtime/clock.ts';

/** How often something may be tried under one key. */
export interface AttemptLimit {
  /**
   * Counts one attempt. Returns null where it is within the limit, otherwise the milliseconds until the key
   * may try again; a refused attempt does not extend that time.
   */
  take(key: string): number | null;
  /** Takes back one that was counted, because it turned out to be none. */
  giveBack(key: string): void;
}

/**
 * At most `max` attempts of one key in `windowMs`, counted from its first one. Counts are kept in this
 * process: N replicas allow N times as many. Remembers `keysMax` keys; with more than that the oldest are
 * forgotten and may try again early, so a second bound on the work as a whole has to exist beside this one.
 */
export function attemptLimit(
  clock: Pick<Clock, 'monotonic'>,
  { max, windowMs, keysMax }: { readonly max: number; readonly windowMs: number; readonly keysMax: number },
): AttemptLimit {
  const counts = new LRUCache<string, number>({
    max: keysMax,
    ttl: windowMs,
    noUpdateTTL: true,
    // Read the clock at every look: the default reads it once a millisecond by means of a timer.
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
