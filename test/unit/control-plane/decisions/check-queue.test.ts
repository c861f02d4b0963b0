import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { CheckQueue, type Queued } from '../../../../control-plane/decisions/check-queue.ts';
import { decisionsLimits } from '../../../../control-plane/decisions/limits.ts';
import type { AccountId } from '../../../../shared/model/ids.ts';
import type { MonotonicMillis } from '../../../../shared/model/time.ts';
import { fakedClock, fakedTimers } from '../../../support/base/faked-timers.ts';
import { until } from '../../../support/base/until.ts';

const account = 'acct_1' as AccountId;
type Batch = readonly Queued<number, number>[];

/** A queue whose batches are answered when a test says so. */
function queueUnderTest() {
  let nowMs = 0;
  const clock = { monotonic: () => nowMs as MonotonicMillis };
  const queue = new CheckQueue<number, number>({ slots: (_, work) => work(), clock });
  const batches: { readonly batch: Batch; readonly end: (left?: Batch) => void }[] = [];
  const decide = (batch: Batch) =>
    new Promise<Batch>((resolve) => {
      batches.push({
        batch,
        end: (left = []) => {
          for (const each of batch) if (!left.includes(each)) each.resolve(each.call);
          resolve(left);
        },
      });
    });
  return {
    batches,
    join: (call: number, of = account) => queue.join(of, call, decide),
    advance: (ms: number) => {
      nowMs += ms;
    },
    begun: (count: number) => until(() => batches.length === count, { what: `${count} batches` }),
    callsOf: (place: number) => batches[place]?.batch.map(({ call }) => call),
  };
}

describe('CheckQueue', () => {
  it('puts what arrives during a batch into the next one, in its order', async () => {
    const { join, begun, callsOf, batches } = queueUnderTest();
    const answers = [join(1), join(2)];
    await begun(1);
    answers.push(join(3), join(4), join(5));
    batches[0]?.end();
    await begun(2);
    batches[1]?.end();
    expect(await Promise.all(answers)).toEqual([1, 2, 3, 4, 5]);
    expect([callsOf(0), callsOf(1)]).toEqual([
      [1, 2],
      [3, 4, 5],
    ]);
  });

  it('begins the next batch beside one that hangs', async () => {
    const { join, begun, batches } = queueUnderTest();
    const hanging = join(1);
    await begun(1);
    const next = join(2);
    await begun(2);
    batches[1]?.end();
    expect(await next).toBe(2);
    batches[0]?.end();
    expect(await hanging).toBe(1);
  });

  it('does not let one account wait for another', async () => {
    const { join, begun, batches } = queueUnderTest();
    const one = join(1);
    const other = join(2, 'acct_2' as AccountId);
    await begun(2);
    batches[1]?.end();
    expect(await other).toBe(2);
    batches[0]?.end();
    await one;
  });

  it('gives each of a dissolved batch one of its own, behind none of which the next waits', async () => {
    const { join, begun, callsOf, batches } = queueUnderTest();
    const answers = [join(1), join(2)];
    await begun(1);
    batches[0]?.end(batches[0].batch);
    await begun(3);
    answers.push(join(3));
    for (const { end } of batches.slice(1)) end();
    await begun(4);
    batches[3]?.end();
    expect(await Promise.all(answers)).toEqual([1, 2, 3]);
    expect([callsOf(1), callsOf(2), callsOf(3)]).toEqual([[1], [2], [3]]);
  });

  it('refuses what it has no room for, and what no batch takes in time', async () => {
    const { join, begun, callsOf, advance, batches } = queueUnderTest();
    const first = join(0);
    await begun(1);
    const { waitingPerAccountMax } = decisionsLimits.checks;
    const late = Array.from({ length: waitingPerAccountMax }, (_, call) => join(call));
    const ends = Promise.allSettled(late);
    await expect(join(-1)).rejects.toMatchObject({ code: 'overloaded', retryAfterS: 1 });
    advance(decisionsLimits.checks.waitMsMax);
    batches[0]?.end();
    await first;
    expect(new Set((await ends).map((end) => end.status === 'rejected' && end.reason.code))).toEqual(
      new Set(['overloaded']),
    );
    const after = join(7);
    await until(() => callsOf(batches.length - 1)?.includes(7) === true, { what: 'a batch after it' });
    batches.at(-1)?.end();
    expect(await after).toBe(7);
  });

  it('takes no more into a batch than one transaction settles', async () => {
    const { join, begun, callsOf, batches } = queueUnderTest();
    const { batchMax } = decisionsLimits.checks;
    const answers = Array.from({ length: batchMax + 1 }, (_, call) => join(call));
    await begun(1);
    batches[0]?.end();
    await begun(2);
    batches[1]?.end();
    await Promise.all(answers);
    expect([callsOf(0)?.length, callsOf(1)?.length]).toEqual([batchMax, 1]);
  });

  it('fails a batch whose transaction could not begin, and goes on', async () => {
    const queue = new CheckQueue<number, number>({
      slots: (_, work) => work(),
      clock: { monotonic: () => 0 as MonotonicMillis },
    });
    const failed = queue.join(account, 1, () => Promise.reject(new Error('away')));
    await expect(failed).rejects.toThrow('away');
    const next = queue.join(account, 2, async (batch) => {
      for (const each of batch) each.resolve(each.call);
      return [];
    });
    expect(await next).toBe(2);
  });
});

