import { expect, test } from 'vitest';
import { CoreWaits } from '../../../bench/harness/absences.ts';

/** Of a thread that waits as long as told between one look and the next one. */
function sumOf(waitsMs: readonly number[], everyMs: number): number {
  let waitedMs = 1_000;
  const waits = new CoreWaits(() => waitedMs);
  for (const [index, waitMs] of waitsMs.entries()) {
    waitedMs += waitMs;
    waits.look(index * everyMs);
  }
  return waits.sumMs;
}

test('waits for a core are counted above the length of a switch', () => {
  expect(sumOf([0.003, 4, 0.005, 0.2], 0.2)).toBeCloseTo(4.2);
});

test('waits for a core are read no more often than necessary', () => {
  let reads = 0;
  const waits = new CoreWaits(() => {
    reads += 1;
    return 0;
  });
  for (let nowMs = 0; nowMs < 10; nowMs += 0.01) waits.look(nowMs);
  expect(reads).toBeLessThanOrEqual(1 + 10 / 0.2);
});
