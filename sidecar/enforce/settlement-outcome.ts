import type { RunEvent } from '../../shared/decision/run.ts';
import { unreachable } from '../../shared/errors/assert.ts';
import { firstPermitOf } from '../../shared/wire/settlement.ts';
import type { SettlementOutcome } from './settlements.ts';

/**
 * What becomes of a settlement and of the units that are reserved for it:
 *
 *   keep       its PERMIT is committed, and has used them
 *   pass_on    its approval is open; the ledger keeps them for it
 *   give_back  it had no effect: they can be taken again
 *   void       this answer took nothing, but an earlier attempt that got no answer may have: undo that
 *   undo       it is or may be committed, and no request can be answered with it: the run voids it
 */
type SettlementFate = 'keep' | 'pass_on' | 'give_back' | 'void' | 'undo';

/**
 * `isCertain`: no attempt of this settlement went without an answer. `isWanted`: its client still waits.
 * Pure; of outcomes of permits and suspends, look-ups reserve nothing (contract §5 and §8).
 */
export function fateOf(
  outcome: SettlementOutcome,
  { isCertain, isWanted }: { readonly isCertain: boolean; readonly isWanted: boolean },
): SettlementFate {
  if (outcome.kind === 'unknown') return 'undo';
  if (outcome.kind === 'committed') return isWanted ? 'keep' : 'undo';
  if (outcome.kind === 'suspended' && outcome.is_new) return isWanted ? 'pass_on' : 'undo';
  return isCertain ? 'give_back' : 'void';
}

/**
 * What becomes of the reading of a settlement or look-up, by which what others have settled stays true
 * (SettledRequest.reader_id):
 *
 *   read   it found something, with which the client may be answered
 *   none   it found nothing
 *   void   it may have found something, or find it yet, and no request will be answered with that
 */
export type ReadingFate = 'read' | 'none' | 'void';

/** Pure, as `fateOf`. */
export function readingFateOf(outcome: SettlementOutcome, isCertain: boolean): ReadingFate {
  if (outcome.kind === 'replayed' || (outcome.kind === 'suspended' && !outcome.is_new)) return 'read';
  // Its own settlement came true: there was nothing else to find.
  if (outcome.kind === 'committed' || outcome.kind === 'suspended') return 'none';
  return isCertain && outcome.kind !== 'unknown' ? 'none' : 'void';
}

/** What the outcome of a settlement or a look-up means to the run. */
export function eventOf(outcome: SettlementOutcome, of: 'settled' | 'looked_up'): RunEvent {
  switch (outcome.kind) {
    case 'none':
      return { kind: 'none', mayChange: outcome.may_change };
    case 'approval':
      return { kind: 'approval', state: outcome.standing, expiresAtMs: outcome.expires_at_ms };
    case 'suspended':
      return {
        kind: 'suspended',
        approval: { approvalId: outcome.approval_id, expiresAtMs: outcome.expires_at_ms },
      };
    case 'replayed':
      return { kind: 'replayed', first: firstPermitOf(outcome.first) };
    case 'unknown':
      return { kind: 'late' };
    // Nothing was begun, or nothing came of it: for a look-up that is the same as too late.
    case 'shed':
    case 'late':
    case 'voided':
    case 'refused':
      return { kind: of === 'settled' ? 'declined' : 'late' };
    case 'away':
      return { kind: 'away' };
    case 'committed':
    case 'conflict':
    case 'blocked':
      return outcome;
    default:
      return unreachable(outcome);
  }
}
