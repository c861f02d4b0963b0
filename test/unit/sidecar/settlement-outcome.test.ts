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

type Fate = ReturnType<typeof fateOf>;
type ReadingFate = ReturnType<typeof readingFateOf>;

// What outcomes mean to the run is in test/property/run.test.ts, whose worlds ask the same functions.

it('a settlement that came true stands if its client waits for it, and is undone if it has gone', () => {
  expect(fateOf({ kind: 'committed' }, { isPermit: true, isWanted: true })).toBe('keep');
  expect(fateOf(opened, { isPermit: false, isWanted: true })).toBe('pass_on');
  expect(fateOf({ kind: 'committed' }, { isPermit: true, isWanted: false })).toBe('undo');
  expect(fateOf(opened, { isPermit: false, isWanted: false })).toBe('undo');
  for (const isCertain of [true, false])
    expect([readingFateOf({ kind: 'committed' }, isCertain), readingFateOf(opened, isCertain)]).toEqual([
      ...['none', 'none'],
    ]);
});

describe('of one that did not', () => {
  it.each<
    [outcome: SettlementOutcome, permit: Fate, suspend: Fate, answered: ReadingFate, other: ReadingFate]
  >([
    // It never reached a control plane.
    [{ kind: 'away' }, 'give_back', 'give_back', 'none', 'void'],
    [{ kind: 'shed' }, 'give_back', 'give_back', 'none', 'void'],
    [{ kind: 'voided' }, 'give_back', 'give_back', 'none', 'void'],
    [{ ...opened, is_new: false }, 'give_back', 'give_back', 'read', 'read'],
    // Its key is that of the first PERMIT; a suspend takes none, and may have opened its approval before.
    [{ kind: 'replayed', first }, 'give_back', 'void', 'read', 'read'],
    // An answer to one delivery, which another one need not get: its call may come once more.
    [{ kind: 'conflict' }, 'void', 'void', 'none', 'void'],
    [{ kind: 'blocked', reason: 'passport_revoked' }, 'void', 'void', 'none', 'void'],
    [{ kind: 'approval', standing: 'expired', expires_at_ms: null }, 'void', 'void', 'none', 'void'],
    [{ kind: 'refused', message: 'It is refused.' }, 'void', 'void', 'none', 'void'],
    [{ kind: 'late' }, 'void', 'void', 'void', 'void'],
    [{ kind: 'unknown' }, 'undo', 'undo', 'void', 'void'],
  ])(
    '%j: units and reading, whether its client waits or has gone',
    (outcome, permit, suspend, ...readings) => {
      for (const isWanted of [true, false]) {
        expect(fateOf(outcome, { isPermit: true, isWanted })).toBe(permit);
        expect(fateOf(outcome, { isPermit: false, isWanted })).toBe(suspend);
      }
      expect([readingFateOf(outcome, true), readingFateOf(outcome, false)]).toEqual(readings);
    },
  );

  it('nothing came of it where it was refused, which a look-up does not say', () => {
    const refused = { kind: 'refused', message: 'It is refused.' } as const;
    expect(eventOf(refused, 'settled')).toEqual({ kind: 'declined' });
    expect(eventOf(refused, 'looked_up')).toEqual({ kind: 'late' });
  });
});
