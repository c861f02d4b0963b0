import type { CheckName, DecisionReason } from '../model/decision.ts';
import { type CheckSet, check, listChecks } from './check-set.ts';
import type { Decision } from './facts.ts';

/** A check at which the database blocks, although the decision has passed or not reached it. */
export const overrulingReasons = [
  'passport_revoked',
  'passport_suspended',
  'passport_unknown_key',
  'issuer_untrusted',
  'wallet_frozen',
  'quota_unavailable',
  'approvals_pending_exceeded',
] as const satisfies readonly DecisionReason[];
export type OverrulingReason = (typeof overrulingReasons)[number];

/**
 * The check that gives the reason; later checks count as not reached. Null: all checks that the decision
 * reached.
 */
const lastCheck: Readonly<Record<OverrulingReason, CheckName | null>> = {
  passport_revoked: 'passport',
  passport_suspended: 'passport',
  passport_unknown_key: 'passport',
  issuer_untrusted: 'issuer',
  wallet_frozen: 'spend_limit',
  quota_unavailable: null,
  approvals_pending_exceeded: null,
};

/** The decision as a BLOCK for this reason; takes nothing. */
export function overruled(decision: Decision, reason: OverrulingReason): Decision {
  const last = lastCheck[reason];
  return {
    ...decision,
    outcome: 'BLOCK',
    reason,
    evaluated: last === null ? decision.evaluated : reachedUpTo(decision.evaluated, last),
    charge: null,
    standingApproval: null,
    limitMiss: null,
    unknown: null,
    // Passport checks come before any request check (contract §5).
    pii: last === null ? decision.pii : [],
    isRedacted: false,
    approvalExpiresInMs: null,
    hold: null,
  };
}

/** The frozen list of the checks up to this one. */
function reachedUpTo(evaluated: readonly CheckName[], last: CheckName): readonly CheckName[] {
  let reached: CheckSet = 0;
  for (const name of evaluated) {
    reached |= check[name];
    if (name === last) break;
  }
  return listChecks(reached);
}
