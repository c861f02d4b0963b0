import { limits } from '../../shared/model/limits.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { CounterKey } from '../../shared/quota/counter.ts';
import type { WindowName } from '../../shared/quota/window.ts';
import type { Database, Transaction } from '../base/database.ts';
import { databaseNowMs } from '../storage/database-clock.ts';

/** A window of the ledger that has too little left for a request. */
export interface ShortWindow {
  readonly counter: CounterKey;
  readonly window: WindowName;
  readonly startsAtMs: UnixMillis;
  /** With this much given out, or less, it has enough for the request. */
  readonly leasedMax: number;
}

/**
 * How many units of each window holders other than the `asking` one were lent and have not used on record:
 * what may come back. Takes and locks nothing.
 */
export async function lentUnits(
  sql: Database | Transaction,
  windows: readonly Omit<ShortWindow, 'leasedMax'>[],
  asking: string | null,
): Promise<readonly number[]> {
  if (windows.length === 0) return [];
  const rows = await sql<{ place: number; units: number }[]>`
    SELECT w.place, sum(greatest(0, l.units - coalesce(
      (SELECT sum(p.units) FROM lease_posts p WHERE p.lease_id = l.lease_id), 0)))::bigint AS units
    FROM unnest(
      ${windows.map(({ counter }) => counter)}::text[],
      ${windows.map(({ window }) => window)}::text[],
      ${windows.map(({ startsAtMs }) => startsAtMs)}::bigint[],
      ${windows.map((_, place) => place)}::bigint[]
    ) AS w (counter, window_name, starts_at_ms, place)
    JOIN quota_leases l USING (counter, window_name, starts_at_ms)
    WHERE l.holder IS DISTINCT FROM ${asking}::text AND ${isLent(sql)}
    GROUP BY w.place`;
  const units = new Map(rows.map((row) => [row.place, row.units]));
  return windows.map((_, place) => units.get(place) ?? 0);
}

/**
 * Of a lease `l`: only holders of connected sidecars count, of each sidecar the newest. Nobody settles for
 * the others, and what they held counts as used.
 */
const isLent = (sql: Database | Transaction) => sql`
  EXISTS (
    SELECT FROM lease_holders h JOIN sidecars s USING (sidecar_id)
    WHERE h.holder = l.holder AND s.last_seen_at_ms > ${databaseNowMs(sql)} - ${limits.sidecarConnectedMs}::bigint
      AND NOT EXISTS (
        SELECT FROM lease_holders newer
        WHERE newer.sidecar_id = h.sidecar_id AND newer.last_call_at_ms > h.last_call_at_ms))`;

/**
 * For each list of windows, whether one of them may have enough in a moment: units came back since the
 * request was refused, or a holder has units that it neither used on record nor gave back. While that is so,
 * a limit that keeps the request is not final yet: a copy of the request may have had those units, or be
 * about to use them. The holder that asks counts too: a settlement of its own may be on its way, or void and
 * not shipped.
 *
 * What a live holder used is on record within `attestLimits.shipIntervalMs`, and what it does not use comes
 * back within two seconds, so this passes.
 */
export async function limitsMayChange(
  tx: Transaction,
  lists: readonly (readonly ShortWindow[])[],
): Promise<readonly boolean[]> {
  const windows = lists.flatMap((list, place) => list.map((each) => ({ ...each, place })));
  if (windows.length === 0) return lists.map(() => false);
  const rows = await tx<{ place: number }[]>`
    SELECT DISTINCT w.place FROM unnest(
      ${windows.map(({ counter }) => counter)}::text[],
      ${windows.map(({ window }) => window)}::text[],
      ${windows.map(({ startsAtMs }) => startsAtMs)}::bigint[],
      ${windows.map(({ leasedMax }) => leasedMax)}::bigint[],
      ${windows.map(({ place }) => place)}::bigint[]
    ) AS w (counter, window_name, starts_at_ms, leased_max, place)
    JOIN quota_windows q USING (counter, window_name, starts_at_ms)
    WHERE q.leased <= w.leased_max OR EXISTS (
      SELECT FROM quota_leases l
      WHERE (l.counter, l.window_name, l.starts_at_ms) = (w.counter, w.window_name, w.starts_at_ms)
        AND l.units > coalesce((SELECT sum(p.units) FROM lease_posts p WHERE p.lease_id = l.lease_id), 0)
        AND ${isLent(tx)})`;
  const places = new Set(rows.map(({ place }) => place));
  return lists.map((_, place) => places.has(place));
}
