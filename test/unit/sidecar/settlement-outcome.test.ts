import { describe, expect, it } from 'vitest';
import { makeId } from '../../../shared/model/ids.ts';
import type { UnixMillis } from '../../../shared/model/time.ts';
import type { SettlementOutcome } from '../../../sidecar/settle/open-settlement.ts';
import { eventOf, fateOf, readingFateOf } from '../../../sidecar/settle/settlement-outcome.ts';

const expires_at_ms = Date.UTC(2026, 10, 2) as UnixMillis;
const approval_id = makeId('appr', expires_at_ms, new Uint8Array(10));
const attestation_id = makeId('att', expires_at_ms, new Uint8Array(10));
const first = { attestation_id, constraints_evaluated: [], pii: [] };

const opened: SettlementOutcome = { kind: 'suspended', approval_id, expires_at_ms, is_new: true };
const found: SettlementOutcome = { kind: 'suspended', approval_id, expires_at_ms, is_new: false };
const replayed: SettlementOutcome = { kind: 'replayed', first };
const voided: SettlementOutcome = { kind: 'voided' };
/** It never reached a control plane. */
const neverArrived: readonly SettlementOutcome[] = [{ kind: 'away' }, { kind: 'shed' }];
/** An answer to one delivery, which another one need not get. */
const tookNothing: readonly SettlementOutcome[] = [
  { kind: 'conflict' },
  { kind: 'blocked', reason: 'passport_revoked' },
  { kind: 'approval', standing: 'expired', expires_at_ms: null },
  { kind: 'refused', message: 'It is refused.' },
  { kind: 'late' },
];

describe('what becomes of a settlement', () => {
  it('stands if its client waits for it, and is undone if it has gone', () => {
    expect(fateOf({ kind: 'committed' }, { isPermit: true, isWanted: true })).toBe('keep');
    expect(fateOf(opened, { isPermit: false, isWanted: true })).toBe('pass_on');
    expect(fateOf({ kind: 'committed' }, { isPermit: true, isWanted: false })).toBe('undo');
    expect(fateOf(opened, { isPermit: false, isWanted: false })).toBe('undo');
  });

  describe.each([
    ['permit', 'waits', { isPermit: true, isWanted: true }],
    ['permit', 'has gone', { isPermit: true, isWanted: false }],
    ['suspend', 'waits', { isPermit: false, isWanted: true }],
    ['suspend', 'has gone', { isPermit: false, isWanted: false }],
  ])('of a %s whose client %s,', (_what, _client, of) => {
    it('is voided if its outcome is unknown', () => {
      expect(fateOf({ kind: 'unknown' }, of)).toBe('undo');
    });

    it.each(neverArrived)('is that its units are free again after $kind', (outcome) => {
      expect(fateOf(outcome, of)).toBe('give_back');
    });

    it.each([found, voided])('is that its units are free again after $kind', (outcome) => {
      expect(fateOf(outcome, of)).toBe('give_back');
    });

    it.each(tookNothing)('is its void after $kind: its call may come once more', (outcome) => {
      expect(fateOf(outcome, of)).toBe('void');
    });
  });
});

/** Its key is that of the first PERMIT; a suspend takes none, and may have opened its approval before. */
it.each([true, false])(
  'a permit whose key is taken frees its units, and a suspend is voided: %s',
  (isWanted) => {
    expect(fateOf(replayed, { isPermit: true, isWanted })).toBe('give_back');
    expect(fateOf(replayed, { isPermit: false, isWanted })).toBe('void');
  },
);

describe('what becomes of a reading', () => {
  it.each([true, false])(
    'is that it holds, where it found something; each attempt answered: %s',
    (isCertain) => {
      expect(readingFateOf(replayed, isCertain)).toBe('read');
      expect(readingFateOf(found, isCertain)).toBe('read');
    },
  );

  it.each([true, false])('is nothing, where its own settlement came true; each answered: %s', (isCertain) => {
    expect(readingFateOf({ kind: 'committed' }, isCertain)).toBe('none');
    expect(readingFateOf(opened, isCertain)).toBe('none');
  });

  it('is nothing if every attempt was answered, and a void otherwise', () => {
    for (const outcome of [...neverArrived, ...tookNothing, voided]) {
      expect(readingFateOf(outcome, true)).toBe(outcome.kind === 'late' ? 'void' : 'none');
      expect(readingFateOf(outcome, false)).toBe('void');
    }
    expect(readingFateOf({ kind: 'unknown' }, true)).toBe('void');
  });
});

describe('what an outcome means to the run', () => {
  it.each(['settled', 'looked_up'] as const)('is what the database found, of what was %s', (of) => {
    expect(eventOf({ kind: 'none', may_change: true }, of)).toEqual({ kind: 'none', mayChange: true });
    expect(eventOf({ kind: 'approval', standing: 'denied', expires_at_ms }, of)).toEqual({
      kind: 'approval',
      state: 'denied',
      expiresAtMs: expires_at_ms,
    });
    expect(eventOf(found, of)).toEqual({
      kind: 'suspended',
      approval: { approvalId: approval_id, expiresAtMs: expires_at_ms },
    });
    expect(eventOf({ kind: 'replayed', first }, of)).toEqual({
      kind: 'replayed',
      first: { attestationId: attestation_id, constraintsEvaluated: [], pii: [], hold: null },
    });
    expect(eventOf({ kind: 'conflict' }, of)).toEqual({ kind: 'conflict' });
    expect(eventOf({ kind: 'away' }, of)).toEqual({ kind: 'away' });
    expect(eventOf({ kind: 'unknown' }, of)).toEqual({ kind: 'late' });
  });

  it.each<SettlementOutcome>([
    { kind: 'shed' },
    { kind: 'late' },
    { kind: 'refused', message: 'It is refused.' },
  ])('is "nothing came of it" after $kind', (outcome) => {
    expect(eventOf(outcome, 'settled')).toEqual({ kind: 'declined' });
    expect(eventOf(outcome, 'looked_up')).toEqual({ kind: 'late' });
  });
});
