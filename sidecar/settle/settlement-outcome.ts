import type { RunEvent } from '../../shared/decision/run.ts';
import { unreachable } from '../../shared/errors/assert.ts';
import { firstPermitOf } from '../../shared/wire/sync/settlement.ts';
import type { SettlementOutcome } from './open-settlement.ts';

/**
 * What becomes of a settlement and of the units that are reserved for it:
 *
 *   keep       its PERMIT is committed, and has used them
 *   pass_on    its approval is open; the ledger keeps them for it
 *   give_back  it has no effect and never will: they can be taken again
 *   void       this answer took nothing, but another delivery of its call may have, or may yet: undo that
 *   undo       it is or may be committed, and no request can be answered with it: the run voids it
 */
type SettlementFate = 'keep' | 'pass_on' | 'give_back' | 'void' | 'undo';

/**
 * A call may be delivered twice, and to two control planes, by what is in between. So an answer says what
 * came of one delivery, and only what was found true, or is void or closed for good, says something about all
 * of them.
 * `isPermit`: and no suspend; look-ups reserve nothing. `isWanted`: its client still waits. Pure (contract §5
 * and §8).
 */
export function fateOf(
  outcome: SettlementOutcome,
  { isPermit, isWanted }: { readonly isPermit: boolean; readonly isWanted: boolean },
): SettlementFate {
  if (isClosed(outcome)) return 'give_back';
  switch (outcome.kind) {
    case 'unknown':
      return 'undo';
    case 'committed':
      return isWanted ? 'keep' : 'undo';
    case 'suspended':
      if (!outcome.is_new) return 'give_back';
      return isWanted ? 'pass_on' : 'undo';
    // The first PERMIT has the key of all deliveries for as long as it is read, and the end of the reading
    // voids them. A suspend takes no key: an earlier delivery may have opened its approval before the key was
    // taken.
    case 'replayed':
      return isPermit ? 'give_back' : 'void';
    // It is void already: it had found another approval, and that answer was lost.
    case 'voided':
    // It never arrived anywhere.
    case 'away':
    case 'shed':
      return 'give_back';
    default:
      return 'void';
  }
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

/**
 * `isCertain`: it never arrived, or each attempt was answered and none is delivered again. Settlements never
 * assume the latter. Look-ups do once every attempt was answered, because a void for each empty look-up would
 * double the records of a BLOCK. The price: a look-up that is delivered again after its answer may keep a
 * PERMIT true that no client was told of (docs/adr/0010). Pure, as `fateOf`.
 */
export function readingFateOf(outcome: SettlementOutcome, isCertain: boolean): ReadingFate {
  if (outcome.kind === 'replayed' || (outcome.kind === 'suspended' && !outcome.is_new)) return 'read';
  if (isClosed(outcome)) return 'none';
  // Its own settlement came true: there was nothing else to find.
  if (outcome.kind === 'committed' || outcome.kind === 'suspended') return 'none';
  return isCertain && outcome.kind !== 'unknown' && outcome.kind !== 'late' ? 'none' : 'void';
}

const isClosed = (outcome: SettlementOutcome): boolean =>
  'is_closed' in outcome && outcome.is_closed === true;

export const hasNotArrived = ({ kind }: SettlementOutcome): boolean => kind === 'away' || kind === 'shed';

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
      return { kind: of === 'settled' ? 'declined' : 'late' };
    // Only an earlier delivery of this call can have been voided or closed: another settlement may come true.
    case 'voided':
      return { kind: of === 'settled' ? 'passed' : 'late' };
    case 'refused':
      if (of === 'looked_up') return { kind: 'late' };
      return { kind: outcome.is_passing === true ? 'passed' : 'declined' };
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
