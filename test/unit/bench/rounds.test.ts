import { describe, expect, it } from 'vitest';
import { interleaved, medianInterval } from '../../../bench/harness/rounds.ts';

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
  return { names: names.join(''), a: of('a'), b: of('b') };
}

describe('the rounds of a row', () => {
  it('measure the sides in turns', async () => {
    expect(await measure([])).toEqual({ names: 'abba', a: [1, 4], b: [2, 3] });
  });

  it('are repeated where the host took the machine, all sides of a round together', async () => {
    expect(await measure([1e3])).toEqual({ names: 'abbaab', a: [4, 5], b: [3, 6] });
  });

  it('end after half as many more, and keep those that lost least', async () => {
    expect(await measure([1e9, 1e3, 1e6])).toEqual({ names: 'abbaab', a: [4, 5], b: [3, 6] });
  });
});

describe('the median of some rounds', () => {
  it('has an interval of 95 %', () => {
    const upTo = (count: number) => medianInterval(Array.from({ length: count }, (_, index) => index + 1));

    expect(upTo(6)).toEqual({ median: 3.5, low: 1, high: 6 });
    expect(upTo(9)).toEqual({ median: 5, low: 2, high: 8 });
    expect(upTo(12)).toEqual({ median: 6.5, low: 3, high: 10 });
  });

  it('has their whole range as interval where they are few', () => {
    expect(medianInterval([3, 1, 2])).toEqual({ median: 2, low: 1, high: 3 });
    expect(medianInterval([7])).toEqual({ median: 7, low: 7, high: 7 });
  });
});
