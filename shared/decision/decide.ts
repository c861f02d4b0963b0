/**
 * Room `shared/decision`: the decision core. `compile-gate.ts` and `compile-passport.ts` run once per
 * version, each check has a file `check-….ts`, `compile-routes.ts` finds the permission of a method and
 * path, and `run.ts` is the state machine of a request that has to ask.
 */

import { must } from '../errors/assert.ts';
import type { PiiFinding } from '../model/attestation.ts';
import type { DecisionReason } from '../model/decision.ts';
import type { PermitHold } from '../model/hold.ts';
import type { MicroUsd } from '../model/money.ts';
import type { StandingApprovalTerms } from '../model/standing-approval.ts';
import type { UnixMillis } from '../model/time.ts';
import {
  checkPresentedApproval,
  demandedApprovalMs,
  hasApprovalRule,
  lacksAmountToApprove,
} from './check-approval.ts';
import { type Asked, askConditions, hasConditions } from './check-conditions.ts';
import { checkDomain, hasDomainList } from './check-domain.ts';
import { checkFreshness } from './check-freshness.ts';
import { checkIssuer } from './check-issuer.ts';
import { checkPassport } from './check-passport.ts';
import { checkPermission } from './check-permission.ts';
import { checkPii, reportedFindings } from './check-pii.ts';
import { checkProof, demandedProof } from './check-proof.ts';
import { hasRateLimit, missedRate } from './check-rate.ts';
import { type CheckSet, check, listChecks } from './check-set.ts';
import { countedAmount, hasSpendLimit, isDollars, lacksAmountToSpend, missedSpend } from './check-spend.ts';
import { checkTrustLevel } from './check-trust-level.ts';
import { missedWallet, missedWalletMoney, walletLimitsMoney, walletLimitsRate } from './check-wallet.ts';
import type { CompiledPolicy } from './compile-gate.ts';
import type {
  Charge,
  Decision,
  HoldAsk,
  LimitMiss,
  PassportFacts,
  QuotaView,
  RequestFacts,
  Unknown,
  VerifiedPassport,
} from './facts.ts';
import { findStandingApproval } from './find-standing-approval.ts';

/**
 * The answer of a gate (or of `noGate`) to a passport and a request: the checks in the order of contract §5,
 * the first BLOCK wins, and only what has passed every one of them is permitted. The order is a contract: it
 * determines which reason a caller sees, and that no later check reveals what an earlier one hides.
 *
 * Pure, synchronous and total: refusals and missing knowledge (`unknown`) are values. Every time comparison
 * uses `nowMs`. Takes nothing from counters: `charge` is what the caller must take, with no await between
 * reading `quota` and taking it. Throws only on a bug of the caller: a policy with PII controls needs a
 * scanned request, and window limits need a view of each window. `evaluated` holds the checks that were
 * configured and reached.
 *
 * The checks of the passport come first; those of the request and its cost follow.
 */
export function decide(
  policy: CompiledPolicy,
  facts: PassportFacts,
  request: RequestFacts,
  quota: QuotaView,
  nowMs: UnixMillis,
): Decision {
  const decision = decideInOrder(policy, facts, request, quota, nowMs);
  if (decision.conditions !== null || !mayAskConditions(policy, facts)) return decision;
  return { ...decision, conditions: noneFailed };
}

/** Whether there are conditions of the gate, or of a passport that verified. */
export const mayAskConditions = (policy: CompiledPolicy, facts: PassportFacts): boolean =>
  facts.kind === 'verified' ? hasConditions(policy, facts.passport) : policy.conditions.length > 0;

const noneFailed: readonly string[] = Object.freeze([]);

