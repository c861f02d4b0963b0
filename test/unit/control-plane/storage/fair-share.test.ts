import { expect, it } from 'vitest';
import { fairShare } from '../../../../control-plane/storage/fair-share.ts';

/** Work that ends when a test says so, and the owners whose work has begun, in order. */
function shareUnderTest(bounds: { atOnceMax: number; perOwnerMax: number; waitingPerOwnerMax: number }) {
  const share = fairShare<string>(bounds);
  const begun: string[] = [];
  const running: { readonly owner: string; readonly end: () => void }[] = [];
  const settled = () => new Promise((resolve) => setImmediate(resolve));
  return {
    begun,
    settled,
    ask: (owner: string) =>
      share(owner, () => {
        begun.push(owner);
        return new Promise<void>((resolve) => running.push({ owner, end: resolve }));
      }),
    /** Ends the oldest work. */
    end: async () => {
      await settled();
      running.shift()?.end();
      await settled();
    },
  };
}

it('gives the next turn to the owner with the fewest running, whatever waited before', async () => {
  const { ask, begun, end, settled } = shareUnderTest({
    atOnceMax: 4,
    perOwnerMax: 2,
    waitingPerOwnerMax: 10,
  });
  const all = [...'aaaabbbbccc'].map(ask);
  await settled();
  expect(begun).toEqual(['a', 'a', 'b', 'b']);
  all.push(ask('modest'));
  await end();
  await end();
  expect(begun.slice(4)).toEqual(['c', 'modest']);
  for (let n = 0; n < all.length; n++) await end();
  await Promise.all(all);
  expect(begun.slice(6).sort()).toEqual(['a', 'a', 'b', 'b', 'c', 'c']);
});

it('gives equals their turns in rotation', async () => {
  const { ask, begun, end } = shareUnderTest({ atOnceMax: 1, perOwnerMax: 1, waitingPerOwnerMax: 10 });
  const all = [...'aaabbbccc'].map(ask);
  for (let n = 0; n < all.length; n++) await end();
  await Promise.all(all);
  expect(begun.join('')).toBe('abcabcabc');
});

it('refuses an owner of whom too much waits, and no other one', async () => {
  const { ask, begun, end } = shareUnderTest({ atOnceMax: 2, perOwnerMax: 1, waitingPerOwnerMax: 2 });
  const all = [...'aaa'].map(ask);
  await expect(ask('a')).rejects.toMatchObject({ code: 'overloaded' });
  all.push(ask('b'));
  for (let n = 0; n < all.length; n++) await end();
  await Promise.all(all);
  expect(begun.toSorted()).toEqual(['a', 'a', 'a', 'b']);
});

it('gives a turn on where the work fails', async () => {
  const share = fairShare<string>({ atOnceMax: 1, perOwnerMax: 1, waitingPerOwnerMax: 1 });
  const failed = share('a', () => Promise.reject(new Error('away')));
  const next = share('b', async () => 'done');
  await expect(failed).rejects.toThrow('away');
  expect(await next).toBe('done');
});
