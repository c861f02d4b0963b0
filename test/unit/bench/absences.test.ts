import { expect, test } from 'vitest';
import { Absences, absentShare } from '../../../bench/harness/absences.ts';

const looking = (looksMs: readonly number[]): Absences => {
  const absences = new Absences(looksMs[0] ?? 0);
  for (const lookMs of looksMs) absences.look(lookMs);
  return absences;
};

test('a process that looks at the clock again and again was there, however much it does', () => {
  const absences = looking(Array.from({ length: 100 }, (_, index) => index * 0.25));
  expect(absences.sinceMs(0)).toBe(0);
});

test('it was away where two looks are too far apart', () => {
  const absences = looking([0, 1, 1.1, 4, 4.1]);
  expect(absences.sinceMs(0)).toBeCloseTo(1 + 2.9);
  expect(absences.sinceMs(1)).toBeCloseTo(2.9);
});

test('what began during an absence has its end, and what began behind it nothing of it', () => {
  const absences = looking([0, 0.1, 3, 3.1]);
  expect(absences.sinceMs(2)).toBeCloseTo(1);
  expect(absences.sinceMs(3)).toBe(0);
  expect(absences.sinceMs(3.05)).toBe(0);
});

test('says of how many requests of all rounds it was away', () => {
  const rounds = [
    { times: [0, 60, 30], watched: [0, 60, 20] },
    { times: [10, 0, 0], watched: [10, 0, 0] },
  ];
  expect(absentShare(rounds)).toBeCloseTo(0.1);
});
