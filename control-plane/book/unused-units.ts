import { limits } from '../../shared/model/limits.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { CounterKey } from '../../shared/quota/counter.ts';
import type { WindowName } from '../../shared/quota/window.ts';
import type { Database, Transaction } from '../base/database.ts';
import { databaseNowMs } from '../storage/database-clock.ts';

/** A ledger window with too little left for a request. */
export interface ShortWindow {
  readonly counter: CounterKey;
  readonly window: WindowName;
  readonly startsAtMs: UnixMillis;
  /** It has enough for the request once at most this much is given out. */
  readonly leasedMax: number;
  /** Of a lane of a wallet: the same of the wallet as a whole, of which other lanes give out, too. */
  readonly base?: Pick<ShortWindow, 'counter' | 'leasedMax'> | undefined;
}

/**
 * Units of each window that are lent to holders other than `asking` and not used on record, so they may come
 * back. Takes and locks nothing.
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
 * Condition on a lease `l`: its holder is the newest one of a connected sidecar. Other holders settle nothing
 * any more, and their units count as used.
 */
const isLent = (sql: Database | Transaction) => sql`
  EXISTS (
    SELECT FROM lease_holders h JOIN sidecars s USING (sidecar_id)
    WHERE h.holder = l.holder AND s.last_seen_at_ms > ${databaseNowMs(sql)} - ${limits.sidecarConnectedMs}::bigint
      AND NOT EXISTS (
        SELECT FROM lease_holders newer
        WHERE newer.sidecar_id = h.sidecar_id AND newer.last_call_at_ms > h.last_call_at_ms))`;

/**
 * For each list of windows, whether one may soon have enough: units came back since the request was refused,
 * or a holder has units that it neither used on record nor returned. Until then a limit that blocks the
 * request is not final, because a copy of the request may hold or be using those units. The asking holder
 * counts too: it may have a settlement in flight, or an unshipped void.
 *
 * This ends: used units of a live holder are on record within `attestLimits.shipIntervalMs`, and unused ones
 * come back within two seconds. Units whose record was lost remain counted; a sidecar that has lost records
 * goes on as another holder (sidecar/quota/succession.ts).
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
      ${windows.map(({ base }) => base?.counter ?? null)}::text[],
      ${windows.map(({ base }) => base?.leasedMax ?? null)}::bigint[],
      ${windows.map(({ place }) => place)}::bigint[]
    ) AS w (counter, window_name, starts_at_ms, leased_max, base, base_max, place)
    JOIN quota_windows q USING (counter, window_name, starts_at_ms)
    WHERE (q.leased <= w.leased_max AND NOT EXISTS (
        SELECT FROM quota_windows b
        WHERE (b.counter, b.window_name, b.starts_at_ms) = (w.base, w.window_name, w.starts_at_ms)
          AND b.leased > w.base_max))
      OR EXISTS (
      SELECT FROM quota_leases l
      WHERE (l.counter, l.window_name, l.starts_at_ms) = (w.counter, w.window_name, w.starts_at_ms)
        AND l.units > coalesce((SELECT sum(p.units) FROM lease_posts p WHERE p.lease_id = l.lease_id), 0)
        AND ${isLent(tx)})`;
  const places = new Set(rows.map(({ place }) => place));
  return lists.map((_, place) => places.has(place));
}
