import { missedWindow } from '../decision/check-windows.ts';
import type { AttestationRecord } from '../model/attestation.ts';
import type { DecisionReason, Outcome } from '../model/decision.ts';
import {
  type DecidedAgain,
  type OtherPolicy,
  type Past,
  type PastWindows,
  reachedCost,
  type WalletDrift,
} from './decide-again.ts';
import type { DecidedTwice, Verdict } from './difference.ts';

/** What the shadow of this policy said to the request of the record; null: nothing. */
const shadowOn = ({ carried }: AttestationRecord, hash: string) =>
  carried?.shadow?.policy_hash === hash ? carried.shadow : null;

export const isOfShadow =
  ({ hash }: Pick<OtherPolicy, 'hash'>) =>
  (record: AttestationRecord): boolean =>
    shadowOn(record, hash) !== null;

type Windows = PastWindows['quota'];

/**
 * What a shadow decided, as its record says it, with what that passes over: limits of windows and of wallets,
 * which `decideAgain` sums in the same way.
 */
export function decideOnShadow(
  { record }: Pick<Past, 'record'>,
  { hash }: Pick<OtherPolicy, 'hash'>,
  { windows, drift }: { readonly windows: PastWindows; readonly drift: WalletDrift },
): DecidedAgain | Extract<DecidedTwice['other'], { undecided: string }> {
  const said = shadowOn(record, hash);
  if (said === null || said.decision === null) return { undecided: said?.reason ?? 'error' };
  const verdict: Verdict = {
    outcome: said.decision as Outcome,
    reason: said.reason as DecisionReason | null,
    condition: said.condition,
  };
  if (verdict.outcome === 'BLOCK') return { ...verdict, decision: null };
  const { reason, walletId } = record;
  const reached = missOf(record, windows.quota);
  if (reached === null && windows.open !== null && missOf(record, windows.open.quota) !== null)
    return { undecided: windows.open.cause };
  if (reached !== null) return blocked(reached);
  if (walletId !== null) {
    if (reason === 'wallet_frozen') return blocked(reason);
    const isFull = reason === 'wallet_limit_exceeded';
    if (isFull ? drift.mayBeEmptier : drift.mayBeFuller || !reachedCost(record))
      return { undecided: 'wallet' };
    if (isFull) return blocked(reason);
  }
  if (reason === 'quota_unavailable') return { undecided: 'ledger' };
  if (reason === 'approvals_pending_exceeded' && verdict.outcome === 'SUSPEND')
    return { undecided: 'pending' };
  return { ...verdict, decision: null };
}

const blocked = (reason: DecisionReason): DecidedAgain => ({
  outcome: 'BLOCK',
  reason,
  condition: null,
  decision: null,
});

/** Money first, as in `decide`. An approval that was asked for has its money. */
function missOf(
  { decision, approvalId, amountMicroUsd }: AttestationRecord,
  { spend, rate }: Windows,
): DecisionReason | null {
  const isHeld = decision === 'PERMIT' && approvalId?.startsWith('appr_') === true;
  const money = isHeld ? 0 : (amountMicroUsd ?? 0);
  if (money > 0 && missedWindow(spend, money, 'micro_usd') !== null) return 'spend_limit_exceeded';
  return missedWindow(rate, 1, 'requests') === null ? null : 'rate_limit_exceeded';
}
