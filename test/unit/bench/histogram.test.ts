import { expect, test } from 'vitest';
import { addedUp, emptyHistogram, note, percentileMs } from '../../../bench/harness/histogram.ts';

test('gives the percentiles of what it was told within 2.2 %, from a microsecond to minutes', () => {
  for (const scaleMs of [0.01, 1, 60]) {
    const histogram = emptyHistogram();
    for (let i = 1; i <= 10_000; i += 1) note(histogram, (i / 10_000) * scaleMs);
    for (const share of [0.5, 0.99, 0.999, 1]) {
      const wrong = percentileMs(histogram, share) / (share * scaleMs);
      expect(wrong).toBeGreaterThanOrEqual(0.999);
      expect(wrong).toBeLessThan(1.023);
    }
  }
});

test('one slow answer among a hundred is in the maximum and not in the p99 before it', () => {
  const histogram = emptyHistogram();
  for (let i = 0; i < 99; i += 1) note(histogram, 1);
  note(histogram, 1_000);
  expect(percentileMs(histogram, 0.99)).toBeLessThan(1.03);
  expect(percentileMs(histogram, 1)).toBeGreaterThanOrEqual(1_000);
});

test('adds the counts of several rounds', () => {
  const [fast, slow] = [emptyHistogram(), emptyHistogram()];
  for (let i = 0; i < 3; i += 1) note(fast, 1);
  note(slow, 100);
  expect(percentileMs(addedUp([fast, slow]), 0.75)).toBeLessThan(1.03);
  expect(percentileMs(addedUp([fast, slow]), 1)).toBeGreaterThanOrEqual(100);
});

test('an empty one has no percentile', () => {
  expect(percentileMs(emptyHistogram(), 0.5)).toBeNaN();
});
