import { assert, must } from '../../shared/errors/assert.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { CounterKey } from '../../shared/quota/counter.ts';
import { currentWindow, type QuotaWindow, type WindowName } from '../../shared/quota/window.ts';
import type { Database, Transaction } from '../base/database.ts';
import { moveUnits } from './ledger.ts';

/** An ask for the current window of one counter: at least `unitsMin`, at most `unitsMax`. */
export interface WindowAsk {
  readonly counter: CounterKey;
  readonly window: WindowName;
  /** When a `total` ends; absent or null for a window of the calendar. */
  readonly endsAtMs?: UnixMillis | null;
  /** The current limit. If lowered below the units given out, it only stops further grants (contract §6). */
  readonly limit: number;
  /** Of a lane of a wallet (UnitsAsk). */
  readonly baseLimit?: number | undefined;
  readonly unitsMin: number;
  readonly unitsMax: number;
}

/**
 * Windows that are granted together or not at all. One request against a minute and a day is two windows of
 * one unit each (`unitsMin` = `unitsMax` = 1); "as many as are left" is one window with a low `unitsMin`.
 */
export type AskGroup = readonly WindowAsk[];

export interface WindowGrant {
  readonly window: QuotaWindow;
  /**
   * Units that now belong to the caller, until the window ends or they are returned. 0 if the ask was
   * refused.
   */
  readonly granted: number;
  /** All units given out in this window, including this call's. */
  readonly leased: number;
}

export interface GroupGrant {
  readonly isGranted: boolean;
  /** In the order of the asks. */
  readonly windows: readonly WindowGrant[];
}

/**
 * Takes units of calendar windows for the control plane itself, which keeps no lease: a unit is used as soon
 * as it is granted. `nowMs`, the control plane's clock, selects the windows, so past and future windows
 * cannot be named. Answers are in the order of the asks. Transactions, bounds and unknown outcomes are as in
 * `moveUnits`.
 */
export async function takeUnits(
  sql: Database | Transaction,
  asks: readonly AskGroup[],
  nowMs: UnixMillis,
): Promise<readonly GroupGrant[]> {
  const moves = asks.flatMap((ask, group) =>
    ask.map(({ counter, window, endsAtMs = null, limit, baseLimit, unitsMin, unitsMax }) => ({
      counter,
      window: currentWindow({ window, endsAtMs }, nowMs),
      unitsBack: 0,
      ask: { group, limit, baseLimit, unitsMin, unitsNeeded: unitsMax, unitsAhead: 0 },
    })),
  );
  const moved = await moveUnits(sql, moves, nowMs);
  const grants = asks.map(() => ({ isGranted: true, windows: [] as WindowGrant[] }));
  moves.forEach(({ window, ask }, place) => {
    const { isGranted, granted, leased } = must(moved[place], 'each window that was asked for is answered');
    const grant = must(grants[ask.group], 'each window belongs to an ask');
    assert(grant.windows.length === 0 || grant.isGranted === isGranted, 'an ask is granted whole');
    grant.isGranted = isGranted;
    grant.windows.push({ window, granted, leased });
  });
  return grants;
}