function decideInOrder(
  policy: CompiledPolicy,
  facts: PassportFacts,
  request: RequestFacts,
  quota: QuotaView,
  nowMs: UnixMillis,
): Decision {
  const amount = countedAmount(policy, request);
  let reached: CheckSet = check.passport;
  if (facts.kind === 'refused') return block(facts.reason, reached, amount);
  const { passport, standing } = facts;
  let refusal = checkPassport(passport, standing, policy, nowMs);
  if (refusal !== null) return block(refusal, reached, amount);

  if (policy.trustLevel !== null) {
    reached |= check.trust_level;
    refusal = checkTrustLevel(policy, policy.trustLevel, passport);
    if (refusal !== null) return block(refusal, reached, amount);
  }

  if (policy.stateAgeMsMax !== null) {
    reached |= check.freshness;
    refusal = checkFreshness(standing, policy.stateAgeMsMax);
    if (refusal !== null) return block(refusal, reached, amount);
  }

  reached |= check.issuer;
  refusal = checkIssuer(policy, passport, standing);
  if (refusal !== null) return block(refusal, reached, amount);

  const demand = demandedProof(policy, passport);
  if (demand !== 'off') {
    reached |= check.proof_of_possession;
    const found = checkProof(demand, request.proof, nowMs);
    if (found === 'unknown') return undecided('proof', reached, amount, noFindings);
    if (found !== null) return block(found, reached, amount);
  }

  if (policy.requiresPermission || request.permissionKey !== null) {
    reached |= check.permission;
    refusal = checkPermission(request.permissionKey, passport, policy.catalog);
    if (refusal !== null) return block(refusal, reached, amount);
  }

  return decideOnRequest({ policy, passport, request, quota, amount, nowMs, asked: null }, reached);
}

/** Input of the later checks, including findings of the earlier ones. */
interface CheckInput {
  readonly policy: CompiledPolicy;
  readonly passport: VerifiedPassport;
  readonly request: RequestFacts;
  readonly quota: QuotaView;
  readonly amount: MicroUsd | null;
  readonly nowMs: UnixMillis;
  /** What its conditions said; null: there are none. */
  readonly asked: Asked | null;
}

/** The checks of the request: the presented approval, its conditions, its domain, its personal data. */
function decideOnRequest(input: CheckInput, reached: CheckSet): Decision {
  const { policy, passport, request, amount } = input;
  const presented = checkPresentedApproval(policy, request);
  if (presented === 'unknown') return undecided('approval', reached, amount, noFindings);
  if (presented !== null) return block(presented, reached, amount);
  return hasConditions(policy, passport)
    ? decideOnConditions(input, reached | check.conditions)
    : decideOnContent(input, reached);
}

function decideOnConditions(input: CheckInput, reached: CheckSet): Decision {
  const { amount } = input;
  const asked = askConditions(input);
  if (asked === 'unknown') return undecided('leases', reached, amount, noFindings);
  const { failed: conditions, blocks } = asked;
  if (blocks === null) return { ...decideOnContent({ ...input, asked }, reached), conditions };
  const { id: condition, reason, detail } = blocks;
  return { ...block(reason, reached, amount), conditions, condition, detail };
}

function decideOnContent(input: CheckInput, before: CheckSet): Decision {
  const { policy, passport, request, amount } = input;
  let reached = before;
  if (hasDomainList(policy, passport)) {
    reached |= check.domain_allowlist;
    const refusal = checkDomain(policy, passport, request.domain);
    if (refusal !== null) return block(refusal, reached, amount);
  }

  if (policy.pii === null) return decideOnCost(input, reached, noFindings);
  reached |= check.pii_controls;
  const scan = must(request.pii, 'a request at a gate with PII controls was scanned');
  const pii = reportedFindings(policy.pii, scan);
  const refusal = checkPii(policy.pii, scan);
  if (refusal !== null) return block(refusal, reached, amount, pii);
  return decideOnCost(input, reached, pii);
}

