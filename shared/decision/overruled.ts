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
  const evaluated = reachedBy(decision, lastCheck[reason]);
  return {
    ...decision,
    outcome: 'BLOCK',
    reason,
    evaluated,
    charge: null,
    standingApproval: null,
    limitMiss: null,
    unknown: null,
    // What is found in a request is not told where a check of the passport blocks it (contract §5).
    pii: evaluated.includes('pii_controls') ? decision.pii : [],
    isRedacted: false,
    approvalExpiresInMs: null,
    hold: null,
    conditions: decision.conditions === null || evaluated.includes('conditions') ? decision.conditions : [],
    condition: null,
    detail: null,
  };
}

/**
 * Up to this one, which counts as reached: a host that did not know of the wallet has passed its check. Not
 * where only an approval was looked up, and the request is not read any further.
 */
function reachedBy({ evaluated, unknown }: Decision, last: CheckName | null): readonly CheckName[] {
  if (last === null) return evaluated;
  let reached: CheckSet = unknown === 'approval' ? 0 : check[last];
  for (const name of evaluated) if (check[name] <= check[last]) reached |= check[name];
  return listChecks(reached);
}
