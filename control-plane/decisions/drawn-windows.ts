import type { CompiledGate, CompiledPolicy } from '../../shared/decision/compile-gate.ts';
import type { Charge, QuotaView, VerifiedPassport, WindowView } from '../../shared/decision/facts.ts';
import { isFor } from '../../shared/decision/find-standing-approval.ts';
import { must } from '../../shared/errors/assert.ts';
import type { AccountId, WalletId } from '../../shared/model/ids.ts';
import type { StandingApprovalTerms } from '../../shared/model/standing-approval.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { type WalletWindow, walletLimits, walletWindows } from '../../shared/model/wallet.ts';
import { baseOf, type CounterKey, counterKey } from '../../shared/quota/counter.ts';
import { type WindowName, windowAt } from '../../shared/quota/window.ts';
import { counterOf, type WindowLimit } from '../../shared/quota/window-limit.ts';
import type { HeldUnits } from '../quota/held-units.ts';
import type { AskGroup, WindowAsk } from '../quota/take-units.ts';
import type { ShortWindow } from '../quota/unused-units.ts';
import { counterOfLane, type WalletPath } from '../quota/wallet-paths.ts';

export interface DrawnWindow {
  readonly counter: CounterKey;
  readonly window: WindowName;
  readonly limit: number;
  /** When a `total` ends; null for a window of the calendar. */
  readonly endsAtMs: UnixMillis | null;
  /** Of a lane of a wallet (UnitsAsk). */
  readonly baseLimit?: number | undefined;
}

/** The wallets of a passport; `walletId` is that of its own. */
export interface DrawnWallet {
  readonly walletId: WalletId;
  readonly isFrozen: boolean;
  readonly levels: readonly DrawnLevel[];
}

/** The windows of one wallet. */
export interface DrawnLevel {
  /** Null: the caller must not learn it. */
  readonly walletId: WalletId | null;
  readonly spend: readonly DrawnWindow[];
  readonly rate: readonly DrawnWindow[];
}

/**
 * Ledger windows that a request draws on, in the order of a QuotaView: the policy's, then the passport's own.
 */
export interface DrawnWindows {
  readonly spend: readonly DrawnWindow[];
  readonly rate: readonly DrawnWindow[];
  readonly standingApprovals: readonly {
    readonly terms: StandingApprovalTerms;
    readonly total: DrawnWindow;
  }[];
  /** Null: the passport is in no wallet. */
  readonly wallet: DrawnWallet | null;
}

/** `path`: undefined for a passport in no wallet. `accountId`: the caller's. */
export function drawnWindows(
  policy: CompiledPolicy,
  gate: CompiledGate | null,
  passport: VerifiedPassport,
  { path, accountId }: { readonly path: WalletPath | undefined; readonly accountId: AccountId },
): DrawnWindows {
  const withCounter = (limit: WindowLimit): DrawnWindow => ({
    window: limit.window,
    limit: limit.limit,
    endsAtMs: null,
    counter: counterKey(counterOf(limit, gate?.gateId ?? null, passport.passportId)),
  });
  return {
    spend: [...policy.spendWindows, ...passport.spendWindows].map(withCounter),
    rate: [...policy.rateWindows, ...passport.rateWindows].map(withCounter),
    standingApprovals:
      gate === null
        ? []
        : gate.standingApprovals
            .filter((terms) => isFor(terms, passport, gate.accountId))
            .map((terms) => ({ terms, total: totalOf(terms, gate) })),
    wallet: path === undefined || path.wallets.length === 0 ? null : drawnWallet(path, accountId),
  };
}

const drawnWallet = ({ wallets }: WalletPath, accountId: AccountId): DrawnWallet => ({
  walletId: must(wallets[0], 'a path begins with a wallet').walletId,
  isFrozen: wallets.some(({ status }) => status === 'frozen'),
  levels: walletWindows(wallets).map((windows, level) => {
    const wallet = must(wallets[level], 'there are windows of each wallet');
    const ofKind = (kind: 'wallet_spend' | 'wallet_rate') =>
      windows.filter(({ name }) => walletLimits[name].kind === kind).map(ofLane);
    return {
      walletId: wallet.accountId === accountId ? wallet.walletId : null,
      spend: ofKind('wallet_spend'),
      rate: ofKind('wallet_rate'),
    };
  }),
});

