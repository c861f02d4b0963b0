import type { UnixMillis } from '../../shared/model/time.ts';
import type { CounterKey } from '../../shared/quota/counter.ts';
import { type QuotaWindow, type WindowName, windowAt } from '../../shared/quota/window.ts';
import type { Database } from '../base/database.ts';

export interface WindowUsage {
  readonly window: QuotaWindow;
  /** All units that are not free: used, held by approvals, and leased. */
  readonly givenOut: number;
  /** The part of them that sidecars hold, as far as no record says that it was used. */
  readonly leased: number;
}

/**
 * The current windows of these counters, in the order given, from one snapshot. Takes and locks nothing, and
 * promises nothing. What a holder was leased is an upper bound of what it may still give back (see
 * serve-lease-call.ts), so `leased` holds also what was used and is not shipped yet. Units of a holder that
 * is gone count as used until their window ends: nobody can give them back any more.
 */
export async function readUsage(
  sql: Database,
  asked: readonly { readonly counter: CounterKey; readonly window: WindowName }[],
  nowMs: UnixMillis,
): Promise<readonly WindowUsage[]> {
  if (asked.length === 0) return [];
  const windows = asked.map(({ window }) => windowAt(window, nowMs));
  const rows = await sql<{ place: number; givenOut: number; leased: number }[]>`
    WITH asked AS (
      SELECT * FROM unnest(
        ${asked.map(({ counter }) => counter)}::text[],
        ${windows.map(({ name }) => name)}::text[],
        ${windows.map(({ startsAtMs }) => startsAtMs)}::bigint[],
        ${asked.map((_, place) => place)}::bigint[]
      ) AS w (counter, window_name, starts_at_ms, place)
    ), held AS (
      SELECT place, greatest(l.units - coalesce(
        (SELECT sum(p.units) FROM lease_posts p WHERE p.lease_id = l.lease_id), 0), 0)::bigint AS units
      FROM asked JOIN quota_leases l USING (counter, window_name, starts_at_ms)
    )
    SELECT place, q.leased AS "givenOut",
      least(coalesce((SELECT sum(units) FROM held WHERE held.place = asked.place), 0), q.leased)::bigint AS leased
    FROM asked JOIN quota_windows q USING (counter, window_name, starts_at_ms)`;
  const byPlace = new Map(rows.map((row) => [row.place, row]));
  return windows.map((window, place) => {
    const { givenOut, leased } = byPlace.get(place) ?? { givenOut: 0, leased: 0 };
    return { window, givenOut, leased };
  });
}
