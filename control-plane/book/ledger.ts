import { assert, must } from '../../shared/errors/assert.ts';
import { limits } from '../../shared/model/limits.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { baseOf, type CounterKey } from '../../shared/quota/counter.ts';
import { type QuotaWindow, windowKey } from '../../shared/quota/window.ts';
import type { Database, Transaction } from '../base/database.ts';
import { moveLanes } from './lanes.ts';
import { quotaLimits } from './limits.ts';

/** A change of one window: first units return, then units are granted. */
export interface WindowMove {
  readonly counter: CounterKey;
  readonly window: QuotaWindow;
  readonly unitsBack: number;
  /** Null: only returns. */
  readonly ask: UnitsAsk | null;
}

export interface UnitsAsk {
  /** Asks with the same number are granted together or not at all. */
  readonly group: number;
  readonly limit: number;
  /** Of a lane of a wallet: the limit of the wallet, which all its lanes share. */
  readonly baseLimit?: number | undefined;
  /** Nothing is granted if less than this is left. */
  readonly unitsMin: number;
  /** Granted as far as available. */
  readonly unitsNeeded: number;
  /** Granted on top, up to one part in `limits.leaseAheadPart` of the rest. */
  readonly unitsAhead: number;
}

export interface MovedWindow {
  /** Whether all asks of its group were granted. */
  readonly isGranted: boolean;
  readonly granted: number;
  /** All units given out, including this call's. */
  readonly leased: number;
}

/**
 * The only code that changes the given-out units of calendar windows. Keeps `leased + granted <= limit` under
 * concurrent calls (contract §6; ARCHITECTURE.md, "Quotas"). Returns grants in the order of the moves; null
 * for a move without an ask. No window may occur twice in one call, with at most
 * `limits.quotaWindowsPerCallMax` windows, and the bases of those that are lanes. Ignores returns to a window
 * that is missing or ended by `nowMs`; no window falls below zero.
 *
 * A grant takes effect when this resolves or, given a transaction, when it commits. Call it at most once per
 * transaction, as late as possible: the windows stay locked until the end. If the outcome is unknown (the
 * connection broke), count the units as given out; they are free again when the window ends.
 */
export async function moveUnits(
  sql: Database | Transaction,
  moves: readonly WindowMove[],
  nowMs: UnixMillis,
): Promise<readonly (MovedWindow | null)[]> {
  assertSound(moves);
  const wanted = moves.map(toRequestedMove).filter(({ isAsked, endsAtMs }) => isAsked || endsAtMs > nowMs);
  if (wanted.length === 0) return moves.map(() => null);
  const bases = basesOf(wanted, moves.length);
  const asked = wanted.filter(({ isAsked }) => isAsked);
  const move = () =>
    bases.length === 0 ? moveOpened(sql, wanted) : moveLanes(sql, withBases(wanted, bases));
  let moved = await move();
  if (isUndecided(asked, moved)) {
    await openWindows(sql, [...asked, ...bases.filter(({ isAsked }) => isAsked)], nowMs);
    moved = await move();
  }
  if (isUndecided(asked, moved)) {
    throw new Error('The clock of this control plane is too far behind the clock of the database.');
  }
  const atPlace = new Map(moved.map(({ place, ...each }) => [place, each]));
  return moves.map((move, place) => (move.ask === null ? null : checked(move.ask, atPlace.get(place))));
}

function assertSound(moves: readonly WindowMove[]): void {
  assert(moves.length <= limits.quotaWindowsPerCallMax, 'a call names a bounded number of windows');
  const names = new Set(moves.map(({ counter, window }) => windowKey(counter, window)));
  assert(names.size === moves.length, 'a call names each window once');
  for (const { unitsBack, ask } of moves) {
    assertUnits(unitsBack, 'a whole number of units is given back');
    if (ask === null) continue;
    assertUnits(ask.limit, 'a limit is a whole number of units');
    assertUnits(ask.unitsMin, 'the least wanted is a whole number of units');
    assertUnits(ask.unitsNeeded, 'the most wanted is a whole number of units');
    assertUnits(ask.unitsAhead, 'what is wanted ahead is a whole number of units');
    assert(ask.unitsMin <= ask.unitsNeeded, 'the most wanted is no less than the least');
  }
}

