import { describe, expect, it } from 'vitest';
import { LeastServed } from '../../../control-plane/people/least-served.ts';
import { ApiError } from '../../../shared/errors/api-error.ts';
import type { MonotonicMillis } from '../../../shared/model/time.ts';

let nowMs = 1;
const clock = { monotonic: () => nowMs as MonotonicMillis };
const bounds = {
  ...{ atOnceMax: 1, atOncePerOwnerMax: 1, waitingMax: 4, waitingPerOwnerMax: 4, ownersMax: 100 },
  ...{ runsCountedMax: 3, rememberedMs: 1_000 },
};

/** Turns of which each ends when the test says so. */
function shared(own: Partial<typeof bounds> = {}) {
  const queue = new LeastServed(clock, { ...bounds, ...own });
  const begun: string[] = [];
  const ends: (() => void)[] = [];
  const ask = (owner: string): Promise<string> =>
    queue
      .run(owner, () => {
        begun.push(owner);
        return new Promise<void>((resolve) => ends.push(resolve));
      })
      .then(
        () => 'done',
        (error: unknown) => (error instanceof ApiError ? error.code : 'broken'),
      );
  const endNext = async (): Promise<void> => {
    ends.shift()?.();
    await new Promise((resolve) => setImmediate(resolve));
  };
  return { queue, begun, ask, endNext };
}

describe('runs', () => {
  it('go to the owner who had the fewest, and among equals to the first', async () => {
    const { begun, ask, endNext } = shared();
    const all = ['a', 'a', 'a', 'b', 'c'].map(ask);
    for (let ended = 0; ended < 5; ended++) await endNext();
    expect(begun).toEqual(['a', 'b', 'c', 'a', 'a']);
    expect(await Promise.all(all)).toEqual(['done', 'done', 'done', 'done', 'done']);
  });

  it('are refused to the owner with the most when the queue is full', async () => {
    const { begun, ask, endNext } = shared();
    const flood = Array.from({ length: 5 }, () => ask('flood'));
    const more = ask('flood');
    const newcomer = ask('new');
    expect(await more).toBe('overloaded');
    expect(await flood[4]).toBe('overloaded');
    await endNext();
    expect(begun).toEqual(['flood', 'new']);
    for (let ended = 0; ended < 5; ended++) await endNext();
    expect(await newcomer).toBe('done');
    expect(await Promise.all(flood.slice(0, 4))).toEqual(['done', 'done', 'done', 'done']);
  });

  it('are not taken from another newcomer', async () => {
    const { ask } = shared();
    for (const owner of ['a', 'b', 'c', 'd', 'e']) void ask(owner);
    expect(await ask('f')).toBe('overloaded');
  });

  it('of an owner are bounded at once and in waiting, and leave the rest to others', async () => {
    const { begun, ask } = shared({ atOnceMax: 3, atOncePerOwnerMax: 2, waitingPerOwnerMax: 1 });
    const asked = Array.from({ length: 4 }, () => ask('a'));
    expect(await asked[3]).toBe('overloaded');
    void ask('b');
    expect(begun).toEqual(['a', 'a', 'b']);
  });

  it('that are forgiven, or long ago, do not count', async () => {
    const { queue, begun, ask, endNext } = shared();
    void ask('office');
    await endNext();
    queue.forgive('office');
    for (const owner of ['a', 'b', 'office', 'c']) void ask(owner);
    for (let ended = 0; ended < 4; ended++) await endNext();
    expect(begun).toEqual(['office', 'a', 'b', 'office', 'c']);
    nowMs += 1_001;
    for (const owner of ['d', 'a', 'e']) void ask(owner);
    for (let ended = 0; ended < 3; ended++) await endNext();
    expect(begun.slice(5)).toEqual(['d', 'a', 'e']);
  });

  it('come round to an owner who had many, once the others had some', async () => {
    const { begun, ask, endNext } = shared();
    for (let run = 0; run < 9; run++) {
      void ask('many');
      await endNext();
    }
    for (let run = 0; run < 3; run++) void ask('few');
    void ask('many');
    for (let ended = 0; ended < 4; ended++) await endNext();
    void ask('few');
    void ask('many');
    void ask('few');
    for (let ended = 0; ended < 3; ended++) await endNext();
    expect(begun.slice(9)).toEqual(['few', 'few', 'few', 'many', 'few', 'many', 'few']);
  });
});
