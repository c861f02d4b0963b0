import { describe, expect, it } from 'vitest';
import { CheckQueue, type Queued } from '../../../../control-plane/decisions/check-queue.ts';
import { decisionsLimits } from '../../../../control-plane/decisions/limits.ts';
import type { AccountId } from '../../../../shared/model/ids.ts';
import { limits } from '../../../../shared/model/limits.ts';
import type { MonotonicMillis } from '../../../../shared/model/time.ts';
import { until } from '../../../support/until.ts';

const account = 'acct_1' as AccountId;
type Batch = readonly Queued<number, number>[];

/** A queue whose batches are answered when a test says so. */
function queueUnderTest() {
  let nowMs = 0;
  const clock = { monotonic: () => nowMs as MonotonicMillis };
  const queue = new CheckQueue<number, number>({ turns: (_, work) => work(), clock });
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

  it('refuses checks beyond its bound, and those that no batch takes within the deadline', async () => {
    const { join, begun, callsOf, advance, batches } = queueUnderTest();
    const first = join(0);
    await begun(1);
    const { waitingPerAccountMax } = decisionsLimits.checks;
    const late = Array.from({ length: waitingPerAccountMax }, (_, call) => join(call));
    const ends = Promise.allSettled(late);
    await expect(join(-1)).rejects.toMatchObject({ code: 'overloaded', retryAfterS: 1 });
    advance(limits.decisionDeadlineMs);
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
      turns: (_, work) => work(),
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