/** The counters that count for lanes among the moves, each once, with places after theirs. */
function basesOf(wanted: readonly RequestedMove[], placesFrom: number): readonly RequestedMove[] {
  const bases = new Map<string, RequestedMove>();
  for (const lane of wanted) {
    const counter = baseOf(lane.counter);
    if (counter === null) continue;
    const name = windowKey(counter, lane);
    const known = bases.get(name);
    const place = known?.place ?? placesFrom + bases.size;
    const limit = lane.isAsked ? must(lane.baseLimit, 'a lane is asked for with the limit of its wallet') : 0;
    const isAsked = lane.isAsked || known?.isAsked === true;
    bases.set(name, {
      ...lane,
      ...noAsk,
      counter,
      unitsBack: 0,
      place,
      isAsked,
      limit: Math.max(limit, known?.limit ?? 0),
    });
  }
  return [...bases.values()];
}

function withBases(wanted: readonly RequestedMove[], bases: readonly RequestedMove[]) {
  const places = new Map(bases.map((base) => [windowKey(base.counter, base), base.place]));
  const basePlace = (lane: RequestedMove): number | null => {
    const counter = baseOf(lane.counter);
    return counter === null ? null : (places.get(windowKey(counter, lane)) ?? null);
  };
  return [
    ...wanted.map((lane) => ({ ...lane, basePlace: basePlace(lane), isBase: false })),
    ...bases.map((base) => ({ ...base, basePlace: null, isBase: true })),
  ];
}

const assertUnits = (units: number, sentence: string): void =>
  assert(Number.isSafeInteger(units) && units >= 0, sentence);

interface RequestedMove extends UnitsAsk {
  readonly counter: CounterKey;
  readonly name: string;
  readonly startsAtMs: UnixMillis;
  readonly endsAtMs: UnixMillis;
  readonly unitsBack: number;
  readonly isAsked: boolean;
  readonly place: number;
}

/** Stands for a move without an ask: no units, no waiting request. */
const noAsk: UnitsAsk = { group: -1, limit: 0, unitsMin: 0, unitsNeeded: 0, unitsAhead: 0 };

const toRequestedMove = ({ counter, window, unitsBack, ask }: WindowMove, place: number): RequestedMove => ({
  counter,
  name: window.name,
  startsAtMs: window.startsAtMs,
  endsAtMs: window.endsAtMs,
  unitsBack,
  isAsked: ask !== null,
  place,
  ...(ask ?? noAsk),
});

const isUndecided = (asked: readonly RequestedMove[], moved: readonly MovedRow[]): boolean => {
  const places = new Set(moved.map(({ place }) => place));
  return asked.some(({ place }) => !places.has(place));
};

function checked(ask: UnitsAsk, moved: MovedWindow | undefined): MovedWindow {
  const { isGranted, granted, leased } = must(moved, 'each window that was asked for is answered');
  assert(granted >= 0, 'a grant takes nothing away');
  assert(granted <= ask.unitsNeeded + ask.unitsAhead, 'no more is granted than was wanted');
  assert(granted === 0 || leased <= ask.limit, 'a grant never passes its limit');
  return { isGranted, granted, leased };
}

interface MovedRow extends MovedWindow {
  readonly place: number;
}

/**
 * Decides and writes in one statement. If a requested window has no row yet, it changes and returns nothing.
 *
 * Why no window can pass its limit:
 * 1. `locked` locks each row and reads it as last committed. PostgreSQL (READ COMMITTED) waits for the
 *    transaction that holds the lock and then reads the row again, so `leased` is the true sum of all grants
 *    so far, and stays so, because no other transaction can change a locked row.
 * 2. `offered` takes off what comes back and offers each window at most `most` less the rest, so that rest +
 *    offer <= most. A group is granted only if each of its windows can offer what it needs at least.
 * 3. `written` puts the new sum into that same row before the lock goes with the commit. The next one to ask
 *    begins at 1 and sees it.
 * A crash before the commit undoes a grant that was not answered yet; a crash after it leaves units counted
 * that are not used.
 *
 * Why concurrent calls cannot deadlock: this one statement locks all rows of a call, for grants and returns,
 * in the order of the primary key. The sort keys never change, so rows are locked in sorted order. It locks
 * nothing unless every requested row exists, so it never holds a row while waiting for one that another
 * transaction is inserting.
 *
 * Rejected: an upsert with the limit in its WHERE. It is shorter, but decides window by window and cannot
 * take back the first when the second is full. Rejected: one statement for returns and one for grants. Each
 * would lock in order, but a call with both would hold the last row of the first while it waits for the first
 * row of the second.
 */
