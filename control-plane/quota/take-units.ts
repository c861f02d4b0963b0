import { assert, must } from '../../shared/errors/assert.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { CounterKey } from '../../shared/quota/counter.ts';
import { type QuotaWindow, type WindowName, windowAt } from '../../shared/quota/window.ts';
import type { Database, Transaction } from '../base/database.ts';
import { moveUnits } from './ledger.ts';

/** How much is wanted of the current window of one counter: at least `unitsMin`, at most `unitsMax`. */
export interface WindowAsk {
  readonly counter: CounterKey;
  readonly window: WindowName;
  /**
   * The limit as it is now. Lowered below what is given out already, it only keeps further units back
   * (contract §6).
   */
  readonly limit: number;
  readonly unitsMin: number;
  readonly unitsMax: number;
}

/**
 * Windows that are granted together or not at all. One request against a minute and a day is two windows of
 * one unit each (`unitsMin` = `unitsMax` = 1); whatever is left is one window with a low `unitsMin`.
 */
export type AskGroup = readonly WindowAsk[];

export interface WindowGrant {
  readonly window: QuotaWindow;
  /**
   * Units that now belong to whoever asked, until the window ends or they are given back. 0 where the ask was
   * refused.
   */
  readonly granted: number;
  /** All units given out in this window, those of this call included. */
  readonly leased: number;
}

export interface GroupGrant {
  readonly isGranted: boolean;
  /** In the order of the ask. */
  readonly windows: readonly WindowGrant[];
}

/**
 * Takes units of calendar windows for the control plane itself, which keeps no lease: each is used as soon as
 * it is granted. `nowMs`, the clock of the control plane, names the windows; nobody can ask for one that has
 * ended or has not begun. Answers are in the order of the asks. What `moveUnits` says about transactions,
 * bounds and unknown outcomes holds here.
 */
export async function takeUnits(
  sql: Database | Transaction,
  asks: readonly AskGroup[],
  nowMs: UnixMillis,
): Promise<readonly GroupGrant[]> {
  const moves = asks.flatMap((ask, group) =>
    ask.map(({ counter, window, limit, unitsMin, unitsMax }) => ({
      counter,
      window: windowAt(window, nowMs),
      unitsBack: 0,
      ask: { group, limit, unitsMin, unitsNeeded: unitsMax, unitsAhead: 0 },
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
