import { describe, expect, it } from 'vitest';
import { expectWithin, medianOf, type Timed } from '../../support/time-promise.ts';

/** Plays these tries, the last again and again, and counts them. */
function playing(...tries: readonly Timed[]) {
  const played = { count: 0 };
  const attempt = async (): Promise<Timed> => {
    played.count += 1;
    return tries[Math.min(played.count, tries.length) - 1] ?? { ms: 0, stalledMs: 0 };
  };
  return { played, holding: expectWithin(100, 'it is done', attempt) };
}

describe('a promise about time', () => {
  it('is kept by a try within the bound, however busy the machine was', async () => {
    const { played, holding } = playing({ ms: 99, stalledMs: 1_000 });
    expect(await holding).toEqual({ ms: 99, stalledMs: 1_000 });
    expect(played.count).toBe(1);
  });

  it('is broken by one try at the bound where the machine stood still for half of it', async () => {
    const { played, holding } = playing({ ms: 100, stalledMs: 50 }, { ms: 1, stalledMs: 0 });
    await expect(holding).rejects.toThrow('it is done within 100 ms: took 100 ms');
    expect(played.count).toBe(1);
  });

  it('is tried again where the machine stood still for longer, and nothing is subtracted', async () => {
    const { played, holding } = playing({ ms: 101, stalledMs: 51 }, { ms: 50, stalledMs: 0 });
    expect((await holding).ms).toBe(50);
    expect(played.count).toBe(2);
  });

  it('is broken after five tries that say nothing', async () => {
    const { played, holding } = playing({ ms: 5_000, stalledMs: 5_000 });
    await expect(holding).rejects.toThrow('no try was conclusive');
    expect(played.count).toBe(5);
  });
});

it('a median is the middle by time', () => {
  const of = (...times: readonly number[]) => medianOf(times.map((ms) => ({ ms, stalledMs: 0 }))).ms;
  expect([of(3, 1, 2), of(7), of(4, 1, 3, 2)]).toEqual([2, 7, 3]);
});
