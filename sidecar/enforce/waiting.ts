import type { RequestFacts } from '../../shared/decision/facts.ts';
import { assert, unreachable } from '../../shared/errors/assert.ts';
import type { ApprovalId } from '../../shared/model/ids.ts';
import type { MonotonicMillis, UnixMillis } from '../../shared/model/time.ts';
import type { FirstPermit } from '../../shared/wire/settlement.ts';
import type { Refusal } from '../leases/held-view.ts';
import type { AskOutcome } from '../leases/waiters.ts';
import type { SettlementOutcome } from './settle.ts';

/**
 * What a request that had to ask the control plane has heard. All its waiting ends at one moment, limits.quotaWaitMsMax after its
 * first question.
 */
export class Waiting {
  readonly untilMs: MonotonicMillis;
  /** Windows of which the ledger has less left than the request needs. */
  refusal: Refusal | null = null;
  /** No lease was to be had in time: what is held must do. */
  areLeasesUnavailable = false;
  /** The control plane has said what stands behind the key and the approval. */
  isLookedUp = false;
  /** It could not say so, or not settle the decision: whatever hangs on that is blocked. */
  isGivenUp = false;
  /** No approval may be opened for it: too many requests of its passport wait at the gate. */
  isPendingExceeded = false;
  /** The PERMIT to which the key of the request belongs already. */
  first: FirstPermit | null = null;
  /** Under which the request waits for a person, or that it presents. */
  approval: { readonly approvalId: ApprovalId; readonly expiresAtMs: UnixMillis } | null = null;

  constructor(untilMs: MonotonicMillis) {
    this.untilMs = untilMs;
  }
}

export function learnOfLeases(waiting: Waiting, outcome: AskOutcome): void {
  if (outcome.kind === 'refused') {
    waiting.refusal = outcome.refusal;
    // Another copy of the request may have been first to take what was left.
    waiting.isLookedUp = false;
  } else if (outcome.kind === 'unavailable') waiting.areLeasesUnavailable = true;
}

/** What the control plane has said that is no answer for the client yet, or that it has said nothing. Returns the request as it is known now. */
export function learnOfSettlement(
  waiting: Waiting,
  request: RequestFacts,
  outcome: Exclude<SettlementOutcome, { kind: 'committed' | 'conflict' }>,
): RequestFacts {
  switch (outcome.kind) {
    case 'replayed':
      waiting.first = outcome.first;
      // Nobody asks any more what stands behind its approval; the checks that come after that one still have their say.
      return request.approval === 'unasked' ? { ...request, approval: 'approved' } : request;
    case 'suspended':
      // Found by a look-up: the same request waits for a person already (decisions §8).
      waiting.isLookedUp = true;
      waiting.approval = { approvalId: outcome.approval_id, expiresAtMs: outcome.expires_at_ms };
      return { ...request, approval: 'pending' };
    case 'approval':
      waiting.isLookedUp = true;
      waiting.approval = presentedApproval(request, outcome);
      return { ...request, approval: outcome.standing };
    case 'pending_exceeded':
      waiting.isPendingExceeded = true;
      return request;
    case 'refused':
    case 'unknown':
    case 'shed':
      waiting.isGivenUp = true;
      return request;
    default:
      return unreachable(outcome);
  }
}

function presentedApproval(
  { approvalId }: RequestFacts,
  heard: Extract<SettlementOutcome, { kind: 'approval' }>,
): Waiting['approval'] {
  // Read as none, one that is presented would open a second approval.
  assert(
    (approvalId === null) === (heard.standing === 'none'),
    'an approval has a standing where one is presented',
  );
  if (approvalId === null || heard.expires_at_ms === null) return null;
  return { approvalId, expiresAtMs: heard.expires_at_ms };
}
