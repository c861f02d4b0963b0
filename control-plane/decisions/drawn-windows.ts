import type { CompiledGate } from '../../shared/decision/compile-gate.ts';
import type { Charge, QuotaView, VerifiedPassport, WindowView } from '../../shared/decision/facts.ts';
import { isFor } from '../../shared/decision/find-standing-approval.ts';
import {
  type DrawnOf,
  type DrawnWindow,
  moneyOf,
  requestsOf,
  totalOf,
  windowsOf,
} from '../../shared/decision/windows-of.ts';
import { must } from '../../shared/errors/assert.ts';
import type { IdDigest } from '../../shared/model/id-digest.ts';
import type { AccountId, WalletId } from '../../shared/model/ids.ts';
import type { StandingApprovalTerms } from '../../shared/model/standing-approval.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { baseOf } from '../../shared/quota/counter.ts';
import { windowAt } from '../../shared/quota/window.ts';
import type { HeldUnits } from '../book/held-units.ts';
import type { AskGroup, WindowAsk } from '../book/take-units.ts';
import type { ShortWindow } from '../book/unused-units.ts';
import type { WalletPath } from '../quota/wallet-paths.ts';

/** The wallets of a passport; `walletId` is that of its own. */
export interface DrawnWallet {
  readonly walletId: WalletId;
  /** The keys of its wallets, from its own to the root. */
  readonly path: readonly IdDigest[];
  readonly isFrozen: boolean;
  readonly levels: readonly DrawnLevel[];
}

/** The windows of one wallet. */
export interface DrawnLevel extends DrawnOf {
  /** Null: the caller must not learn it. */
  readonly walletId: WalletId | null;
}

/**
 * Ledger windows that a request draws on, in the order of a QuotaView: the policy's, then the passport's own.
 */
export interface DrawnWindows extends DrawnOf {
  readonly standingApprovals: readonly {
    readonly terms: StandingApprovalTerms;
    readonly total: DrawnWindow;
  }[];
  /** Null: the passport is in no wallet. */
  readonly wallet: DrawnWallet | null;
}

/** `path`: undefined for a passport in no wallet. `accountId`: the caller's. */
export function drawnWindows(
  gate: CompiledGate | null,
  passport: VerifiedPassport,
  { path, accountId }: { readonly path: WalletPath | undefined; readonly accountId: AccountId },
): DrawnWindows {
  const wallets = path?.wallets ?? [];
  const { spend, rate, levels } = windowsOf({ gate, passport, wallets });
  const [own] = wallets;
  return {
    spend,
    rate,
    standingApprovals:
      gate === null
        ? []
        : gate.standingApprovals
            .filter((terms) => isFor(terms, passport, gate.accountId))
            .map((terms) => ({ terms, total: totalOf(terms, gate.gateId) })),
    wallet:
      own === undefined
        ? null
        : {
            walletId: own.walletId,
            path: wallets.map(({ key }) => key),
            isFrozen: wallets.some(({ status }) => status === 'frozen'),
            levels: levels.map((level, place) => {
              const { walletId, accountId: owner } = must(wallets[place], 'there are windows of each wallet');
              return { ...level, walletId: owner === accountId ? walletId : null };
            }),
          },
  };
}

type Taken = Pick<DrawnWindows, 'spend' | 'rate' | 'wallet'>;

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
export function askFor({ spend, rate, wallet }: Taken, { moneyMicroUsd, requests }: Charge): AskGroup {
  const taken = { spend, rate, levels: wallet?.levels ?? [] };
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