/** The last checks: cost, rate, and whether an approval is required. */
function decideOnCost(input: CheckInput, before: CheckSet, pii: readonly PiiFinding[]): Decision {
  const { policy, passport, request, quota, amount, asked } = input;
  let reached = before;
  // Another currency blocks even without a limit: its number must never be read as dollars.
  if (!isDollars(request.currency))
    return block('currency_unsupported', reached | check.spend_limit, amount, pii);
  // Pending or approved: the approval already holds the money.
  const isHeld = request.approval !== 'none';
  if (hasSpendLimit(policy, passport) || quota.wallet !== null) {
    reached |= check.spend_limit;
    const refusal = decideOnMoney(input, isHeld, reached, pii);
    if (refusal !== null) return refusal;
  }

  if (request.hold !== null && amount === null)
    return block('amount_missing', reached | check.spend_limit, amount, pii);

  if (hasRateLimit(policy, passport) || walletLimitsRate(quota)) {
    reached |= check.rate_limit;
    const refusal = decideOnRate(input, reached, pii);
    if (refusal !== null) return refusal;
  }

  const byCondition = asked?.approve ?? null;
  if (byCondition !== null || hasApprovalRule(policy, passport, request)) {
    reached |= check.approval;
    if (lacksAmountToApprove(policy, passport, amount)) return block('amount_missing', reached, amount, pii);
    const demandedMs = demandedApprovalMs(policy, passport, request, amount);
    if (byCondition !== null && request.approval !== 'approved')
      return decideByCondition(input, byCondition, demandedMs, reached, pii);
    if (request.approval === 'pending') return suspend(null, reached, amount, pii);
    if (demandedMs !== null) return decideForPerson(input, demandedMs, reached, pii);
  }
  return permit(input, reached, pii, null);
}

/**
 * The limits on money, of gate and passport and then of the wallets. Null: the request passes. A limit that
 * is missed counts before one that is unknown: the ledger need not be asked then.
 */
function decideOnMoney(
  { policy, passport, quota, amount }: CheckInput,
  isHeld: boolean,
  reached: CheckSet,
  pii: readonly PiiFinding[],
): Decision | null {
  if (lacksAmountToSpend(policy, passport, amount) || (amount === null && walletLimitsMoney(quota)))
    return block('amount_missing', reached, amount, pii);
  const miss = hasSpendLimit(policy, passport)
    ? missedSpend(policy, passport, amount, { quota, isHeld })
    : null;
  if (miss !== null && miss !== 'unknown') return block('spend_limit_exceeded', reached, amount, pii, miss);
  const { wallet } = quota;
  if (wallet?.state === 'frozen') return block('wallet_frozen', reached, amount, pii);
  if (wallet?.state === 'unknown') return undecided('leases', reached, amount, pii);
  const ofWallet = wallet === null ? null : missedWalletMoney(wallet, amount, isHeld);
  if (ofWallet !== null && ofWallet !== 'unknown')
    return block('wallet_limit_exceeded', reached, amount, pii, ofWallet);
  return miss === 'unknown' || ofWallet === 'unknown' ? undecided('leases', reached, amount, pii) : null;
}

/** The same for the number of requests. */
function decideOnRate(
  { policy, passport, quota, amount }: CheckInput,
  reached: CheckSet,
  pii: readonly PiiFinding[],
): Decision | null {
  const miss = hasRateLimit(policy, passport) ? missedRate(policy, passport, quota) : null;
  if (miss !== null && miss !== 'unknown') return block('rate_limit_exceeded', reached, amount, pii, miss);
  const ofWallet = quota.wallet === null ? null : missedWallet(quota.wallet, { unit: 'requests', units: 1 });
  if (ofWallet !== null && ofWallet !== 'unknown')
    return block('wallet_limit_exceeded', reached, amount, pii, ofWallet);
  return miss === 'unknown' || ofWallet === 'unknown' ? undecided('leases', reached, amount, pii) : null;
}

/** A condition wants a person to be asked about this request: no standing approval answers that. */
function decideByCondition(
  { policy, request, amount }: CheckInput,
  { id: condition, detail, expiresInMs }: NonNullable<Asked['approve']>,
  demandedMs: number | null,
  reached: CheckSet,
  pii: readonly PiiFinding[],
): Decision {
  const waitMs = Math.min(expiresInMs, demandedMs ?? expiresInMs);
  const decision =
    policy.accountId === null
      ? block('approval_required', reached, amount, pii)
      : suspend(request.approval === 'pending' ? null : waitMs, reached, amount, pii);
  return { ...decision, condition, detail };
}

