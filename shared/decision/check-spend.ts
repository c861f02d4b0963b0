import { assert } from '../errors/assert.ts';
import type { MicroUsd } from '../model/money.ts';
import { missedWindow } from './check-windows.ts';
import type { CompiledPolicy } from './compile-gate.ts';
import type { LimitMiss, QuotaView, RequestFacts, VerifiedPassport } from './facts.ts';

/** The only currency (contract §5), and the default. */
export const isDollars = (currency: string | null): boolean => currency === null || currency === 'USD';

/**
 * The amount that counts: the request's own, or else the price per call in the gate's catalog. Null without
 * either, and for another currency, which is no amount in dollars.
 */
export function countedAmount(policy: CompiledPolicy, request: RequestFacts): MicroUsd | null {
  if (!isDollars(request.currency)) return null;
  if (request.amountMicroUsd !== null) return request.amountMicroUsd;
  if (policy.catalog === null || request.permissionKey === null) return null;
  return policy.catalog.get(request.permissionKey)?.priceMicroUsd ?? null;
}

/** Whether the gate or the passport limits money. */
export const hasSpendLimit = (policy: CompiledPolicy, passport: VerifiedPassport): boolean =>
  policy.perTransactionMicroUsd !== null ||
  passport.perTransactionMicroUsd !== null ||
  policy.spendWindows.length > 0 ||
  passport.spendWindows.length > 0;

/**
 * Whether a limit on money applies and the request has no amount: a misspelt `amount` must not bypass it
 * (contract §4 and §5).
 */
export const lacksAmountToSpend = (
  policy: CompiledPolicy,
  passport: VerifiedPassport,
  amount: MicroUsd | null,
): boolean => amount === null && (policy.spendNeedsAmount || passport.spendNeedsAmount);

/**
 * How the amount misses the money limits: first the limit per transaction, where waiting never helps, then
 * the windows. An amount of 0, or one held by an approval (contract §8), needs nothing from a window.
 */
export function missedSpend(
  policy: CompiledPolicy,
  passport: VerifiedPassport,
  amount: MicroUsd | null,
  money: { readonly quota: QuotaView; readonly isHeld: boolean },
): LimitMiss | 'unknown' | null {
  const { spend } = money.quota;
  assert(
    spend.length === policy.spendWindows.length + passport.spendWindows.length,
    'the view lists every limit on money',
  );
  if (amount === null || amount === 0) return null;
  const limit = perTransactionLimit(policy, passport);
  if (limit !== null && amount > limit)
    return { unit: 'micro_usd', limit, used: 0, requested: amount, resetAtMs: null };
  return money.isHeld ? null : missedWindow(spend, amount, 'micro_usd');
}

/** Both the gate's and the passport's apply, so the lower one counts. */
function perTransactionLimit(policy: CompiledPolicy, passport: VerifiedPassport): MicroUsd | null {
  const atGate = policy.perTransactionMicroUsd;
  const ofPassport = passport.perTransactionMicroUsd;
  if (atGate === null) return ofPassport;
  return ofPassport !== null && ofPassport < atGate ? ofPassport : atGate;
}
