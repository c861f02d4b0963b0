import type { MicroUsd } from '../model/money.ts';
import { isForAMoment, missedWindow } from './check-windows.ts';
import type { LimitMiss, QuotaView, WalletLevelView, WalletView } from './facts.ts';

/** Whether a wallet limits money: then a request needs an amount (contract §4). */
export const walletLimitsMoney = ({ wallet }: Pick<QuotaView, 'wallet'>): boolean =>
  wallet?.levels.some(({ spend }) => spend.length > 0) === true;

export const walletLimitsRate = ({ wallet }: Pick<QuotaView, 'wallet'>): boolean =>
  wallet?.levels.some(({ rate }) => rate.length > 0) === true;

/**
 * How a request misses the limits of its wallets: null if all have the units, `'unknown'` if one may have
 * them and the ledger was not asked. Of several misses the longest counts, as among the windows of a gate; of
 * equal ones that of the wallet nearest to the passport.
 */
export function missedWallet(
  { levels }: WalletView,
  { unit, units }: { readonly unit: LimitMiss['unit']; readonly units: number },
): LimitMiss | 'unknown' | null {
  let missed: LimitMiss | null = null;
  let isUnknown = false;
  for (const level of levels) {
    const miss = missedWindow(windowsOf(level, unit), units, unit);
    if (miss === null) continue;
    if (miss === 'unknown') isUnknown = true;
    else if (missed === null || isLonger(miss, missed)) missed = { ...miss, walletId: level.walletId };
  }
  if (missed !== null) return missed;
  return isUnknown ? 'unknown' : null;
}

export const missedWalletMoney = (
  view: WalletView,
  amount: MicroUsd | null,
  isHeld: boolean,
): LimitMiss | 'unknown' | null =>
  amount === null || amount === 0 || isHeld ? null : missedWallet(view, { unit: 'micro_usd', units: amount });

const windowsOf = ({ spend, rate }: WalletLevelView, unit: LimitMiss['unit']) =>
  unit === 'micro_usd' ? spend : rate;

function isLonger(one: LimitMiss, other: LimitMiss): boolean {
  if (one.resetAtMs === null || other.resetAtMs === null)
    return one.resetAtMs === null && other.resetAtMs !== null;
  const [passes, otherPasses] = [isForAMoment(one), isForAMoment(other)];
  return passes === otherPasses ? one.resetAtMs > other.resetAtMs : otherPasses;
}