/** An approval is required: a standing one, or a person's. */
function decideForPerson(
  input: CheckInput,
  demandedMs: number,
  reached: CheckSet,
  pii: readonly PiiFinding[],
): Decision {
  const { policy, passport, request, quota, amount, nowMs } = input;
  // An approval is bound to a gate; without one it is impossible.
  if (policy.accountId === null) return block('approval_required', reached, amount, pii);
  const found = findStandingApproval(
    quota,
    { passport, gateAccountId: policy.accountId },
    request,
    amount,
    nowMs,
  );
  if (found === null) return suspend(demandedMs, reached, amount, pii);
  const { terms, isAtHand } = found;
  if (isAtHand) return permit(input, reached, pii, terms);
  return { ...undecided('leases', reached, amount, pii), standingApproval: terms };
}

const permit = (
  { policy, request, amount, nowMs }: CheckInput,
  reached: CheckSet,
  pii: readonly PiiFinding[],
  standingApproval: StandingApprovalTerms | null,
): Decision => ({
  outcome: 'PERMIT',
  reason: null,
  evaluated: listChecks(reached),
  amountMicroUsd: amount,
  charge: permitCharge(request, amount),
  standingApproval,
  limitMiss: null,
  unknown: null,
  pii,
  isRedacted: pii.length > 0 && policy.pii?.mode === 'redact',
  approvalExpiresInMs: null,
  hold:
    request.hold === null ? null : holdOf(policy, request.hold, must(amount, 'a hold has an amount'), nowMs),
  conditions: null,
  condition: null,
  detail: null,
});

const holdOf = (
  policy: CompiledPolicy,
  { expiresInMs }: HoldAsk,
  amountMicroUsd: MicroUsd,
  nowMs: UnixMillis,
): PermitHold => ({
  amountMicroUsd,
  expiresAtMs: (nowMs + (expiresInMs ?? policy.holdExpiresInMs)) as UnixMillis,
});

/**
 * Units that a PERMIT takes and that must be available before it (`unknown: 'leases'`); no money if an
 * approval holds it.
 */
export const permitCharge = ({ approval }: RequestFacts, amount: MicroUsd | null): Charge => ({
  moneyMicroUsd: approval === 'none' ? (amount ?? noMoney) : noMoney,
  requests: 1,
});

const noMoney = 0 as MicroUsd;
const noFindings: readonly PiiFinding[] = Object.freeze([]);

function block(
  reason: DecisionReason,
  reached: CheckSet,
  amount: MicroUsd | null,
  pii: readonly PiiFinding[] = noFindings,
  limitMiss: LimitMiss | null = null,
  unknown: Unknown | null = null,
): Decision {
  return {
    outcome: 'BLOCK',
    reason,
    evaluated: listChecks(reached),
    amountMicroUsd: amount,
    charge: null,
    standingApproval: null,
    limitMiss,
    unknown,
    pii,
    isRedacted: false,
    approvalExpiresInMs: null,
    hold: null,
    conditions: null,
    condition: null,
    detail: null,
  };
}

/** The decision if the caller cannot find out: deny by default. */
const undecided = (
  unknown: Unknown,
  reached: CheckSet,
  amount: MicroUsd | null,
  pii: readonly PiiFinding[],
): Decision => block('quota_unavailable', reached, amount, pii, null, unknown);

/** `expiresInMs` null: the approval is already pending, and holds its money. */
const suspend = (
  expiresInMs: number | null,
  reached: CheckSet,
  amount: MicroUsd | null,
  pii: readonly PiiFinding[],
): Decision => ({
  outcome: 'SUSPEND',
  reason: 'approval_required',
  evaluated: listChecks(reached),
  amountMicroUsd: amount,
  charge: expiresInMs === null ? null : { moneyMicroUsd: amount ?? noMoney, requests: 0 },
  standingApproval: null,
  limitMiss: null,
  unknown: null,
  pii,
  isRedacted: false,
  approvalExpiresInMs: expiresInMs,
  hold: null,
  conditions: null,
  condition: null,
  detail: null,
});
