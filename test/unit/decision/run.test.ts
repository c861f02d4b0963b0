import { describe, expect, it } from 'vitest';
import type { Decision } from '../../../shared/decision/facts.ts';
import { overruled, overrulingReasons } from '../../../shared/decision/overruled.ts';
import {
  type FirstPermit,
  needsRun,
  Run,
  type RunEvent,
  type RunState,
} from '../../../shared/decision/run.ts';
import { makeId } from '../../../shared/model/ids.ts';
import type { UnixMillis } from '../../../shared/model/time.ts';
import { aRequest, aWindow, decideAt, nowMs, usd } from './samples.ts';

const approvalId = makeId('appr', nowMs, new Uint8Array(10));
const expiresAtMs = (nowMs + 60_000) as UnixMillis;
const first: FirstPermit = {
  attestationId: makeId('att', nowMs, new Uint8Array(10)),
  constraintsEvaluated: [],
  pii: [],
  hold: null,
};
const amount = { amountMicroUsd: usd(1) };
const spend = { constraints: { spend_limits: { daily_usd: 100 } } };
const windowOf = (given: Parameters<typeof aWindow>[0]) => ({
  spend: [aWindow({ limit: usd(100), available: usd(100), ...given })],
});

const permit = decideAt({ request: amount });
const blocked = decideAt({ request: { ...amount, permissionKey: null } });
const suspend = decideAt({ constraints: { approvals: { above_usd: 0.5 } }, request: amount });
/** The limit is not used up; the units are somewhere else. */
const short = decideAt({ ...spend, request: amount, quota: windowOf({ available: 0 }) });
/** The ledger said so. */
const overLimit = decideAt({ ...spend, request: amount, quota: windowOf({ available: 0, isFinal: true }) });
const unasked = decideAt({ request: { ...amount, approvalId, approval: 'unasked' } });

const keyed = aRequest({ ...amount, idempotencyKey: 'k' });
const plain = aRequest(amount);
const presenting = aRequest({ ...amount, approvalId, approval: 'unasked' });

/** Each event of the host; a state that takes no such event is one of its bugs. */
const events: Readonly<Record<RunEvent['kind'], RunEvent>> = {
  granted: { kind: 'granted' },
  refused: { kind: 'refused' },
  none: { kind: 'none', mayChange: false },
  approval: { kind: 'approval', state: 'approved', expiresAtMs },
  suspended: { kind: 'suspended', approval: { approvalId, expiresAtMs } },
  committed: { kind: 'committed' },
  replayed: { kind: 'replayed', first },
  conflict: { kind: 'conflict' },
  blocked: { kind: 'blocked', reason: 'passport_revoked' },
  declined: { kind: 'declined' },
  passed: { kind: 'passed' },
  waited: { kind: 'waited' },
  away: { kind: 'away' },
  late: { kind: 'late' },
  written: { kind: 'written' },
};

/** A run in the state, as a host brings it there. */
const runIn: Readonly<Record<RunState, () => Run>> = {
  deciding: () => new Run(keyed),
  leasing: () => after(new Run(keyed), short),
  looking: () => after(new Run(presenting), unasked),
  settling: () => after(new Run(keyed), permit),
  waiting: () => {
    const run = after(new Run(keyed), permit);
    run.on(events.passed);
    return run;
  },
  voiding: () => {
    const run = after(new Run(keyed), permit);
    run.on(events.late);
    return run;
  },
  recording: () => after(new Run(keyed), blocked),
  answered: () => {
    const run = after(new Run(keyed), permit);
    run.on(events.committed);
    return run;
  },
};

function after(run: Run, decision: Decision): Run {
  run.decided(decision, false);
  return run;
}

const overloaded = { kind: 'answer', answer: { kind: 'error', code: 'overloaded' } };
const again = { kind: 'decide' };
const recordOf = (reason: string) => ({
  kind: 'record',
  decision: expect.objectContaining({ outcome: 'BLOCK', reason }),
});

