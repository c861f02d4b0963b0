import { assert, must } from '../../shared/errors/assert.ts';
import { limits } from '../../shared/model/limits.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { CounterKey } from '../../shared/quota/counter.ts';
import { type QuotaWindow, type WindowName, windowAt } from '../../shared/quota/window.ts';
import type { Database, Transaction } from '../deps.ts';

/** How much is wanted of the current window of one counter: at least `unitsMin`, at most `unitsMax`. */
export interface WindowAsk {
  readonly counter: CounterKey;
  readonly window: WindowName;
  /** The limit as it is now. Lowered below what is given out already, it only keeps further units back (decisions §6). */
  readonly limit: number;
  readonly unitsMin: number;
  readonly unitsMax: number;
}

/**
 * Windows that are granted together or not at all. One request against a minute and a day is two windows of one unit each
 * (`unitsMin` = `unitsMax` = 1); a lease of whatever is left is one window with a low `unitsMin`.
 */
export type LeaseAsk = readonly WindowAsk[];

export interface WindowGrant {
  readonly window: QuotaWindow;
  /** Units that now belong to whoever asked, until the window ends or they are given back. 0 where the ask was refused. */
  readonly granted: number;
  /** All units given out in this window, those of this call included. */
  readonly leased: number;
}

export interface LeaseGrant {
  readonly isGranted: boolean;
  /** In the order of the ask. */
  readonly windows: readonly WindowGrant[];
}

/**
 * Gives out units of calendar windows: `leased + granted <= limit`, whoever else asks at the same moment (decisions §6, architecture §5).
 * `nowMs`, the clock of the control plane, names the windows; nobody can ask for one that has ended or has not begun. Answers are in the order
 * of the asks. No window may occur twice in one call, and there are at most `limits.quotaWindowsPerCallMax`.
 *
 * A grant stands once this resolves; given a transaction, once that commits. Inside one it is the only call that locks quota windows, and the last
 * statement, because the windows stay locked to the end. Where the outcome is unknown (the connection broke), count the units as
 * given out: they are free again when the window ends.
 */
export async function grantLeases(
  sql: Database | Transaction,
  asks: readonly LeaseAsk[],
  nowMs: UnixMillis,
): Promise<readonly LeaseGrant[]> {
  const wanted = asks.flatMap((ask, askIndex) => ask.map((one) => toWantedWindow(one, askIndex, nowMs)));
  if (wanted.length === 0) return asks.map(() => ({ isGranted: true, windows: [] }));
  assertDistinct(wanted);
  let decided = await grantOpened(sql, wanted);
  if (decided.length < wanted.length) {
    await openWindows(sql, wanted, nowMs);
    decided = await grantOpened(sql, wanted);
  }
  if (decided.length < wanted.length) {
    throw new Error('The clock of this control plane is too far behind the clock of the database.');
  }
  return answer(asks.length, wanted, decided);
}

interface WantedWindow extends WindowAsk {
  readonly askIndex: number;
  readonly at: QuotaWindow;
}

function toWantedWindow(one: WindowAsk, askIndex: number, nowMs: UnixMillis): WantedWindow {
  const { limit, unitsMin, unitsMax } = one;
  assert(Number.isSafeInteger(limit) && limit >= 0, 'a limit is a whole number of units');
  assert(Number.isSafeInteger(unitsMin) && unitsMin >= 0, 'the least wanted is a whole number of units');
  assert(Number.isSafeInteger(unitsMax) && unitsMax >= unitsMin, 'the most wanted is no less than the least');
  return { ...one, askIndex, at: windowAt(one.window, nowMs) };
}

function assertDistinct(wanted: readonly { readonly counter: string; readonly at: QuotaWindow }[]): void {
  assert(wanted.length <= limits.quotaWindowsPerCallMax, 'a call names a bounded number of windows');
  const names = new Set(wanted.map(({ counter, at }) => `${counter} ${at.name} ${at.startsAtMs}`));
  assert(names.size === wanted.length, 'a call names each window once');
}

