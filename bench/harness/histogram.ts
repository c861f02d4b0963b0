/**
 * Counts of times by size: the first bucket ends at a microsecond, and each is 1/32 of a doubling wider than
 * the one before, so that a percentile is off by 2.2 % at most, whatever its size, up to an hour.
 */
export type Histogram = Float64Array;

const bucketsPerDoubling = 32;
const firstMs = 0.001;
const buckets = 32 * bucketsPerDoubling;

export const emptyHistogram = (): Histogram => new Float64Array(buckets);

export function note(histogram: Histogram, timeMs: number): void {
  const bucket = Math.ceil(Math.log2(Math.max(timeMs, firstMs) / firstMs) * bucketsPerDoubling);
  const place = Math.min(bucket, buckets - 1);
  histogram[place] = (histogram[place] ?? 0) + 1;
}

/** The upper end of the bucket that so large a share of all times did not pass; NaN of an empty histogram. */
export function percentileMs(histogram: ArrayLike<number>, share: number): number {
  const counts = Array.from(histogram);
  const wanted = counts.reduce((sum, count) => sum + count, 0) * share;
  let passed = 0;
  for (const [bucket, count] of counts.entries()) {
    passed += count;
    if (count > 0 && passed >= wanted) return firstMs * 2 ** (bucket / bucketsPerDoubling);
  }
  return Number.NaN;
}

/** All counts of several histograms together. */
export function addedUp(histograms: readonly ArrayLike<number>[]): Histogram {
  const sum = emptyHistogram();
  for (const histogram of histograms)
    for (let bucket = 0; bucket < buckets; bucket += 1)
      sum[bucket] = (sum[bucket] ?? 0) + (histogram[bucket] ?? 0);
  return sum;
}
