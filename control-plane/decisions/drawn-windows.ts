import type { CompiledGate, CompiledPolicy } from '../../shared/decision/compile-gate.ts';
import type { Charge, QuotaView, VerifiedPassport, WindowView } from '../../shared/decision/facts.ts';
import { isFor } from '../../shared/decision/find-standing-approval.ts';
import { must } from '../../shared/errors/assert.ts';
import type { StandingApprovalTerms } from '../../shared/model/standing-approval.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { type CounterKey, counterKey } from '../../shared/quota/counter.ts';
import { type WindowName, windowAt } from '../../shared/quota/window.ts';
import { counterOf, type WindowLimit } from '../../shared/quota/window-limit.ts';
import type { HeldUnits } from '../quota/held-units.ts';
import type { AskGroup, WindowAsk } from '../quota/take-units.ts';
import type { ShortWindow } from '../quota/unused-units.ts';

export interface DrawnWindow {
  readonly counter: CounterKey;
  readonly window: WindowName;
  readonly limit: number;
  /** When a `total` ends; null for a window of the calendar. */
  readonly endsAtMs: UnixMillis | null;
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
}

export function drawnWindows(
  policy: CompiledPolicy,
  gate: CompiledGate | null,
  passport: VerifiedPassport,
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
  };
}

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
export const noDraws: DrawnWindows = { spend: [], rate: [], standingApprovals: [] };

/** Windows that have too little left for a charge, by this view. */
export function shortWindows(
  drawn: DrawnWindows,
  view: QuotaView,
  { moneyMicroUsd, requests }: Charge,
  nowMs: UnixMillis,
): ShortWindow[] {
  const shortOf =
    (units: number, views: readonly WindowView[]) =>
    ({ counter, window, limit }: DrawnWindow, place: number): ShortWindow[] => {
      const { available } = must(views[place], 'each window that is drawn on is viewed');
      const { startsAtMs } = windowAt(window, nowMs);
      return available < units ? [{ counter, window, startsAtMs, leasedMax: limit - units }] : [];
    };
  return [
    ...drawn.spend.flatMap(shortOf(moneyMicroUsd, view.spend)),
    ...drawn.rate.flatMap(shortOf(requests, view.rate)),
  ];
}

/**
 * Everything that a decision takes, all or nothing. Omits windows without a take, so they are not locked.
 */
export function askFor(
  { spend, rate }: Pick<DrawnWindows, 'spend' | 'rate'>,
  { moneyMicroUsd, requests }: Charge,
): AskGroup {
  const unitsOf =
    (units: number) =>
    (drawn: DrawnWindow): WindowAsk => ({
      counter: drawn.counter,
      window: drawn.window,
      endsAtMs: drawn.endsAtMs,
      limit: drawn.limit,
      unitsMin: units,
      unitsMax: units,
    });
  return [
    ...(moneyMicroUsd === 0 ? [] : spend.map(unitsOf(moneyMicroUsd))),
    ...(requests === 0 ? [] : rate.map(unitsOf(requests))),
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
