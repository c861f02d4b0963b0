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
 * Whether the approval that the request presents lets it go on. Every approval is bound to a gate: without
 * one, none can belong to the request, whatever a store says of it.
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
 * How long an approval stays pending if the request requires one: by the gate's rule, the passport's
 * own, or the entry of the catalog. Null: no approval is required, or the request is already approved.
 * If several require one, the shortest time counts. For an entry of the catalog it is the time of the rule of
 * its gate, if there is one.
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

/** Whether the rule asks for an approval of such a request. */
export function demandsApproval(
  { aboveMicroUsd, permissions }: CompiledApprovalRule,
  requested: PermissionKey | null,
  amount: MicroUsd | null,
): boolean {
  if (aboveMicroUsd !== null && amount !== null && amount > aboveMicroUsd) return true;
  return requested !== null && permissions !== null && grants(permissions, requested);
}

/**
 * Whether the check has anything to look at: a rule, an entry of the catalog that demands an approval, or one
 * that is presented.
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
 * Whether the same request may wait for a person already, and hold the very money that it lacks now: it is
 * answered with that approval then (contract §8), and not with the limit.
 */
export const mayBePending = (
  policy: CompiledPolicy,
  passport: VerifiedPassport,
  request: RequestFacts,
  { reason, amountMicroUsd }: Pick<Decision, 'reason' | 'amountMicroUsd'>,
): boolean =>
  reason === 'spend_limit_exceeded' &&
  request.approval === 'none' &&
  policy.accountId !== null &&
  demandedApprovalMs(policy, passport, request, amountMicroUsd) !== null;
