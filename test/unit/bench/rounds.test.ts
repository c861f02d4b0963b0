import { describe, expect, it } from 'vitest';
import { interleaved } from '../../../bench/rounds.ts';

/** Two sides whose figures count the measurements, on a host that takes all the time of some rounds. */
async function measure(stolenInRounds: readonly number[]) {
  const names: string[] = [];
  let stolen = 0;
  const side = (name: string) => ({
    name,
    measure: async () => {
      const number = names.push(name);
      if (stolenInRounds.includes(Math.ceil(number / 2))) stolen += 1_000 - number;
      return { perSecond: number, perCpuSecond: number, coresBusy: 1 };
    },
  });
  const figures = await interleaved([side('a'), side('b')], {
    rounds: 2,
    seconds: 0,
    say: () => undefined,
    stolenSeconds: () => stolen,
  });
  const of = (name: string) => (figures.get(name) ?? []).map(({ perSecond }) => perSecond);
  return { names: names.join(''), a: of('a'), b: of('b') };
}

describe('the rounds of a row', () => {
  it('measure the sides in turns', async () => {
    expect(await measure([])).toEqual({ names: 'abba', a: [1, 4], b: [2, 3] });
  });

  it('are measured again where the host took the machine, and all sides of a round are kept or none', async () => {
    expect(await measure([1])).toEqual({ names: 'abbaab', a: [4, 5], b: [3, 6] });
  });

  it('end after twice as many, with those that lost least', async () => {
    const { names, a, b } = await measure([1, 2, 3, 4]);
    expect(names).toBe('abbaabba');
    expect([a.length, b.length]).toEqual([2, 2]);
  });
});
