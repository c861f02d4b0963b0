import { describe, expect, it } from 'vitest';
import { overruled, overrulingReasons } from '../../../shared/decision/overruled.ts';
import { type FirstPermit, Run } from '../../../shared/decision/run.ts';
import { makeId } from '../../../shared/model/ids.ts';
import { aRequest, aWindow, decideAt, nowMs, usd } from './samples.ts';

const approvalId = makeId('appr', nowMs, new Uint8Array(10));
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
});

describe('a first PERMIT that was found', () => {
  const found = () => {
    const run = new Run(keyed);
    run.decided(overLimit, false);
    run.on({ kind: 'replayed', first });
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

describe('a decision that the database overrules', () => {
  it.each(overrulingReasons)('is a BLOCK %s that takes nothing', (reason) => {
    expect(overruled(permit, reason)).toMatchObject({
      ...{ outcome: 'BLOCK', reason, charge: null, limitMiss: null, unknown: null, isRedacted: false },
      ...{ approvalExpiresInMs: null, hold: null },
    });
  });

  it('has reached no check after the one that blocks', () => {
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