/** A queue for which no slot becomes free. */
describe('calls that all wait', () => {
  const { waitingMax, waitingPerAccountMax, waitMsMax, lateMsMax } = decisionsLimits.checks;
  const accountOf = (n: number) => `acct_${n}` as AccountId;
  let queue: CheckQueue<number, number>;
  let refused: { readonly call: number; readonly atMs: number }[];
  const join = (call: number, of: AccountId = account) => {
    queue
      .join(of, call, async () => [])
      .catch((error: { code: string }) => {
        if (error.code === 'overloaded') refused.push({ call, atMs: fakedClock.monotonic() });
      });
  };
  const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms);
  beforeEach(() => {
    vi.useFakeTimers({ toFake: [...fakedTimers] });
    queue = new CheckQueue({ slots: () => new Promise(() => undefined), clock: fakedClock });
    refused = [];
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it('are refused when their time is over, each at its own, by one timer', async () => {
    const beganAtMs = fakedClock.monotonic();
    for (let call = 0; call < 40; call++) {
      join(call, accountOf(call % 3));
      expect(vi.getTimerCount()).toBe(1);
      await pass(10);
    }
    await pass(2 * waitMsMax);
    expect(refused.map(({ call }) => call).sort((one, other) => one - other)).toEqual([...Array(40).keys()]);
    for (const { call, atMs } of refused) {
      const waitedMs = atMs - beganAtMs - call * 10;
      expect(waitedMs).toBeGreaterThanOrEqual(waitMsMax);
      expect(waitedMs).toBeLessThanOrEqual(waitMsMax + lateMsMax);
    }
    expect(vi.getTimerCount()).toBe(0);
  });

  it('of one account leave places to others, which have as many when they ask for them', async () => {
    const greedy = waitingMax / waitingPerAccountMax;
    for (let n = 0; n < greedy; n++)
      for (let call = 0; call < waitingPerAccountMax + 5; call++) join(n, accountOf(n));
    await pass(0);
    expect(refused).toHaveLength(greedy * 5);
    refused = [];
    const share = Math.floor(waitingMax / (greedy + 1));
    for (let call = 0; call < share; call++) join(-1, accountOf(greedy));
    await pass(0);
    expect(refused).toHaveLength(share);
    expect(refused.filter(({ call }) => call === -1)).toEqual([]);
    refused = [];
    // All have as many: the next one gets no place at the cost of another account.
    for (let call = 0; call < 5; call++) join(-1, accountOf(greedy));
    await pass(0);
    expect(refused.filter(({ call }) => call !== -1).length).toBeLessThanOrEqual(1);
    expect(refused.filter(({ call }) => call === -1).length).toBeGreaterThanOrEqual(4);
  });
});
