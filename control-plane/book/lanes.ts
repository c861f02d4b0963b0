import { limits } from '../../shared/model/limits.ts';
import type { Database, Transaction } from '../base/database.ts';

/** A row that one statement of the ledger moves; the members are those of `RequestedMove` (ledger.ts). */
export interface LaneMove {
  readonly counter: string;
  readonly name: string;
  readonly startsAtMs: number;
  readonly unitsBack: number;
  readonly group: number;
  readonly limit: number;
  readonly unitsMin: number;
  readonly unitsNeeded: number;
  readonly unitsAhead: number;
  readonly place: number;
  readonly isAsked: boolean;
  /** Place of the counter that counts for this lane, too; null: none. */
  readonly basePlace: number | null;
  /** It is such a counter itself: its lanes move it. */
  readonly isBase: boolean;
}

interface MovedLane {
  readonly place: number;
  readonly isGranted: boolean;
  readonly granted: number;
  readonly leased: number;
}

/**
 * `moveOpened` (ledger.ts) for moves among which are lanes of wallets. A lane and its base are rows of their
 * own, locked with all others in the same order. What a lane gives out and takes back its base does, too, so
 *
 *     base = the sum of its lanes        in every transaction
 *
 * and a lane is offered no more than its base has left: less what the lanes before it in this call may get.
 * So the base stays within its limit even where children have set aside more than is left of it by now.
 * `leased` of a lane counts as given out what its base cannot give.
 *
 * `moved` is materialized, because the UPDATE reads rows again that it has waited for: the parts of a UNION
 * would be computed again then, from what this statement saw before it waited.
 */
export const moveLanes = (sql: Database | Transaction, wanted: readonly LaneMove[]) =>
  sql<MovedLane[]>`
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
        ${wanted.map(({ place }) => place)}::bigint[],
        ${wanted.map(({ basePlace }) => basePlace)}::bigint[],
        ${wanted.map(({ isBase }) => Number(isBase))}::bigint[],
        ${wanted.map(({ isAsked }) => Number(isAsked))}::bigint[]
      ) AS w (counter, window_name, starts_at_ms, units_back, ask, most, units_min, needed, ahead, place, base_place, is_base, is_asked)
    ), locked AS MATERIALIZED (
      SELECT wanted.*, q.leased FROM quota_windows q JOIN wanted USING (counter, window_name, starts_at_ms)
      WHERE ${wanted.filter(({ isAsked }) => isAsked).length} = (
        SELECT count(*) FROM quota_windows JOIN wanted USING (counter, window_name, starts_at_ms) WHERE is_asked = 1)
      ORDER BY q.counter, q.window_name, q.starts_at_ms
      FOR UPDATE OF q
    ), returned AS (
      SELECT *, greatest(leased - units_back, 0) AS rest FROM locked WHERE is_base = 0
    ), based AS (
      SELECT b.*, greatest(b.leased - coalesce(r.back, 0), 0) AS rest FROM locked b
      LEFT JOIN (SELECT base_place, sum(leased - rest)::bigint AS back FROM returned GROUP BY base_place) r
        ON r.base_place = b.place
      WHERE b.is_base = 1
    ), offered AS (
      SELECT r.*, greatest(r.most - r.rest, 0) AS own_free,
        greatest(coalesce(b.most - b.rest, r.most - r.rest), 0) AS base_free
      FROM returned r LEFT JOIN based b ON b.place = r.base_place
    ), bounded AS (
      SELECT *, CASE WHEN base_place IS NULL THEN own_free ELSE least(own_free, greatest(base_free - coalesce(
        sum(least(needed + ahead, own_free)) OVER (
          PARTITION BY base_place ORDER BY place ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0), 0))::bigint END AS free
      FROM offered
    ), decided AS (
      SELECT *, bool_and(free >= units_min) OVER (PARTITION BY ask) AS is_granted,
        least(needed, free) + least(ahead, (free - least(needed, free)) / ${limits.leaseAheadPart}::bigint) AS offer
      FROM bounded
    ), summed AS (
      SELECT *, CASE WHEN is_granted THEN offer ELSE 0 END AS granted FROM decided
    ), moved AS MATERIALIZED (
      SELECT counter, window_name, starts_at_ms, leased, rest + granted AS sum FROM summed
      UNION ALL
      SELECT b.counter, b.window_name, b.starts_at_ms, b.leased, b.rest + coalesce(s.granted, 0)
      FROM based b LEFT JOIN (SELECT base_place, sum(granted)::bigint AS granted FROM summed GROUP BY base_place) s
        ON s.base_place = b.place
    ), written AS (
      UPDATE quota_windows q SET leased = m.sum FROM moved m
      WHERE q.counter = m.counter AND q.window_name = m.window_name AND q.starts_at_ms = m.starts_at_ms
        AND m.sum <> m.leased
    )
    SELECT place, is_granted AS "isGranted", granted,
      CASE WHEN base_place IS NULL THEN rest + granted ELSE greatest(rest + granted, most - (free - granted)) END AS leased
    FROM summed`;
