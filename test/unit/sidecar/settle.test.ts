import { afterEach, describe, expect, it, vi } from 'vitest';
import { limits } from '../../../shared/model/limits.ts';
import type { MonotonicMillis, UnixMillis } from '../../../shared/model/time.ts';
import { silentLogger } from '../../../shared/runtime/logger.ts';
import { systemRandom } from '../../../shared/runtime/random.ts';
import type { SettlementAnswer } from '../../../shared/wire/settlement.ts';
import {
  type PreparedSettlement,
  type SettlementOutcome,
  settlements,
} from '../../../sidecar/enforce/settle.ts';
import type { Taken } from '../../../sidecar/leases/taken.ts';
import { ControlPlaneError } from '../../../sidecar/replica/control-plane-client.ts';

const random = systemRandom();
const now = Date.UTC(2026, 0, 1) as UnixMillis;

/** Settlements whose control plane answers what the test gives it, one attempt after the other. */
function setUp() {
  vi.useFakeTimers();
  const attempts: { answer(answer: SettlementAnswer): void; fail(error?: Error): void }[] = [];
  const charges: string[] = [];
  const start = performance.now();
  const made = settlements({
    send: () =>
      new Promise((resolve, reject) => {
        attempts.push({ answer: resolve, fail: (error = new Error('away')) => reject(error) });
      }),
    leases: {
      keep: () => void charges.push('kept'),
      giveBack: () => void charges.push('given back'),
      passOn: () => void charges.push('passed on'),
    },
    clock: { now: () => now, monotonic: () => (performance.now() - start) as MonotonicMillis },
    random,
    logger: silentLogger,
  });
  const heard: SettlementOutcome[] = [];
  const settle = (kind: 'permit' | 'look_up', untilMs = 250, key: string | null = null) =>
    made.settle(prepared(kind, key), untilMs as MonotonicMillis, (outcome) => heard.push(outcome));
  return { settlements: made, attempts, charges, heard, settle };
}

/** What is sent is not looked at here. */
const prepared = (kind: 'permit' | 'look_up', key: string | null): PreparedSettlement =>
  ({
    settlement: { kind, gate_id: null, idempotency_key: key },
    holder: 'h',
    taken: kind === 'permit' ? ({} as Taken) : null,
  }) as PreparedSettlement;

const replayed: SettlementAnswer = {
  kind: 'replayed',
  first: { attestation_id: random.newId('att', now), constraints_evaluated: [], pii: [] },
};

const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms);