interface DecidedWindow {
  readonly isGranted: boolean;
  readonly granted: number;
  readonly leased: number;
}

/**
 * Decides and writes in one statement. Where any of the windows has no row yet it changes nothing and answers nothing.
 *
 * Why no window can pass its limit:
 * 1. `locked` locks each row and reads it as last committed. PostgreSQL (READ COMMITTED) waits for whoever holds the lock and then reads
 *    the row again, so `leased` is the true sum of all grants so far, and stays so, because nobody else can change a row that we hold.
 * 2. `decided` offers each window at most `most - leased`, so leased + granted <= most. An ask is granted only if each of its
 *    windows can offer what it needs at least.
 * 3. `written` adds the grant to that same row before the lock goes with the commit. The next one to ask begins at 1 and sees it.
 * A crash before the commit undoes a grant of which nobody has heard yet; a crash after it leaves units counted that nobody uses.
 *
 * Why concurrent calls never wait for each other in a circle: all lock the rows in one order, that of the primary key. The sort keys never change,
 * so the order in which rows are locked is the order in which they were sorted. Nothing is locked unless every row is there,
 * so that nobody waits for a row that another transaction is just making while it holds one that the other wants.
 *
 * Rejected: an upsert with the limit in its WHERE. It is shorter, but decides window by window and cannot take back the first when
 * the second is full.
 */
const grantOpened = (sql: Database | Transaction, wanted: readonly WantedWindow[]) =>
  sql<DecidedWindow[]>`
    WITH wanted AS (
      SELECT * FROM unnest(
        ${wanted.map(({ counter }) => counter)}::text[],
        ${wanted.map(({ at }) => at.name)}::text[],
        ${wanted.map(({ at }) => at.startsAtMs)}::bigint[],
        ${wanted.map(({ askIndex }) => askIndex)}::bigint[],
        ${wanted.map(({ unitsMin }) => unitsMin)}::bigint[],
        ${wanted.map(({ unitsMax }) => unitsMax)}::bigint[],
        ${wanted.map(({ limit }) => limit)}::bigint[]
      ) WITH ORDINALITY AS w (counter, window_name, starts_at_ms, ask, units_min, units_max, most, place)
    ), locked AS MATERIALIZED (
      SELECT wanted.*, q.leased FROM quota_windows q JOIN wanted USING (counter, window_name, starts_at_ms)
      WHERE ${wanted.length} =
        (SELECT count(*) FROM quota_windows JOIN wanted USING (counter, window_name, starts_at_ms))
      ORDER BY q.counter, q.window_name, q.starts_at_ms
      FOR UPDATE OF q
    ), offered AS (
      SELECT *, least(units_max, greatest(most - leased, 0)) AS offer FROM locked
    ), decided AS (
      SELECT *, bool_and(offer >= units_min) OVER (PARTITION BY ask) AS is_granted FROM offered
    ), written AS (
      UPDATE quota_windows q SET leased = q.leased + d.offer FROM decided d
      WHERE q.counter = d.counter AND q.window_name = d.window_name AND q.starts_at_ms = d.starts_at_ms
        AND d.is_granted AND d.offer > 0
    )
    SELECT is_granted AS "isGranted",
      CASE WHEN is_granted THEN offer ELSE 0 END AS granted,
      CASE WHEN is_granted THEN leased + offer ELSE leased END AS leased
    FROM decided ORDER BY place`;

/**
 * Makes the rows that are missing, with nothing given out, and removes some of the windows that ended long ago: whoever makes the table grow also
 * trims it, by at least twice as much, so it holds about what was used within `limits.quotaWindowKeptMs`.
 *
 * A row that is removed too early would be made anew with nothing given out. Therefore a window goes only when it has ended long ago by
 * this clock and by the database's, and none that may have gone is ever made again, however wrong this clock may be.
 */
