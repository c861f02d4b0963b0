import { describe, expect, it } from 'vitest';
import { judgedMemory } from '../../../bench/harness/memory.ts';
import type { Table } from '../../../bench/harness/table.ts';
import { verdictsOf } from '../../../bench/harness/verdict.ts';

const mebibyte = 1024 ** 2;

/** Row `export` with these amounts, one for each step. */
function tableOf(...mebibytes: readonly number[]): Table {
  const taken = mebibytes.map((amount, step) => ({ what: `step ${step}`, bytes: amount * mebibyte }));
  return {
    ...{ row: 'export', title: '', unit: '', rounds: 1, secondsEach: 1, lines: [], skipped: [] },
    ...judgedMemory('P19 memory', taken),
  };
}

describe('the memory of an export', () => {
  it.each([
    [32, 'beyond'],
    [64, 'met'],
    [64.1, 'missed'],
  ])('is judged: %d MiB are %s', (amount, status) => {
    expect(verdictsOf(tableOf(amount))).toMatchObject([{ target: 'P19 memory', figure: amount, status }]);
  });

  it('is judged by the step that takes most', () => {
    expect(verdictsOf(tableOf(49.2, 158.5, 45.9))).toMatchObject([{ figure: 158.5, status: 'missed' }]);
  });

  it('has a note per step', () => {
    expect(tableOf(49.2, 158.5).notes).toEqual([
      'step 0: 49.2 MiB (P19 memory: 64.0 met).',
      'step 1: 158.5 MiB (P19 memory: 64.0 **missed**).',
    ]);
  });
});
