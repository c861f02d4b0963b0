import type {
  Charge,
  QuotaView,
  StandingApprovalView,
  WalletView,
  WindowView,
} from '../../shared/decision/facts.ts';
import { must } from '../../shared/errors/assert.ts';
import type { WalletId } from '../../shared/model/ids.ts';
import type { StandingApprovalTerms } from '../../shared/model/standing-approval.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { HeldWindow } from './held-window.ts';
import type { WalletLookUp, WalletPath } from './wallet-paths.ts';

/** Windows in which the ledger had less left than it was asked for, each with the start of that window. */
export type Shortage = ReadonlyMap<HeldWindow, UnixMillis>;

/**
 * The windows that a request draws on, in the order of QuotaView. A view without shortage refers to the
 * leases themselves, so it is built once for a gate and passport and then reused.
 */
export interface HeldView extends QuotaView {
  readonly spendWindows: readonly HeldWindow[];
  readonly rateWindows: readonly HeldWindow[];
  readonly standingApprovals: readonly HeldStandingApproval[];
  /** The last of `spendWindows` and of `rateWindows`, by wallet. Null: the passport never was in one. */
  readonly heldWallet: HeldWallet | null;
}

interface HeldWallet {
  readonly levels: readonly HeldLevel[];
  /** What the levels are of. Null: they have to be asked for. */
  readonly path: WalletPath | null;
  readonly isFrozen: boolean;
  readonly lookUp: WalletLookUp | null;
}

interface HeldLevel {
  readonly walletId: WalletId | null;
  readonly spend: readonly HeldWindow[];
  readonly rate: readonly HeldWindow[];
}

interface HeldStandingApproval extends StandingApprovalView {
  readonly held: HeldWindow;
}

export const heldView = (
  spendWindows: readonly HeldWindow[],
  rateWindows: readonly HeldWindow[],
  standingApprovals: readonly Omit<HeldStandingApproval, 'window'>[] = [],
  heldWallet: HeldWallet | null = null,
): HeldView => ({
  spend: spendWindows.map(({ lease }) => lease),
  rate: rateWindows.map(({ lease }) => lease),
  spendWindows: [...spendWindows, ...(heldWallet?.levels ?? []).flatMap(({ spend }) => spend)],
  rateWindows: [...rateWindows, ...(heldWallet?.levels ?? []).flatMap(({ rate }) => rate)],
  heldWallet,
  wallet: walletView(heldWallet, ({ lease }) => lease),
  standingApprovals: standingApprovals.map((each) => ({ ...each, window: each.held.lease })),
});

/** Null: the passport is known to be in none, as one is that has left the wallet of its token. */
function walletView(
  held: HeldWallet | null,
  windowOf: (window: HeldWindow) => WindowView,
): WalletView | null {
  if (held === null || (held.lookUp === null && held.levels.length === 0)) return null;
  const { levels, lookUp, isFrozen } = held;
  return {
    state: lookUp !== null ? 'unknown' : isFrozen ? 'frozen' : 'known',
    levels: levels.map(({ walletId, spend, rate }) => ({
      walletId,
      spend: spend.map(windowOf),
      rate: rate.map(windowOf),
    })),
  };
}

/**
 * The windows that a decision draws on: those of its view, and the standing approval among its money. Null:
 * none.
 */
export function drawnView(view: HeldView, drawn: StandingApprovalTerms | null): HeldView {
  if (drawn === null) return view;
  const found = view.standingApprovals.find(({ terms }) => terms === drawn);
  const { held, window } = must(found, 'a decision draws on a standing approval of its view');
  return { ...view, spend: [...view.spend, window], spendWindows: [...view.spendWindows, held] };
}

/**
 * When a charge of these windows is taken, by the clock that names them: the time itself, or the nearest
 * millisecond that lies in all windows held. `nowMs` is an estimate of that clock, off by up to half a round
 * trip, and a lease knows better: its grantor has said that its window had begun, and until when it lasts at
 * least. Without this a record near the end of a window would show its units in the next one (contract §6).
 */
export function takenAtMs(view: HeldView, nowMs: UnixMillis): UnixMillis {
  let atMs = nowMs;
  for (const { lease } of view.spendWindows) atMs = withinWindow(lease, atMs);
  for (const { lease } of view.rateWindows) atMs = withinWindow(lease, atMs);
  return atMs;
}

function withinWindow({ startsAtMs, endsAtMs }: HeldWindow['lease'], atMs: UnixMillis): UnixMillis {
  if (startsAtMs !== null && atMs < startsAtMs) return startsAtMs;
  return endsAtMs !== null && atMs >= endsAtMs ? ((endsAtMs - 1) as UnixMillis) : atMs;
}

/** The latest start of the windows held. All that have ended by then are over, as their grantor knows. */
export function latestStartMs(view: HeldView): number {
  let latestMs = 0;
  for (const { lease } of view.spendWindows) latestMs = Math.max(latestMs, lease.startsAtMs ?? 0);
  for (const { lease } of view.rateWindows) latestMs = Math.max(latestMs, lease.startsAtMs ?? 0);
  return latestMs;
}

/**
 * Ids of the leases that this charge is taken from, for its record. Call it in the section that takes the
 * charge. Undefined if the ledger has not numbered one of them.
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
 * The view of a refused request. A window named by the shortage is final unless it has ended since. If only
 * the rate is short, report the money as available so the right limit is named. Never permits.
 */
export function finalView(view: HeldView, shortage: Shortage): HeldView {
  const isRateShort = view.rateWindows
    .map((window) => finalWindow(window, shortage))
    .some(({ isFinal, available }) => isFinal && available < 1);
  const rateOf = (window: HeldWindow) => finalWindow(window, shortage);
  const spendOf = (window: HeldWindow) => {
    const final = finalWindow(window, shortage);
    return isRateShort && !final.isFinal ? { ...final, available: final.limit } : final;
  };
  // The windows of gate and passport come first.
  const spend = view.spendWindows.slice(0, view.spend.length).map(spendOf);
  const rate = view.rateWindows.slice(0, view.rate.length).map(rateOf);
  const isMoney = new Set(view.spendWindows);
  const wallet = walletView(view.heldWallet, (window) =>
    isMoney.has(window) ? spendOf(window) : rateOf(window),
  );
  const standingApprovals = view.standingApprovals.map((each) => ({
    ...each,
    window: finalWindow(each.held, shortage),
  }));
  return { ...view, spend, rate, standingApprovals, wallet };
}

function finalWindow(window: HeldWindow, shortage: Shortage): WindowView {
  const { limit, available, endsAtMs } = window.lease;
  // Units reserved by a pending settlement are lent, not used.
  const used = Math.max(0, window.lease.used - window.reservedUnits);
  return { limit, available, used, isFinal: isAbout(shortage, window), endsAtMs };
}

/** The shortage names this window, which has not ended since. */
export function isAbout(shortage: Shortage, window: HeldWindow): boolean {
  const { startsAtMs } = window.lease;
  return startsAtMs !== null && shortage.get(window) === startsAtMs;
}