/** What each state makes of each event. What is not listed throws, and leaves the run as it was. */
const table: Readonly<Record<RunState, Partial<Record<RunEvent['kind'], object>>>> = {
  deciding: {},
  leasing: { granted: again, refused: again, away: recordOf('quota_unavailable'), late: overloaded },
  looking: {
    none: again,
    approval: again,
    suspended: again,
    replayed: again,
    conflict: { kind: 'answer', answer: { kind: 'error', code: 'idempotency_conflict' } },
    blocked: recordOf('passport_revoked'),
    declined: overloaded,
    away: recordOf('quota_unavailable'),
    late: overloaded,
  },
  settling: {
    committed: { kind: 'answer', answer: { kind: 'decision' } },
    suspended: { kind: 'answer', answer: { kind: 'suspended', approval: { approvalId, expiresAtMs } } },
    refused: again,
    replayed: again,
    conflict: { kind: 'answer', answer: { kind: 'error', code: 'idempotency_conflict' } },
    blocked: recordOf('passport_revoked'),
    declined: overloaded,
    passed: { kind: 'wait' },
    away: recordOf('quota_unavailable'),
    late: { kind: 'void' },
  },
  waiting: { waited: again, late: overloaded },
  voiding: { written: overloaded, late: overloaded },
  recording: { written: { kind: 'answer', answer: { kind: 'decision' } }, late: overloaded },
  answered: {},
};

describe.each(Object.keys(table) as RunState[])('a run that is %s', (state) => {
  const takes = table[state];
  const kinds = Object.keys(events) as RunEvent['kind'][];
  // An approval is presented, or there is none to have a standing.
  const listed = kinds.filter((kind) => takes[kind] !== undefined);
  const others = kinds.filter(
    (kind) => takes[kind] === undefined && !(state === 'settling' && kind === 'approval'),
  );

  it.each(listed)('takes %s', (kind) => {
    expect(runIn[state]().on(events[kind])).toEqual(takes[kind]);
  });

  it.each(others)('takes no %s, and stays as it is', (kind) => {
    const run = runIn[state]();
    expect(() => run.on(events[kind])).toThrow(`a run that is ${state} takes no ${kind}`);
    expect(run.state).toBe(state);
  });
});

describe('a decision', () => {
  it.each([
    ['a check blocks whatever the rest', keyed, blocked, { kind: 'record', decision: blocked }],
    ['units are missing', keyed, short, { kind: 'ask_leases' }],
    ['a limit blocks, and a copy may have used it up', keyed, overLimit, { kind: 'look_up' }],
    [
      'a limit blocks a request that nobody can repeat',
      plain,
      overLimit,
      { kind: 'record', decision: overLimit },
    ],
    ['the approval is not known', presenting, unasked, { kind: 'look_up' }],
    ['PERMIT with a key', keyed, permit, { kind: 'settle_permit' }],
    ['PERMIT without one', plain, permit, { kind: 'record', decision: permit }],
    ['SUSPEND', plain, suspend, { kind: 'settle_suspend' }],
  ])('leads on: %s', (_, request, decision, effect) => {
    expect(new Run(request).decided(decision, false)).toEqual(effect);
  });

  it('of a PERMIT is settled without a key where the host keeps no leases', () => {
    expect(new Run(plain, { settlesAll: true }).decided(permit, false)).toEqual({ kind: 'settle_permit' });
  });

  it('of a gate test settles nothing, key or not', () => {
    const dry = () => new Run(keyed, { isDryRun: true, settlesAll: true });
    expect(dry().decided(permit, false)).toEqual({ kind: 'record', decision: permit });
    expect(dry().decided(suspend, false)).toEqual({ kind: 'record', decision: suspend });
  });

  it('is taken only by a run that asked for it', () => {
    expect(() => runIn.leasing().decided(permit, false)).toThrow();
  });
});

describe('a limit that blocks a request with a key', () => {
  const looked = (mayChange: boolean) => {
    const run = after(new Run(keyed), overLimit);
    expect(run.on({ kind: 'none', mayChange })).toEqual(again);
    return run;
  };

  it('is final when no holder has units that may still go to a copy', () => {
    expect(looked(false).decided(overLimit, false)).toEqual({ kind: 'record', decision: overLimit });
  });

  it('is no answer while a holder has some: it is decided again in a moment, and looked up again', () => {
    const run = looked(true);
    expect(run.decided(overLimit, false)).toEqual({ kind: 'wait' });
    expect(run.on(events.waited)).toEqual(again);
    expect(run.decided(overLimit, false)).toEqual({ kind: 'look_up' });
  });

  it('is looked up anew after units were refused anew', () => {
    const run = looked(false);
    expect(run.decided(short, false)).toEqual({ kind: 'ask_leases' });
    expect(run.on(events.refused)).toEqual(again);
    expect(run.decided(overLimit, false)).toEqual({ kind: 'look_up' });
  });
});

