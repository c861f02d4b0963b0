import type { CompiledGate, CompiledPolicy } from '../../shared/decision/compile-gate.ts';
import type { Charge, QuotaView, VerifiedPassport, WindowView } from '../../shared/decision/facts.ts';
import { must } from '../../shared/errors/assert.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { type CounterKey, counterKey } from '../../shared/quota/counter.ts';
import { windowAt } from '../../shared/quota/window.ts';
import { counterOf, type WindowLimit } from '../../shared/quota/window-limit.ts';
import type { HeldUnits } from '../quota/held-units.ts';
import type { AskGroup, WindowAsk } from '../quota/take-units.ts';
import type { ShortWindow } from '../quota/unused-units.ts';

export interface DrawnWindow extends WindowLimit {
  readonly counter: CounterKey;
}

/**
 * Ledger windows that a request draws on, in the order of a QuotaView: the policy's, then the passport's own.
 */
export interface DrawnWindows {
  readonly spend: readonly DrawnWindow[];
  readonly rate: readonly DrawnWindow[];
}

export function drawnWindows(
  policy: CompiledPolicy,
  gate: CompiledGate | null,
  passport: VerifiedPassport,
): DrawnWindows {
  const withCounter = (limit: WindowLimit): DrawnWindow => ({
    ...limit,
    counter: counterKey(counterOf(limit, gate?.gateId ?? null, passport.passportId)),
  });
  return {
    spend: [...policy.spendWindows, ...passport.spendWindows].map(withCounter),
    rate: [...policy.rateWindows, ...passport.rateWindows].map(withCounter),
  };
}

/** A request with an unverified token draws on nothing. */
export const noDraws: DrawnWindows = { spend: [], rate: [] };

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
export function askFor({ spend, rate }: DrawnWindows, { moneyMicroUsd, requests }: Charge): AskGroup {
  const unitsOf =
    (units: number) =>
    (drawn: DrawnWindow): WindowAsk => ({
      counter: drawn.counter,
      window: drawn.window,
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