const ofLane = (window: WalletWindow): DrawnWindow => ({
  counter: counterOfLane(window),
  window: walletLimits[window.name].window,
  limit: window.limit,
  endsAtMs: null,
  baseLimit: window.walletLimit,
});

/** All windows that money, or requests, are taken from. */
const moneyOf = ({ spend, wallet }: Taken): readonly DrawnWindow[] =>
  wallet === null ? spend : [...spend, ...wallet.levels.flatMap((level) => level.spend)];
const requestsOf = ({ rate, wallet }: Taken): readonly DrawnWindow[] =>
  wallet === null ? rate : [...rate, ...wallet.levels.flatMap((level) => level.rate)];

type Taken = Pick<DrawnWindows, 'spend' | 'rate' | 'wallet'>;

const totalOf = (
  { standingApprovalId, totalMicroUsd, expiresAtMs }: StandingApprovalTerms,
  { gateId }: CompiledGate,
): DrawnWindow => ({
  counter: counterKey({ kind: 'standing_approval', gateId, standingApprovalId }),
  window: 'total',
  limit: totalMicroUsd,
  endsAtMs: expiresAtMs,
});

/** With the total of the standing approval that a decision draws on among its money. Null: none. */
export function drawnWith(drawn: DrawnWindows, by: StandingApprovalTerms | null): DrawnWindows {
  if (by === null) return drawn;
  const found = drawn.standingApprovals.find(({ terms }) => terms === by);
  const { total } = must(found, 'a decision draws on a standing approval of its view');
  return { ...drawn, spend: [...drawn.spend, total] };
}

/** A request with an unverified token draws on nothing. */
export const noDraws: DrawnWindows = { spend: [], rate: [], standingApprovals: [], wallet: null };

/** Windows that have too little left for a charge, by this view. */
export function shortWindows(
  drawn: DrawnWindows,
  view: QuotaView,
  { moneyMicroUsd, requests }: Charge,
  nowMs: UnixMillis,
): ShortWindow[] {
  const shortOf =
    (units: number, views: readonly WindowView[]) =>
    ({ counter, window, limit, baseLimit }: DrawnWindow, place: number): ShortWindow[] => {
      const { available } = must(views[place], 'each window that is drawn on is viewed');
      const { startsAtMs } = windowAt(window, nowMs);
      if (available >= units) return [];
      const ofBase = baseOf(counter);
      const base =
        ofBase === null || baseLimit === undefined
          ? undefined
          : { counter: ofBase, leasedMax: baseLimit - units };
      return [{ counter, window, startsAtMs, leasedMax: limit - units, base }];
    };
  const viewed = view.wallet?.levels ?? [];
  return [
    ...drawn.spend.flatMap(shortOf(moneyMicroUsd, view.spend)),
    ...drawn.rate.flatMap(shortOf(requests, view.rate)),
    ...(drawn.wallet?.levels ?? []).flatMap(({ spend, rate }, level) => [
      ...spend.flatMap(shortOf(moneyMicroUsd, viewed[level]?.spend ?? [])),
      ...rate.flatMap(shortOf(requests, viewed[level]?.rate ?? [])),
    ]),
  ];
}

/**
 * Everything that a decision takes, all or nothing. Omits windows without a take, so they are not locked.
 */
export function askFor(taken: Taken, { moneyMicroUsd, requests }: Charge): AskGroup {
  const unitsOf =
    (units: number) =>
    (drawn: DrawnWindow): WindowAsk => ({
      counter: drawn.counter,
      window: drawn.window,
      endsAtMs: drawn.endsAtMs,
      limit: drawn.limit,
      baseLimit: drawn.baseLimit,
      unitsMin: units,
      unitsMax: units,
    });
  return [
    ...(moneyMicroUsd === 0 ? [] : moneyOf(taken).map(unitsOf(moneyMicroUsd))),
    ...(requests === 0 ? [] : requestsOf(taken).map(unitsOf(requests))),
  ];
}

/** What an approval holds: money only, in the current windows. */
export const holdsFor = (drawn: DrawnWindows, charge: Charge, nowMs: UnixMillis): HeldUnits[] =>
  askFor(drawn, charge).map(({ counter, window, unitsMax }) => ({
    counter,
    window,
    startsAtMs: windowAt(window, nowMs).startsAtMs,
    units: unitsMax,
  }));
