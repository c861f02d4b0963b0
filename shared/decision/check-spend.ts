import type { MicroUsd } from '../model/money.ts';
import type { CompiledPolicy } from './compile-gate.ts';
import type { LimitMiss, RequestFacts, VerifiedPassport } from './facts.ts';

/** The only currency there is (decisions §5); no currency named means this one. */
export const isDollars = (currency: string | null): boolean => currency === null || currency === 'USD';

/**
 * The amount of a request that counts: its own, or else the price per call that the gate's catalog publishes. Null
 * where neither gives one, and for another currency, which is no number of dollars at all.
 */
export function countedAmount(policy: CompiledPolicy, request: RequestFacts): MicroUsd | null {
  if (!isDollars(request.currency)) return null;
  if (request.amountMicroUsd !== null) return request.amountMicroUsd;
  if (policy.catalog === null || request.permissionKey === null) return null;
  return policy.catalog.get(request.permissionKey) ?? null;
}

/** The limit on a single transaction: the gate's and the passport's both apply, so the lower one does. */
export function perTransactionLimit(policy: CompiledPolicy, passport: VerifiedPassport): MicroUsd | null {
  const atGate = policy.perTransactionMicroUsd;
  const ofPassport = passport.perTransactionMicroUsd;
  if (atGate === null) return ofPassport;
  return ofPassport !== null && ofPassport < atGate ? ofPassport : atGate;
}

const nothing = 0 as MicroUsd;

/** How the amount misses the limit on one transaction; null where it does not. Waiting never helps here. */
export function missedPerTransaction(limit: MicroUsd, amount: MicroUsd | null): LimitMiss | null {
  if (amount === null || amount <= limit) return null;
  return { limit, used: nothing, requested: amount, resetAtS: null };
}
