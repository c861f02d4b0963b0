import { approvalExpiryMsDefault, type PresentedApproval } from '../model/approval.ts';
import type { DecisionReason } from '../model/decision.ts';
import type { MicroUsd } from '../model/money.ts';
import type { PermissionKey } from '../model/permission.ts';
import { grants } from './check-permission.ts';
import type { CompiledApprovalRule } from './compile-approvals.ts';
import type { CompiledPolicy } from './compile-gate.ts';
import type { Decision, RequestFacts, VerifiedPassport } from './facts.ts';

/** States of a presented approval that block the request at once (contract §8). */
type Refusing = Extract<PresentedApproval, 'mismatch' | 'denied' | 'expired' | 'used'>;

const refusalOf: Readonly<Record<Refusing, DecisionReason>> = {
  mismatch: 'approval_mismatch',
  denied: 'approval_denied',
  expired: 'approval_expired',
  used: 'approval_used',
};

/**
 * Whether the presented approval lets the request continue. Approvals are bound to a gate: without one, no
 * approval can match the request, whatever a store reports.
 */
export function checkPresentedApproval(
  policy: CompiledPolicy,
  { approval }: RequestFacts,
): DecisionReason | 'unknown' | null {
  if (approval === 'none') return null;
  if (policy.accountId === null) return 'approval_mismatch';
  if (approval === 'unasked') return 'unknown';
  return approval === 'pending' || approval === 'approved' ? null : refusalOf[approval];
}

/**
 * How long an approval stays pending if the request requires one: by the gate's rule, the passport's own, or
 * the entry of the catalog. Null: no approval is required, or the request is already approved. If several
 * require one, the shortest time counts. A catalog entry uses the time of its gate's rule, if any.
 */
export function demandedApprovalMs(
  policy: CompiledPolicy,
  passport: VerifiedPassport,
  { approval, permissionKey: requested }: RequestFacts,
  amount: MicroUsd | null,
): number | null {
  if (approval === 'approved') return null;
  const ofGate = isDemandedByGate(policy, requested, amount)
    ? (policy.approvals?.expiresInMs ?? approvalExpiryMsDefault)
    : null;
  const own = passport.approvals;
  if (own === null || !demandsApproval(own, requested, amount)) return ofGate;
  return ofGate === null ? own.expiresInMs : Math.min(ofGate, own.expiresInMs);
}

/** Whether an `above_usd` applies and the request has no amount. */
export const lacksAmountToApprove = (
  policy: CompiledPolicy,
  passport: VerifiedPassport,
  amount: MicroUsd | null,
): boolean =>
  amount === null && (policy.approvals?.needsAmount === true || passport.approvals?.needsAmount === true);

const isDemandedByGate = (
  policy: CompiledPolicy,
  requested: PermissionKey | null,
  amount: MicroUsd | null,
): boolean =>
  (policy.approvals !== null && demandsApproval(policy.approvals, requested, amount)) ||
  isDemandedByCatalog(policy, requested);

const isDemandedByCatalog = ({ catalog }: CompiledPolicy, requested: PermissionKey | null): boolean =>
  catalog !== null && requested !== null && catalog.get(requested)?.requiresApproval === true;

/** Whether the rule requires an approval of such a request. */
export function demandsApproval(
  { aboveMicroUsd, permissions }: CompiledApprovalRule,
  requested: PermissionKey | null,
  amount: MicroUsd | null,
): boolean {
  if (aboveMicroUsd !== null && amount !== null && amount > aboveMicroUsd) return true;
  return requested !== null && permissions !== null && grants(permissions, requested);
}

/**
 * Whether the check applies: there is a rule, a catalog entry that requires an approval, or a presented
 * approval.
 */
export const hasApprovalRule = (
  policy: CompiledPolicy,
  passport: VerifiedPassport,
  { approval, permissionKey }: RequestFacts,
): boolean =>
  policy.approvals !== null ||
  passport.approvals !== null ||
  approval !== 'none' ||
  isDemandedByCatalog(policy, permissionKey);

/**
 * Whether the same request may have a pending approval that holds the money it lacks now. Then that approval
 * is the answer (contract §8), not the limit.
 */
export const mayBePending = (
  policy: CompiledPolicy,
  passport: VerifiedPassport,
  request: RequestFacts,
  { reason, amountMicroUsd, conditions }: Pick<Decision, 'reason' | 'amountMicroUsd' | 'conditions'>,
): boolean =>
  (reason === 'spend_limit_exceeded' || reason === 'wallet_limit_exceeded') &&
  request.approval === 'none' &&
  policy.accountId !== null &&
  // One that blocks would have decided before a limit did.
  ((conditions !== null && conditions.length > 0) ||
    demandedApprovalMs(policy, passport, request, amountMicroUsd) !== null);
