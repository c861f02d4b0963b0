import { describe, expect, it } from 'vitest';
import { makeId } from '../../../shared/model/ids.ts';
import type { UnixMillis } from '../../../shared/model/time.ts';
import { eventOf, fateOf, readingFateOf } from '../../../sidecar/enforce/settlement-outcome.ts';
import type { SettlementOutcome } from '../../../sidecar/enforce/settlements.ts';

const expires_at_ms = Date.UTC(2026, 10, 2) as UnixMillis;
const approval_id = makeId('appr', expires_at_ms, new Uint8Array(10));
const attestation_id = makeId('att', expires_at_ms, new Uint8Array(10));
const first = { attestation_id, constraints_evaluated: [], pii: [] };

const opened: SettlementOutcome = { kind: 'suspended', approval_id, expires_at_ms, is_new: true };
const found: SettlementOutcome = { kind: 'suspended', approval_id, expires_at_ms, is_new: false };
const tookNothing: readonly SettlementOutcome[] = [
  found,
  { kind: 'replayed', first },
  { kind: 'conflict' },
  { kind: 'blocked', reason: 'passport_revoked' },
  { kind: 'approval', standing: 'expired', expires_at_ms: null },
  { kind: 'refused', message: 'It is refused.' },
  { kind: 'voided' },
  { kind: 'away' },
  { kind: 'shed' },
  { kind: 'late' },
];

describe('what becomes of a settlement', () => {
  it.each([true, false])(
    'stands if its client waits for it, after attempts without answer or not: %s',
    (isCertain) => {
      expect(fateOf({ kind: 'committed' }, { isCertain, isWanted: true })).toBe('keep');
      expect(fateOf(opened, { isCertain, isWanted: true })).toBe('pass_on');
    },
  );

  it.each([true, false])('is undone if its client has gone: %s', (isCertain) => {
    expect(fateOf({ kind: 'committed' }, { isCertain, isWanted: false })).toBe('undo');
    expect(fateOf(opened, { isCertain, isWanted: false })).toBe('undo');
  });

  it.each([true, false])('is undone if nobody knows, whether or not its client waits: %s', (isWanted) => {
    for (const isCertain of [true, false])
      expect(fateOf({ kind: 'unknown' }, { isCertain, isWanted })).toBe('undo');
  });

  describe.each([true, false])('that took nothing by its last answer, its client waiting: %s', (isWanted) => {
    it.each(tookNothing)('gives its units back after $kind, if every attempt was answered', (outcome) => {
      expect(fateOf(outcome, { isCertain: true, isWanted })).toBe('give_back');
    });

    it.each(tookNothing)('is voided after $kind, if an attempt got no answer', (outcome) => {
      expect(fateOf(outcome, { isCertain: false, isWanted })).toBe('void');
    });
  });
});

describe('what becomes of a reading', () => {
  it.each([true, false])(
    'is that it holds, where it found something: attempts without answer: %s',
    (isCertain) => {
      expect(readingFateOf({ kind: 'replayed', first }, isCertain)).toBe('read');
      expect(readingFateOf(found, isCertain)).toBe('read');
    },
  );

  it.each([true, false])('is nothing, where its own settlement came true: %s', (isCertain) => {
    expect(readingFateOf({ kind: 'committed' }, isCertain)).toBe('none');
    expect(readingFateOf(opened, isCertain)).toBe('none');
  });

  it('is nothing, where every attempt was answered, and its void otherwise', () => {
    const foundNothing = tookNothing.filter(({ kind }) => kind !== 'replayed' && kind !== 'suspended');
    for (const outcome of foundNothing) {
      expect(readingFateOf(outcome, true)).toBe('none');
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
      first: { attestationId: attestation_id, constraintsEvaluated: [], pii: [] },
    });
    expect(eventOf({ kind: 'conflict' }, of)).toEqual({ kind: 'conflict' });
    expect(eventOf({ kind: 'away' }, of)).toEqual({ kind: 'away' });
    expect(eventOf({ kind: 'unknown' }, of)).toEqual({ kind: 'late' });
  });

  it.each<SettlementOutcome>([
    { kind: 'shed' },
    { kind: 'late' },
    { kind: 'voided' },
    { kind: 'refused', message: 'It is refused.' },
  ])('is "nothing came of it" after $kind', (outcome) => {
    expect(eventOf(outcome, 'settled')).toEqual({ kind: 'declined' });
    expect(eventOf(outcome, 'looked_up')).toEqual({ kind: 'late' });
  });
});
