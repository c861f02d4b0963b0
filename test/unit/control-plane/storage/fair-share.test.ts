import { afterEach, expect, it, vi } from 'vitest';
import { fairShare } from '../../../../control-plane/storage/fair-share.ts';
import { minuteMs } from '../../../../shared/model/time.ts';

/** Work that ends when a test says so, and the owners whose work has begun, in order. */
function shareUnderTest(bounds: { atOnceMax: number; perOwnerMax: number; waitingPerOwnerMax: number }) {
  const share = fairShare<string>({ ...bounds, waitMsMax: minuteMs });
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

afterEach(() => {
  vi.useRealTimers();
});

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
