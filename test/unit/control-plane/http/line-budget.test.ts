import { expect, it } from 'vitest';
import { LineBudget } from '../../../../control-plane/http/line-budget.ts';
import type { MonotonicMillis } from '../../../../shared/model/time.ts';

it('bounds the lines of a second for each code, and counts what is left out', () => {
  let nowMs = 5_000;
  const budget = new LineBudget(
    { monotonic: () => nowMs as MonotonicMillis },
    { linesMax: 10, perMs: 1_000, keysMax: 9 },
  );
  const flood = () => Array.from({ length: 1_000 }, () => budget.take('overloaded'));
  const written = flood().filter((leftOut) => leftOut !== null);
  expect(written).toEqual(Array(10).fill(0));
  expect(budget.take('internal_error')).toBe(0);
  nowMs += 999;
  expect(budget.take('overloaded')).toBeNull();
  nowMs += 1;
  expect(flood().filter((leftOut) => leftOut !== null)).toEqual([991, ...Array(9).fill(0)]);
});
