import type { UnixMillis } from '../../shared/model/time.ts';
import type { CounterKey } from '../../shared/quota/counter.ts';
import { type QuotaWindow, type WindowName, windowAt } from '../../shared/quota/window.ts';
import type { Database, Transaction } from '../base/database.ts';

export interface WindowUsage {
  readonly window: QuotaWindow;
  /** All units that are not free: used, held by approvals, or leased. */
  readonly givenOut: number;
  /** Units that sidecars hold and no record shows as used. */
  readonly leased: number;
}

/**
 * The current windows of these counters, in the order given, from one snapshot. Takes and locks nothing, so
 * free units may be gone a moment later. A holder's lease is an upper bound of what it may return (see
 * serve-lease-call.ts), so `leased` includes units that were used but not shipped yet. Units of a removed
 * holder cannot be returned and count as used until their window ends.
 */
export async function readUsage(
  sql: Database | Transaction,
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
