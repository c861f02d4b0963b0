import type { DecisionReason } from '../model/decision.ts';
import type { MicroUsd } from '../model/money.ts';
import type { UnixMillis } from '../model/time.ts';
import { checkDomain, hasDomainList } from './check-domain.ts';
import { checkFreshness } from './check-freshness.ts';
import { checkIssuer } from './check-issuer.ts';
import { checkPassport } from './check-passport.ts';
import { checkPermission } from './check-permission.ts';
import { type CheckSet, check, listChecks } from './check-set.ts';
import { countedAmount, isDollars, missedPerTransaction, perTransactionLimit } from './check-spend.ts';
import { checkTrustLevel } from './check-trust-level.ts';
import type { CompiledPolicy } from './compile-gate.ts';
import type { Decision, LimitMiss, PassportFacts, QuotaView, RequestFacts } from './facts.ts';

/**
 * The answer of a gate (or of `noGate`) to a passport and a request: the checks in the order of decisions §5, the first
 * BLOCK wins, and only what has passed every one of them is permitted. The order is a contract: it settles which reason a caller
 * sees, and that nobody learns from a later check what an earlier one keeps from him.
 *
 * Pure, synchronous and total: a refusal is a value. Every comparison with time uses the one `nowMs`. Takes nothing from
 * any counter: `charge` says what the caller must take, with no await between reading `quota` and taking it.
 * `evaluated` holds the checks that were configured and reached. The places of `proof_of_possession`, `pii_controls`,
 * `rate_limit` and `approval` stand in `checkNames`; a gate or passport that asks for one of them cannot be made yet.
 */
export function decide(
  policy: CompiledPolicy,
  facts: PassportFacts,
  request: RequestFacts,
  _quota: QuotaView,
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

  if (policy.requiresPermission || request.permissionKey !== null) {
    reached |= check.permission;
    refusal = checkPermission(request.permissionKey, passport, policy.catalog);
    if (refusal !== null) return block(refusal, reached, amount);
  }

  // There are no approvals yet: one that is presented can belong to no request (decisions §8).
  if (request.approvalId !== null) return block('approval_mismatch', reached, amount);

  if (hasDomainList(policy, passport)) {
    reached |= check.domain_allowlist;
    refusal = checkDomain(policy, passport, request.domain);
    if (refusal !== null) return block(refusal, reached, amount);
  }

  // Another currency blocks here also where no limit is set: its number must never be taken for one of dollars.
  if (!isDollars(request.currency)) return block('currency_unsupported', reached | check.spend_limit, amount);
  const limit = perTransactionLimit(policy, passport);
  if (limit !== null) {
    reached |= check.spend_limit;
    const miss = missedPerTransaction(limit, amount);
    if (miss !== null) return block('spend_limit_exceeded', reached, amount, miss);
  }

  return permit(reached, amount);
}

function block(
  reason: DecisionReason,
  reached: CheckSet,
  amount: MicroUsd | null,
  limitMiss: LimitMiss | null = null,
): Decision {
  return {
    outcome: 'BLOCK',
    reason,
    evaluated: listChecks(reached),
    amountMicroUsd: amount,
    charge: null,
    limitMiss,
  };
}

const noMoney = 0 as MicroUsd;

function permit(reached: CheckSet, amount: MicroUsd | null): Decision {
  return {
    outcome: 'PERMIT',
    reason: null,
    evaluated: listChecks(reached),
    amountMicroUsd: amount,
    charge: { moneyMicroUsd: amount ?? noMoney },
    limitMiss: null,
  };
}
