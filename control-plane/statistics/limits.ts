import { dayMs, hourMs, minuteMs } from '../../shared/model/time.ts';

/** Bounds of this room alone, each with its reason. */
export const statisticsLimits = {
  /** Buckets of one answer: a day of minutes, two months of hours, four years of days. */
  bucketsMax: 1_440,
  /**
   * How long counts are kept: minutes for a look at what is going on, hours for a year and its comparison.
   */
  minutesKeptMs: 2 * dayMs,
  hoursKeptMs: 400 * dayMs,
  /** Rows of counts that one answer may be made of, read with the oldest first: 20 MB. */
  rowsMax: 100_000,
  trimIntervalMs: minuteMs,
  /** As many as one statement may lock; the next statement removes more. */
  rowsPerTrimMax: 10_000,
  /** A call without `from` shows this much. */
  defaultSpanMs: { minute: hourMs, hour: dayMs, day: 30 * dayMs },
} as const;