const moveOpened = (sql: Database | Transaction, wanted: readonly RequestedMove[]) =>
  sql<MovedRow[]>`
    WITH wanted AS (
      SELECT * FROM unnest(
        ${wanted.map(({ counter }) => counter)}::text[],
        ${wanted.map(({ name }) => name)}::text[],
        ${wanted.map(({ startsAtMs }) => startsAtMs)}::bigint[],
        ${wanted.map(({ unitsBack }) => unitsBack)}::bigint[],
        ${wanted.map(({ group }) => group)}::bigint[],
        ${wanted.map(({ limit }) => limit)}::bigint[],
        ${wanted.map(({ unitsMin }) => unitsMin)}::bigint[],
        ${wanted.map(({ unitsNeeded }) => unitsNeeded)}::bigint[],
        ${wanted.map(({ unitsAhead }) => unitsAhead)}::bigint[],
        ${wanted.map(({ place }) => place)}::bigint[]
      ) AS w (counter, window_name, starts_at_ms, units_back, ask, most, units_min, needed, ahead, place)
    ), locked AS MATERIALIZED (
      SELECT wanted.*, q.leased FROM quota_windows q JOIN wanted USING (counter, window_name, starts_at_ms)
      WHERE ${wanted.filter(({ isAsked }) => isAsked).length} = (
        SELECT count(*) FROM quota_windows JOIN wanted USING (counter, window_name, starts_at_ms) WHERE ask >= 0)
      ORDER BY q.counter, q.window_name, q.starts_at_ms
      FOR UPDATE OF q
    ), returned AS (
      SELECT *, greatest(leased - units_back, 0) AS rest FROM locked
    ), offered AS (
      SELECT *, greatest(most - rest, 0) AS free FROM returned
    ), decided AS (
      SELECT *, bool_and(free >= units_min) OVER (PARTITION BY ask) AS is_granted,
        least(needed, free) + least(ahead, (free - least(needed, free)) / ${limits.leaseAheadPart}::bigint) AS offer
      FROM offered
    ), summed AS (
      SELECT *, CASE WHEN is_granted THEN offer ELSE 0 END AS granted FROM decided
    ), written AS (
      UPDATE quota_windows q SET leased = s.rest + s.granted FROM summed s
      WHERE q.counter = s.counter AND q.window_name = s.window_name AND q.starts_at_ms = s.starts_at_ms
        AND s.rest + s.granted <> s.leased
    )
    SELECT place, is_granted AS "isGranted", granted, rest + granted AS leased FROM summed`;

/**
 * Inserts missing rows with nothing given out, and removes some long-ended windows: each insert trims at
 * least twice as many, so the table holds about the windows used within `quotaLimits.quotaWindowKeptMs`.
 *
 * A row removed too early would be recreated with nothing given out. So a window is removed only if it ended
 * long ago by this clock and by the database's, and a window that may have been removed is never recreated,
 * however wrong this clock is.
 *
 * Deletes by ctid, like every trim of a table with a multi-column key: a join on the key would be planned as
 * a full scan. The rows are locked by then, so their ctids are stable.
 */
async function openWindows(
  sql: Database | Transaction,
  wanted: readonly RequestedMove[],
  nowMs: UnixMillis,
): Promise<void> {
  await sql`
    WITH kept AS (
      SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint - ${quotaLimits.quotaWindowKeptMs}::bigint AS since_ms
    ), ended AS (
      DELETE FROM quota_windows WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM quota_windows
        WHERE ends_at_ms < least((SELECT since_ms FROM kept), ${nowMs - quotaLimits.quotaWindowKeptMs}::bigint)
        ORDER BY ends_at_ms LIMIT ${quotaLimits.quotaWindowsPerTrimMax} FOR UPDATE SKIP LOCKED))
    )
    INSERT INTO quota_windows (counter, window_name, starts_at_ms, ends_at_ms, leased)
    SELECT w.*, 0 FROM unnest(
      ${wanted.map(({ counter }) => counter)}::text[],
      ${wanted.map(({ name }) => name)}::text[],
      ${wanted.map(({ startsAtMs }) => startsAtMs)}::bigint[],
      ${wanted.map(({ endsAtMs }) => endsAtMs)}::bigint[]
    ) AS w (counter, window_name, starts_at_ms, ends_at_ms)
    WHERE w.ends_at_ms >= (SELECT since_ms FROM kept)
    ORDER BY w.counter COLLATE "C", w.window_name COLLATE "C", w.starts_at_ms
    ON CONFLICT DO NOTHING`;
}
