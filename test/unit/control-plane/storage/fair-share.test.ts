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
  const share = fairShare<string>({
    atOnceMax: 1,
    perOwnerMax: 1,
    waitingPerOwnerMax: 1,
    waitMsMax: minuteMs,
  });
  const failed = share('a', () => Promise.reject(new Error('away')));
  const next = share('b', async () => 'done');
  await expect(failed).rejects.toThrow('away');
  expect(await next).toBe('done');
});

it('refuses what waited as long as it may, and gives its turn to the next one', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  const share = fairShare<string>({ atOnceMax: 1, perOwnerMax: 1, waitingPerOwnerMax: 3, waitMsMax: 100 });
  let end: () => void = () => undefined;
  const first = share('a', () => new Promise<void>((resolve) => (end = resolve)));
  const done: string[] = [];
  const ask = (name: string, waitMsMax?: number | null) =>
    share(
      'a',
      async () => {
        done.push(name);
      },
      waitMsMax,
    );
  const late = expect(ask('late')).rejects.toMatchObject({ code: 'overloaded', retryAfterS: 1 });
  const hasty = expect(ask('hasty', 20)).rejects.toMatchObject({ code: 'overloaded' });
  const patient = ask('patient', null);
  await expect(ask('beyond')).rejects.toMatchObject({ code: 'overloaded' });
  vi.advanceTimersByTime(20);
  await hasty;
  // In the place of the one that gave up.
  const next = ask('next');
  vi.advanceTimersByTime(80);
  await late;
  end();
  await Promise.all([first, patient, next]);
  expect(done).toEqual(['patient', 'next']);
  expect(vi.getTimerCount()).toBe(0);
});