async function openWindows(
  sql: Database | Transaction,
  wanted: readonly WantedWindow[],
  nowMs: UnixMillis,
): Promise<void> {
  await sql`
    WITH kept AS (
      SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint - ${limits.quotaWindowKeptMs}::bigint AS since_ms
    ), ended AS (
      DELETE FROM quota_windows WHERE (counter, window_name, starts_at_ms) IN (
        SELECT counter, window_name, starts_at_ms FROM quota_windows
        WHERE ends_at_ms < least((SELECT since_ms FROM kept), ${nowMs - limits.quotaWindowKeptMs}::bigint)
        ORDER BY ends_at_ms LIMIT ${limits.quotaWindowsPerTrimMax} FOR UPDATE SKIP LOCKED)
    )
    INSERT INTO quota_windows (counter, window_name, starts_at_ms, ends_at_ms, leased)
    SELECT w.*, 0 FROM unnest(
      ${wanted.map(({ counter }) => counter)}::text[],
      ${wanted.map(({ at }) => at.name)}::text[],
      ${wanted.map(({ at }) => at.startsAtMs)}::bigint[],
      ${wanted.map(({ at }) => at.endsAtMs)}::bigint[]
    ) AS w (counter, window_name, starts_at_ms, ends_at_ms)
    WHERE w.ends_at_ms >= (SELECT since_ms FROM kept)
    ORDER BY w.counter COLLATE "C", w.window_name COLLATE "C", w.starts_at_ms
    ON CONFLICT DO NOTHING`;
}

function answer(
  askCount: number,
  wanted: readonly WantedWindow[],
  decided: readonly DecidedWindow[],
): readonly LeaseGrant[] {
  const grants = Array.from({ length: askCount }, () => ({ isGranted: true, windows: [] as WindowGrant[] }));
  wanted.forEach(({ askIndex, at, limit, unitsMax }, place) => {
    const { isGranted, granted, leased } = must(decided[place], 'each window that was asked for is answered');
    assert(granted >= 0 && granted <= unitsMax, 'no more is granted than was wanted');
    assert(granted === 0 || leased <= limit, 'a grant never passes its limit');
    const grant = must(grants[askIndex], 'each window belongs to an ask');
    grant.isGranted = isGranted;
    grant.windows.push({ window: at, granted, leased });
  });
  return grants;
}

/** Units of an earlier grant that nobody will use. */
export interface GivenBack {
  readonly counter: CounterKey;
  /** The window of the grant. */
  readonly window: QuotaWindow;
  readonly units: number;
}

/**
 * Takes back units, so that others may have them at once. Units of a window that has ended are left as they are: nobody could use them any
 * more, so a late return is harmless. A window never falls below zero. No window may occur twice in one call.
 *
 * The ledger cannot tell a repeat from a second return: whoever gives units back does so once, and only units that it has not used and will not
 * use. When in doubt, keep them; they are free again when the window ends.
 */
export async function giveBack(
  sql: Database | Transaction,
  returns: readonly GivenBack[],
  nowMs: UnixMillis,
): Promise<void> {
  if (returns.length === 0) return;
  assertDistinct(returns.map(({ counter, window }) => ({ counter, at: window })));
  for (const { units } of returns) {
    assert(Number.isSafeInteger(units) && units >= 0, 'a whole number of units is given back');
  }
  await sql`
    WITH returned AS (
      SELECT * FROM unnest(
        ${returns.map(({ counter }) => counter)}::text[],
        ${returns.map(({ window }) => window.name)}::text[],
        ${returns.map(({ window }) => window.startsAtMs)}::bigint[],
        ${returns.map(({ units }) => units)}::bigint[]
      ) AS r (counter, window_name, starts_at_ms, units)
    ), locked AS MATERIALIZED (
      SELECT returned.* FROM quota_windows q JOIN returned USING (counter, window_name, starts_at_ms)
      WHERE q.ends_at_ms > ${nowMs}
      ORDER BY q.counter, q.window_name, q.starts_at_ms
      FOR UPDATE OF q
    )
    UPDATE quota_windows q SET leased = greatest(q.leased - l.units, 0) FROM locked l
    WHERE q.counter = l.counter AND q.window_name = l.window_name AND q.starts_at_ms = l.starts_at_ms`;
}
