import { conditionLimits } from '../condition/limits.ts';
import type { StepBudget, Truth, Variables } from '../condition/variables.ts';
import { approvalExpiryMsDefault } from '../model/approval.ts';
import type { MicroUsd } from '../model/money.ts';
import type { PermissionKey } from '../model/permission.ts';
import type { UnixMillis } from '../model/time.ts';
import { grants } from './check-permission.ts';
import { isVouchedFor, tierAt } from './check-trust-level.ts';
import type { CompiledCondition } from './compile-conditions.ts';
import type { CompiledPolicy } from './compile-gate.ts';
import type { QuotaView, RequestFacts, VerifiedPassport } from './facts.ts';

/** What conditions are asked about. */
export interface ConditionsInput {
  readonly policy: CompiledPolicy;
  readonly passport: VerifiedPassport;
  readonly request: RequestFacts;
  readonly quota: Pick<QuotaView, 'wallet'>;
  readonly amount: MicroUsd | null;
  readonly nowMs: UnixMillis;
}

/** The condition that an answer names. */
interface NamedCondition {
  readonly id: string;
  /** Null: that of the reason. */
  readonly detail: string | null;
}

/** What the conditions of gate and passport have said. */
export interface Asked {
  /** The ids of those that failed, in their order, up to the one that blocks. */
  readonly failed: readonly string[];
  readonly blocks: (NamedCondition & { readonly reason: 'condition_not_met' | 'condition_error' }) | null;
  /** The first of those for which a person is asked, and for how long at the most. */
  readonly approve: (NamedCondition & { readonly expiresInMs: number }) | null;
}

export const hasConditions = (policy: CompiledPolicy, passport: VerifiedPassport): boolean =>
  policy.conditions.length > 0 || passport.conditions.length > 0;

/**
 * Asks the conditions of the gate, then those of the passport, each in its order, until one blocks (contract
 * §5). All of them share one budget of steps. `'unknown'`: one of them reads the wallet of the passport, and
 * which one that is has to be asked for.
 */
export function askConditions(input: ConditionsInput): Asked | 'unknown' {
  const { policy, passport, request, quota } = input;
  const failed: string[] = [];
  let variables: Variables | null = null;
  const budget: StepBudget = { left: conditionLimits.stepsMax };
  let approve = null as Asked['approve'];
  for (const { conditions, approvals } of [policy, passport]) {
    for (const condition of conditions) {
      if (!isAskedOf(condition, request.permissionKey)) continue;
      if (condition.readsWallet && quota.wallet?.state === 'unknown') return 'unknown';
      variables ??= variablesOf(input);
      const truth: Truth = condition.evaluate(variables, budget);
      if (truth === true) continue;
      const { id, message, otherwise } = condition;
      failed.push(id);
      if (truth !== false)
        return { failed, approve, blocks: { id, reason: 'condition_error', detail: truth.detail } };
      if (otherwise === 'block')
        return { failed, approve, blocks: { id, reason: 'condition_not_met', detail: message } };
      const expiresInMs = approvals?.expiresInMs ?? approvalExpiryMsDefault;
      approve =
        approve === null
          ? { id, detail: message, expiresInMs }
          : { ...approve, expiresInMs: Math.min(approve.expiresInMs, expiresInMs) };
    }
  }
  return { failed, approve, blocks: null };
}

/** A request without a permission is asked the conditions of all requests alone. */
const isAskedOf = ({ permissions }: CompiledCondition, requested: PermissionKey | null): boolean =>
  permissions === null || (requested !== null && grants(permissions, requested));

/** All that a condition may read (contract §5). */
function variablesOf({ policy, passport, request, quota, amount, nowMs }: ConditionsInput): Variables {
  const isVouched = isVouchedFor(policy, passport);
  return {
    request: readRequest(request, amount),
    passport: {
      id: passport.passportId,
      agent_id: passport.agentId,
      permissions: [...passport.permissions],
      trust_tier: tierAt(policy, passport),
      issuer: passport.issuerId,
      owner: isVouched ? passport.owner : null,
      wallet_id: quota.wallet?.levels[0]?.walletId ?? null,
    },
    claims: isVouched ? passport.foreignClaims : noClaims,
    // Without a gate: empty.
    gate: { id: policy.gateId ?? '', trust_level: policy.trustLevel ?? '' },
    user: isVouched ? passport.user : null,
    nowMs,
  };
}

const noClaims: Readonly<Record<string, unknown>> = Object.freeze({});

/** The request as it was sent, with what is read of it under one name each. */
function readRequest(
  { asked, permissionKey, domain }: RequestFacts,
  amount: MicroUsd | null,
): Readonly<Record<string, unknown>> {
  const read: Record<string, unknown> = { ...asked };
  delete read['proof'];
  delete read['approval_id'];
  setOrRemove(read, 'permission_key', permissionKey);
  setOrRemove(read, 'domain', domain);
  setOrRemove(read, 'amount_micro_usd', amount);
  return read;
}

function setOrRemove(read: Record<string, unknown>, name: string, value: string | number | null): void {
  if (value === null) delete read[name];
  else read[name] = value;
}
