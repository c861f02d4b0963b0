import type { Charge, QuotaView, WindowView } from '../../shared/decision/facts.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { HeldWindow } from './held-window.ts';

/**
 * Windows of which the ledger had less left than the request needed that was asked for, each with the start
 * of that window.
 */
export type Shortage = ReadonlyMap<HeldWindow, UnixMillis>;

/**
 * The windows that a request draws on, in the order of QuotaView. The numbers of a view without shortage are
 * the leases themselves, so that it is made once for a gate and passport and then reused.
 */
export interface HeldView extends QuotaView {
  readonly spendWindows: readonly HeldWindow[];
  readonly rateWindows: readonly HeldWindow[];
}

export const heldView = (
  spendWindows: readonly HeldWindow[],
  rateWindows: readonly HeldWindow[],
): HeldView => ({
  spend: spendWindows.map(({ lease }) => lease),
  rate: rateWindows.map(({ lease }) => lease),
  spendWindows,
  rateWindows,
});

/**
 * The leases that this charge is taken from, as its record names them; in the section that takes it.
 * Undefined where the ledger has not given one of them a number.
 */
export function leasesOf(
  { spendWindows, rateWindows }: HeldView,
  { moneyMicroUsd, requests }: Charge,
): readonly number[] | undefined {
  const ids: number[] = [];
  if (moneyMicroUsd > 0) {
    for (const { leaseId } of spendWindows) {
      if (leaseId === null) return undefined;
      ids.push(leaseId);
    }
  }
  if (requests > 0) {
    for (const { leaseId } of rateWindows) {
      if (leaseId === null) return undefined;
      ids.push(leaseId);
    }
  }
  return ids;
}

/**
 * The view of a request that was refused: what the shortage is about is settled, as long as it is the same
 * window. Where that leaves it without a request, the ledger had the money, which went back before this was
 * heard: it counts as there, so that what blocks can be said. Nothing can be permitted on it.
 */
export function finalView(view: HeldView, shortage: Shortage): HeldView {
  const rate = view.rateWindows.map((window) => finalWindow(window, shortage));
  const isRateShort = rate.some(({ isFinal, available }) => isFinal && available < 1);
  const spend = view.spendWindows.map((window) => {
    const settled = finalWindow(window, shortage);
    return isRateShort && !settled.isFinal ? { ...settled, available: settled.limit } : settled;
  });
  return { spend, rate, spendWindows: view.spendWindows, rateWindows: view.rateWindows };
}

function finalWindow(window: HeldWindow, shortage: Shortage): WindowView {
  const { limit, available, endsAtMs } = window.lease;
  // What a settlement holds until its outcome is known is lent to it.
  const used = Math.max(0, window.lease.used - window.reservedUnits);
  return { limit, available, used, isFinal: isAbout(shortage, window), endsAtMs };
}

/** It is, and that window has not ended since. */
export function isAbout(shortage: Shortage, window: HeldWindow): boolean {
  const { startsAtMs } = window.lease;
  return startsAtMs !== null && shortage.get(window) === startsAtMs;
}
