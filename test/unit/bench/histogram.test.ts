import { expect, test } from 'vitest';
import { addedUp, emptyHistogram, note, percentileMs } from '../../../bench/harness/histogram.ts';

test('percentiles are within 2.2 %, from a microsecond to minutes', () => {
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

test('one slow answer in a hundred changes the maximum and not the p99', () => {
  const histogram = emptyHistogram();
  for (let i = 0; i < 99; i += 1) note(histogram, 1);
  note(histogram, 1_000);
  expect(percentileMs(histogram, 0.99)).toBeLessThan(1.03);
  expect(percentileMs(histogram, 1)).toBeGreaterThanOrEqual(1_000);
});

test('histograms of several rounds add up', () => {
  const [fast, slow] = [emptyHistogram(), emptyHistogram()];
  for (let i = 0; i < 3; i += 1) note(fast, 1);
  note(slow, 100);
  expect(percentileMs(addedUp([fast, slow]), 0.75)).toBeLessThan(1.03);
  expect(percentileMs(addedUp([fast, slow]), 1)).toBeGreaterThanOrEqual(100);
});
