import { minuteMs } from '../../shared/model/time.ts';
import type { Clock } from '../../shared/runtime/clock.ts';
import type { DurationHistogram } from '../../shared/runtime/duration-histogram.ts';
import type { DecisionTimes } from '../../shared/wire/sync/decision-times.ts';

/**
 * Reads the decision times of the last minute. A minute ends at the first read after it, so no timer is
 * needed. Null until the first minute has ended.
 */
export function decisionTimesOfMinute(
  durations: Pick<DurationHistogram, 'counts' | 'boundsMs'>,
  clock: Pick<Clock, 'monotonic'>,
): () => DecisionTimes | null {
  let before = durations.counts;
  let beganAtMs = clock.monotonic();
  let last: DecisionTimes | null = null;
  return () => {
    if (clock.monotonic() - beganAtMs >= minuteMs) {
      const now = durations.counts;
      last = timesOf(
        now.map((count, index) => count - (before[index] ?? 0)),
        durations.boundsMs,
      );
      before = now;
      beganAtMs = clock.monotonic();
    }
    return last;
  };
}

/** Times above every bound count as the largest bound, which is beyond the deadline of decisions. */
function timesOf(counts: readonly number[], boundsMs: readonly number[]): DecisionTimes {
  const decisions = counts.reduce((sum, count) => sum + count, 0);
  const boundOf = (part: number): number | null => {
    let below = 0;
    const index = counts.findIndex((count) => {
      below += count;
      return below >= part * decisions;
    });
    return decisions === 0 ? null : (boundsMs[Math.min(index, boundsMs.length - 1)] ?? null);
  };
  return { decisions, p50Ms: boundOf(0.5), p99Ms: boundOf(0.99) };
}
