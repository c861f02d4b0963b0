import { describe, expect, it } from 'vitest';
import { type Decisions, onlyPermits } from '../../../bench/harness/permits.ts';

/** A load of so many answers, beside what the sidecar counted before and after it. */
function load(answers: number, ...counts: readonly (readonly [made: number, permitted: number])[]) {
  const left = counts.map(([made, permitted]): Decisions => ({ made, permitted }));
  const decisions = async () => left.shift() as Decisions;
  const of = { name: 'a sidecar', programs: [{}, { decisions }], underWayMax: 64 };
  return onlyPermits(of, async () => ({ done: answers }));
}

describe('a load that must be answered by PERMITs', () => {
  it('has as many PERMITs as answers, but for those under way at its end', async () => {
    expect(await load(1_000, [50, 20], [1_050, 1_020])).toEqual({ done: 1_000 });
    expect(await load(1_000, [50, 20], [1_114, 1_084])).toEqual({ done: 1_000 });
  });

  it('fails where a decision is no PERMIT', async () => {
    await expect(load(1_000, [50, 20], [1_050, 1_019])).rejects.toThrow(
      'a sidecar: 1 of 1000 decisions were no PERMIT',
    );
  });

  it('fails where there are more answers than decisions', async () => {
    await expect(load(1_001, [50, 20], [1_050, 1_020])).rejects.toThrow(
      'a sidecar: 1001 answers to 1000 decisions',
    );
  });

  it('fails where more decisions are unanswered than can be under way', async () => {
    await expect(load(1_000, [50, 20], [1_115, 1_085])).rejects.toThrow(
      'a sidecar: 1000 answers to 1065 decisions',
    );
  });

  it('is not checked where no program counts decisions', async () => {
    const of = { name: 'a peer', programs: [{}], underWayMax: 64 };
    expect(await onlyPermits(of, async () => ({ done: 7 }))).toEqual({ done: 7 });
  });
});
