import { expect, test } from 'vitest';
import { Absences, absentShare } from '../../../bench/harness/absences.ts';

const looking = (looksMs: readonly number[]): Absences => {
  const absences = new Absences(looksMs[0] ?? 0);
  for (const lookMs of looksMs) absences.look(lookMs);
  return absences;
};

test('a process that reads the clock often enough has no absence', () => {
  const absences = looking(Array.from({ length: 100 }, (_, index) => index * 0.25));
  expect(absences.sinceMs(0)).toBe(0);
});

test('a gap between two readings of the clock is an absence', () => {
  const absences = looking([0, 1, 1.1, 4, 4.1]);
  expect(absences.sinceMs(0)).toBeCloseTo(1 + 2.9);
  expect(absences.sinceMs(1)).toBeCloseTo(2.9);
});

test('a request is charged with the part of an absence that it overlaps', () => {
  const absences = looking([0, 0.1, 3, 3.1]);
  expect(absences.sinceMs(2)).toBeCloseTo(1);
  expect(absences.sinceMs(3)).toBe(0);
  expect(absences.sinceMs(3.05)).toBe(0);
});

test('the share of requests with an absence is over all rounds', () => {
  const rounds = [
    { times: [0, 60, 30], watched: [0, 60, 20] },
    { times: [10, 0, 0], watched: [10, 0, 0] },
  ];
  expect(absentShare(rounds)).toBeCloseTo(0.1);
});
