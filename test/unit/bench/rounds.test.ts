import { describe, expect, it } from 'vitest';
import { interleaved } from '../../../bench/rounds.ts';

/** Two sides whose figures count the measurements, on a host that takes so many seconds of a round. */
async function measure(stolenByRound: readonly number[]) {
  const names: string[] = [];
  let stolen = 0;
  const side = (name: string) => ({
    name,
    measure: async () => {
      const number = names.push(name);
      stolen += stolenByRound[Math.ceil(number / 2) - 1] ?? 0;
      return { perSecond: number, perCpuSecond: number, coresBusy: 1 };
    },
  });
  const figures = await interleaved([side('a'), side('b')], {
    rounds: 2,
    seconds: 0,
    say: () => undefined,
    stolenSeconds: () => stolen,
    sharedReadNs: () => 10 * (names.length + 1),
  });
  const of = (name: string) => (figures.get(name) ?? []).map(({ perSecond }) => perSecond);
  const readsOf = (name: string) => (figures.get(name) ?? []).map(({ sharedReadNs }) => sharedReadNs);
  return {
    measured: { names: names.join(''), a: of('a'), b: of('b') },
    reads: { a: readsOf('a'), b: readsOf('b') },
  };
}

describe('the rounds of a row', () => {
  it('measure the sides in turns', async () => {
    expect((await measure([])).measured).toEqual({ names: 'abba', a: [1, 4], b: [2, 3] });
  });

  it('look at the shared cache before each measurement', async () => {
    expect((await measure([])).reads).toEqual({ a: [10, 40], b: [20, 30] });
  });

  it('are measured again where the host took the machine, and all sides of a round are kept or none', async () => {
    expect((await measure([1e3])).measured).toEqual({ names: 'abbaab', a: [4, 5], b: [3, 6] });
  });

  it('end after half as many more, with those that lost least', async () => {
    expect((await measure([1e9, 1e3, 1e6])).measured).toEqual({ names: 'abbaab', a: [4, 5], b: [3, 6] });
  });
});