describe('a first PERMIT that was found', () => {
  const found = () => {
    const run = after(new Run(keyed), overLimit);
    run.on(events.replayed);
    return run;
  };

  it('is answered again when nothing blocks for good by now', () => {
    expect(found().decided(overLimit, false)).toEqual({ kind: 'answer', answer: { kind: 'replay', first } });
    expect(found().decided(permit, false)).toEqual({ kind: 'answer', answer: { kind: 'replay', first } });
  });

  it('is not answered to what a revocation blocks meanwhile', () => {
    expect(found().decided(blocked, false)).toEqual({ kind: 'record', decision: blocked });
  });
});

describe('an approval that was looked up', () => {
  it('is the input of the next decision', () => {
    const run = runIn.looking();
    run.on({ kind: 'approval', state: 'approved', expiresAtMs });
    expect(run.known(presenting)).toEqual({ ...presenting, approval: 'approved' });
    expect(run.decided(permit, false)).toEqual({ kind: 'settle_permit' });
  });

  it('that waits is answered under its own id, and opens no other', () => {
    const run = runIn.looking();
    run.on({ kind: 'approval', state: 'pending', expiresAtMs });
    const waits = decideAt({
      constraints: { approvals: { above_usd: 0.5 } },
      request: run.known(presenting),
    });
    expect(waits).toMatchObject({ outcome: 'SUSPEND', charge: null });
    expect(run.decided(waits, false)).toEqual({
      kind: 'answer',
      answer: { kind: 'suspended', approval: { approvalId, expiresAtMs } },
    });
  });
});

describe('needsRun', () => {
  it.each([
    ['a plain PERMIT', permit, plain, false, false],
    ['a PERMIT with a key', permit, keyed, false, true],
    ['a PERMIT with an approval', permit, presenting, false, true],
    ['a SUSPEND', suspend, plain, false, true],
    ['a BLOCK by a check that no earlier request changes', blocked, keyed, false, false],
    ['a BLOCK by a limit', overLimit, plain, false, false],
    ['a BLOCK by a limit, with a key', overLimit, keyed, false, true],
    ['a BLOCK by a limit, where the request may wait for a person', overLimit, plain, true, true],
    ['units that are missing', short, plain, false, true],
  ])('%s', (_, decision, request, mayBePending, expected) => {
    expect(needsRun(decision, request, mayBePending)).toBe(expected);
  });
});

describe('a decision that the database overrules', () => {
  it.each(overrulingReasons)('is a BLOCK %s that takes nothing', (reason) => {
    expect(overruled(permit, reason)).toMatchObject({
      outcome: 'BLOCK',
      reason,
      charge: null,
      limitMiss: null,
      unknown: null,
      isRedacted: false,
      approvalExpiresInMs: null,
      hold: null,
    });
  });

  it('has reached no check behind the one that blocks', () => {
    expect(overruled(permit, 'passport_revoked').evaluated.at(-1)).toBe('passport');
    expect(overruled(permit, 'issuer_untrusted').evaluated.at(-1)).toBe('issuer');
    expect(overruled(permit, 'quota_unavailable').evaluated).toEqual(permit.evaluated);
  });

  it('has reached the check of a wallet that its host did not know of, and keeps what was found before', () => {
    const controls = { mode: 'log_only', types: ['email'] } as const;
    const constraints = { pii_controls: controls, rate_limits: { requests_per_day: 9 } };
    const pii = { findings: [{ pointer: '/note', type: 'email' }], isComplete: true } as const;
    const rate = [aWindow({ limit: 9, available: 9 })];
    const passed = decideAt({ constraints, request: { ...amount, pii }, quota: { rate } });
    expect(passed.evaluated.at(-1)).toBe('rate_limit');
    const frozen = overruled(passed, 'wallet_frozen');
    expect(frozen.evaluated).toEqual([...passed.evaluated.slice(0, -1), 'spend_limit']);
    expect(frozen.pii).toEqual(pii.findings);
    expect(overruled(passed, 'issuer_untrusted').pii).toEqual([]);
    // Told at the look-up of its approval, it is not read any further.
    expect(overruled(unasked, 'wallet_frozen').evaluated).toEqual(unasked.evaluated);
  });
});