describe('settlements', () => {
  afterEach(() => void vi.useRealTimers());

  it.each([
    ['kept', { kind: 'committed' }],
    ['given back', { kind: 'conflict' }],
    ['given back', replayed],
    ['given back', { kind: 'approval', standing: 'used', expires_at_ms: now }],
    ['given back', { kind: 'refused', message: 'not yours' }],
    [
      'passed on',
      { kind: 'suspended', approval_id: random.newId('appr', now), expires_at_ms: now, is_new: true },
    ],
    [
      'given back',
      { kind: 'suspended', approval_id: random.newId('appr', now), expires_at_ms: now, is_new: false },
    ],
  ] as const satisfies readonly (readonly [string, SettlementAnswer])[])(
    'have their charge %s, once, and their request told, by %j',
    async (end, answer) => {
      const { attempts, charges, heard, settle, settlements: made } = setUp();
      settle('permit');
      attempts[0]?.answer(answer);
      await pass(60_000);
      expect([charges, heard, attempts.length, made.open]).toEqual([[end], [answer], 1, 0]);
    },
  );

  it('are sent again while nothing is known of their outcome, within the time of their request', async () => {
    const { attempts, charges, heard, settle } = setUp();
    settle('permit');
    attempts[0]?.fail();
    await pass(limits.retryFirstMs);
    expect([attempts.length, heard.length]).toEqual([2, 0]);
    attempts[1]?.answer({ kind: 'committed' });
    await pass(0);
    expect([charges, heard]).toEqual([['kept'], [{ kind: 'committed' }]]);
  });

  it('tell their request that nothing is known, and settle the charge when it is', async () => {
    const { attempts, charges, heard, settle, settlements: made } = setUp();
    settle('permit');
    await pass(249);
    expect(heard).toEqual([]);
    await pass(1);
    expect([heard, charges, made.open]).toEqual([[{ kind: 'unknown' }], [], 1]);
    attempts[0]?.answer({ kind: 'conflict' });
    await pass(60_000);
    expect([heard.length, charges, made.open, attempts.length]).toEqual([1, ['given back'], 0, 1]);
  });

  it('count what comes true after its request was told that nothing is known', async () => {
    const { attempts, settle, settlements: made } = setUp();
    settle('permit');
    await pass(250);
    attempts[0]?.answer({ kind: 'committed' });
    await pass(0);
    expect([...made.counts]).toEqual([
      { kind: 'permit', outcome: 'unknown', count: 1 },
      { kind: 'permit', outcome: 'committed_late', count: 1 },
    ]);
  });

  it('give nothing back while an attempt that failed may still come true', async () => {
    const { attempts, charges, heard, settle, settlements: made } = setUp();
    settle('permit');
    attempts[0]?.fail();
    await pass(limits.retryFirstMs);
    attempts[1]?.answer({ kind: 'refused', message: 'the gate has changed' });
    await pass(limits.settlementDoubtMs - limits.retryFirstMs - 1);
    // The request is told what was said, and the charge waits for what is true.
    expect([heard.map(({ kind }) => kind), charges, attempts.length]).toEqual([['refused'], [], 2]);
    await pass(1);
    attempts[2]?.answer({ kind: 'committed' });
    await pass(60_000);
    expect([heard.length, charges, attempts.length, made.open]).toEqual([1, ['kept'], 3, 0]);
  });

  it('give back what was refused, once no earlier attempt can come true any more', async () => {
    const { attempts, charges, settle } = setUp();
    settle('permit');
    attempts[0]?.fail();
    await pass(limits.retryFirstMs);
    attempts[1]?.answer({ kind: 'conflict' });
    await pass(limits.settlementDoubtMs);
    expect(charges).toEqual([]);
    attempts[2]?.answer({ kind: 'conflict' });
    await pass(0);
    expect(charges).toEqual(['given back']);
  });

  it.each([
    [412, 'precondition_failed', ['given back']],
    [503, 'overloaded', []],
    // From a proxy that waits no longer, and an answer cut short: the control plane may still be at work.
    [408, null, []],
    [200, null, []],
  ] as const)('take a call that was answered %i %s for what it is', async (status, code, ended) => {
    const { attempts, charges, settle } = setUp();
    settle('permit');
    attempts[0]?.fail(
      new ControlPlaneError('settlements', status, code === null ? null : { code, message: '' }),
    );
    await pass(limits.retryFirstMs);
    attempts[1]?.answer({ kind: 'conflict' });
    await pass(0);
    expect(charges).toEqual(ended);
  });

  it('pause longer and longer, up to a bound', async () => {
    const { attempts, settle } = setUp();
    settle('permit');
    for (let failed = 0; failed < 20; failed++) {
      attempts.at(-1)?.fail();
      await pass(limits.settlementRetryLastMs);
    }
    expect(attempts).toHaveLength(21);
    attempts.at(-1)?.fail();
    await pass(limits.settlementRetryLastMs / 2 - 1);
    expect(attempts).toHaveLength(21);
  });

  it('do not go on with a look-up whose request has its answer', async () => {
    const { attempts, heard, settle, settlements: made } = setUp();
    settle('look_up');
    attempts[0]?.fail();
    await pass(250);
    expect([heard, made.open]).toEqual([[{ kind: 'unknown' }], 0]);
    const before = attempts.length;
    await pass(60_000);
    expect(attempts).toHaveLength(before);
  });

  it('look up a key when the permit that claims it here is known, and not before', async () => {
    const { attempts, heard, settle } = setUp();
    settle('permit', 250, 'k');
    settle('look_up', 250, 'k');
    settle('look_up', 250, 'another');
    await pass(100);
    expect([attempts.length, heard]).toEqual([2, []]);
    attempts[0]?.answer({ kind: 'committed' });
    await pass(0);
    expect([attempts.length, heard]).toEqual([3, [{ kind: 'committed' }]]);
    attempts[2]?.answer(replayed);
    await pass(0);
    expect(heard).toEqual([{ kind: 'committed' }, replayed]);
  });

  it('look up a key when the newest of its permits here is known, though its charge still is not', async () => {
    const { attempts, charges, settle } = setUp();
    settle('permit', 250, 'k');
    settle('permit', 250, 'k');
    settle('look_up', 250, 'k');
    attempts[0]?.answer(replayed);
    attempts[1]?.fail();
    await pass(limits.retryFirstMs);
    expect(attempts).toHaveLength(3);
    attempts[2]?.answer(replayed);
    await pass(0);
    expect([attempts.length, charges]).toEqual([4, ['given back']]);
  });

  it('send a permit again at once where its key is looked up', async () => {
    const { attempts, heard, settle } = setUp();
    settle('permit', 250, 'k');
    for (let failed = 0; failed < 5; failed++) {
      attempts.at(-1)?.fail();
      await pass(limits.settlementRetryLastMs);
    }
    attempts.at(-1)?.fail();
    await pass(0);
    const before = attempts.length;
    settle('look_up', 60_000 * 60, 'k');
    expect(attempts).toHaveLength(before + 1);
    settle('look_up', 60_000 * 60, 'k');
    expect(attempts).toHaveLength(before + 1);
    attempts.at(-1)?.answer({ kind: 'committed' });
    await pass(0);
    expect(attempts).toHaveLength(before + 3);
    attempts.at(-1)?.answer(replayed);
    await pass(0);
    expect(heard).toEqual([{ kind: 'unknown' }, replayed]);
  });

  it('know nothing of a key whose permit here is not known in time', async () => {
    const { attempts, heard, settle, settlements: made } = setUp();
    settle('permit', 60_000, 'k');
    settle('look_up', 250, 'k');
    await pass(250);
    expect([heard, attempts.length, made.open]).toEqual([[{ kind: 'unknown' }], 1, 1]);
    attempts[0]?.answer({ kind: 'committed' });
    await pass(60_000);
    expect([heard.length, attempts.length, made.open]).toEqual([2, 1, 0]);
  });

  it('are not sent, and have their charge given back, beyond the bound or after the time of their request', () => {
    const { attempts, charges, heard, settle, settlements: made } = setUp();
    for (let sent = 0; sent < limits.settlementsMax; sent++) settle('permit');
    expect([attempts.length, heard.length]).toEqual([limits.settlementsMax, 0]);
    settle('permit');
    expect([attempts.length, heard, charges]).toEqual([
      limits.settlementsMax,
      [{ kind: 'shed' }],
      ['given back'],
    ]);
    made.stop();
    settle('permit', 0);
    expect([attempts.length, heard.length, charges.length]).toEqual([limits.settlementsMax, 2, 2]);
  });

  it('say and end nothing after they were stopped', async () => {
    const { attempts, charges, heard, settle, settlements: made } = setUp();
    settle('permit');
    settle('permit');
    attempts[1]?.fail();
    made.stop();
    attempts[0]?.answer({ kind: 'conflict' });
    await pass(60_000);
    expect([heard, charges, attempts.length, made.open]).toEqual([[], [], 2, 0]);
  });
});
