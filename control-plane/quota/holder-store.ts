import type { AccountId, SidecarId } from '../../shared/model/ids.ts';
import { hourMs, type UnixMillis } from '../../shared/model/time.ts';
import type { CounterKey } from '../../shared/quota/counter.ts';
import type { QuotaWindow, WindowName } from '../../shared/quota/window.ts';
import type { Database, Transaction } from '../base/database.ts';
import { databaseNowMs } from '../storage/database-clock.ts';
import type { HeldUnits } from './held-units.ts';
import { quotaLimits } from './limits.ts';

/** A holder belongs to one sidecar for ever. */
export interface HolderName {
  readonly holder: string;
  readonly sidecarId: SidecarId;
}

interface NewHolder extends HolderName {
  readonly accountId: AccountId;
  /** As in LeaseCall; null: not said. */
  readonly epoch: string | null;
}

/** A grant as stored in the holder's row: the answer to a repetition of the call. Times are computed anew. */
export interface StoredGrant {
  readonly granted: number;
  readonly limit: number | null;
  readonly leased: number;
  readonly startsAtMs: UnixMillis;
  readonly endsAtMs: UnixMillis;
}

export interface LastCall {
  /** 0: it has made none yet. */
  readonly seq: number;
  readonly answer: readonly StoredGrant[];
}

/**
 * Makes the holder known, unless it or another of its name is. Whoever makes the table grow also trims it:
 * some that are silent and hold nothing go, and of this sidecar those that were silent longest where it has
 * more than `quotaLimits.leaseHoldersPerSidecarMax`. They are of processes that a newer one has driven out.
 * What they held is counted until its windows end, because it cannot be returned any more; one that calls
 * nevertheless is `holder_unknown`. None goes whose call is under way, and none is made for an epoch that has
 * ended: a call that was late.
 */
export async function beginHolder(
  tx: Transaction,
  { holder, sidecarId, accountId, epoch }: NewHolder,
  nowMs: UnixMillis,
): Promise<void> {
  await tx`
    WITH silent AS (
      DELETE FROM lease_holders WHERE holder = ANY (ARRAY(
        SELECT holder FROM lease_holders h
        WHERE last_call_at_ms < least(${databaseNowMs(tx)}, ${nowMs}::bigint) - ${quotaLimits.leaseHolderKeptMs}::bigint
          AND NOT EXISTS (SELECT FROM quota_leases l WHERE l.holder = h.holder)
        ORDER BY last_call_at_ms LIMIT ${quotaLimits.leaseHoldersPerTrimMax} FOR UPDATE SKIP LOCKED))
    ), surplus AS (
      DELETE FROM lease_holders WHERE holder = ANY (ARRAY(
        SELECT holder FROM lease_holders WHERE holder = ANY (ARRAY(
          SELECT holder FROM lease_holders WHERE sidecar_id = ${sidecarId} AND holder <> ${holder}
          ORDER BY last_call_at_ms DESC
          OFFSET ${quotaLimits.leaseHoldersPerSidecarMax - 1} LIMIT ${quotaLimits.leaseHoldersPerTrimMax}))
        FOR UPDATE SKIP LOCKED))
    )
    INSERT INTO lease_holders (holder, sidecar_id, account_id, epoch, last_seq, last_answer, last_call_at_ms)
    SELECT ${holder}, ${sidecarId}, ${accountId}, ${epoch}::text, 0, '[]', ${nowMs}::bigint
    WHERE NOT EXISTS (
      SELECT FROM sidecar_epochs WHERE sidecar_id = ${sidecarId} AND epoch = ${epoch}::text AND ended_at_ms IS NOT NULL)
    ON CONFLICT (holder) DO NOTHING`;
}

/**
 * The last call of a holder, locked until the transaction ends: calls of one holder go one after the other,
 * and nobody else changes what it holds. Null: this sidecar has no such holder.
 */
export async function lockHolder(
  tx: Transaction,
  { holder, sidecarId }: HolderName,
): Promise<LastCall | null> {
  const [row] = await tx<LastCall[]>`
    SELECT last_seq AS seq, last_answer AS answer FROM lease_holders
    WHERE holder = ${holder} AND sidecar_id = ${sidecarId} FOR UPDATE`;
  return row ?? null;
}

/**
 * Whether the holder, whose row and leases of these windows are locked, has as many units of each of them
 * that no PERMIT took. No window may occur twice.
 */
export async function holderHas(
  tx: Transaction,
  holder: string,
  units: readonly HeldUnits[],
): Promise<boolean> {
  const rows = await tx`
    SELECT FROM quota_leases l JOIN unnest(
      ${units.map(({ counter }) => counter)}::text[],
      ${units.map(({ window }) => window)}::text[],
      ${units.map(({ startsAtMs }) => startsAtMs)}::bigint[],
      ${units.map((each) => each.units)}::bigint[]
    ) AS w (counter, window_name, starts_at_ms, units) USING (counter, window_name, starts_at_ms)
    WHERE l.holder = ${holder} AND l.units - ${postedUnits(tx)} >= w.units`;
  return rows.length === units.length;
}

/** Units of the lease `l` that PERMITs took and that are not subtracted from its `units` yet. */
export const postedUnits = (sql: Transaction) =>
  sql`coalesce((SELECT sum(p.units) FROM lease_posts p WHERE p.lease_id = l.lease_id), 0)::bigint`;

/** A calendar window of a counter. */
interface NamedWindow {
  readonly counter: CounterKey;
  readonly name: WindowName;
  readonly startsAtMs: UnixMillis;
}

/** Locks what a holder, whose row is locked, has of these windows. */
export async function lockLeases(
  tx: Transaction,
  holder: string,
  windows: readonly NamedWindow[],
): Promise<void> {
  if (windows.length === 0) return;
  await tx`
    SELECT FROM quota_leases l JOIN unnest(
      ${windows.map(({ counter }) => counter)}::text[],
      ${windows.map(({ name }) => name)}::text[],
      ${windows.map(({ startsAtMs }) => startsAtMs)}::bigint[]
    ) AS w (counter, window_name, starts_at_ms) USING (counter, window_name, starts_at_ms)
    WHERE l.holder = ${holder} ORDER BY l.lease_id FOR NO KEY UPDATE OF l`;
}

/**
 * Takes units away from a holder whose row and leases are locked, as many as it has that no PERMIT took and
 * no more; answers how many of each, in the order given. No window may occur twice. The ledger is not
 * touched: the caller gives the units back there, or to another holder.
 */
export async function takeFromHolder(
  tx: Transaction,
  holder: string,
  units: readonly HeldUnits[],
): Promise<readonly number[]> {
  if (units.length === 0) return [];
  const taken = await tx<{ place: number; taken: number }[]>`
    WITH wanted AS (
      SELECT * FROM unnest(
        ${units.map(({ counter }) => counter)}::text[],
        ${units.map(({ window }) => window)}::text[],
        ${units.map(({ startsAtMs }) => startsAtMs)}::bigint[],
        ${units.map((each) => each.units)}::bigint[],
        ${units.map((_, place) => place)}::bigint[]
      ) AS w (counter, window_name, starts_at_ms, units, place)
    ), taken AS (
      SELECT wanted.*, least(wanted.units, greatest(l.units - ${postedUnits(tx)}, 0)) AS taken
      FROM quota_leases l JOIN wanted USING (counter, window_name, starts_at_ms) WHERE l.holder = ${holder}
    ), written AS (
      UPDATE quota_leases l SET units = l.units - t.taken FROM taken t
      WHERE l.holder = ${holder} AND l.counter = t.counter AND l.window_name = t.window_name
        AND l.starts_at_ms = t.starts_at_ms
    )
    SELECT place, taken FROM taken`;
  const atPlace = new Map(taken.map((each) => [each.place, each.taken]));
  return units.map((_, place) => atPlace.get(place) ?? 0);
}

/**
 * Removes leases of windows that ended some time ago, of any holder: money that was taken just before the end
 * of a window may be on its way into an approval. A statement of its own, which waits for nobody: inside a
 * lease call it could hold the lease of another holder while it waits for a window which that one has locked.
 */
export async function trimLeases(sql: Database, nowMs: UnixMillis): Promise<void> {
  await sql`
    DELETE FROM quota_leases WHERE ctid = ANY (ARRAY(
      SELECT ctid FROM quota_leases
      WHERE ends_at_ms < least(${databaseNowMs(sql)}, ${nowMs}::bigint) - ${quotaLimits.quotaWindowKeptMs}::bigint
      ORDER BY ends_at_ms LIMIT ${quotaLimits.quotaWindowsPerTrimMax} FOR UPDATE SKIP LOCKED))`;
}

/** A lease of a holder: its units of one calendar window. */
export interface LeaseRow extends NamedWindow {
  /** By which records name it. */
  readonly leaseId: number;
}

/**
 * Writes what a call was answered, and that the holder has what it was granted; with one statement, because
 * quota windows are locked by now. Returns the leases that were granted of; `isNew`: the holder had nothing
 * of that window before.
 */
export async function saveCall(
  tx: Transaction,
  holder: string,
  call: LastCall & {
    readonly granted: readonly {
      readonly counter: CounterKey;
      readonly window: QuotaWindow;
      readonly units: number;
    }[];
  },
  nowMs: UnixMillis,
): Promise<readonly (LeaseRow & { readonly isNew: boolean })[]> {
  const { seq, answer, granted } = call;
  return tx<(LeaseRow & { isNew: boolean })[]>`
    WITH held AS (
      INSERT INTO quota_leases AS l (holder, counter, window_name, starts_at_ms, ends_at_ms, units, made_at_ms)
      SELECT ${holder}, w.*, ${nowMs}::bigint FROM unnest(
        ${granted.map(({ counter }) => counter)}::text[],
        ${granted.map(({ window }) => window.name)}::text[],
        ${granted.map(({ window }) => window.startsAtMs)}::bigint[],
        ${granted.map(({ window }) => window.endsAtMs)}::bigint[],
        ${granted.map(({ units }) => units)}::bigint[]
      ) AS w
      ON CONFLICT (holder, counter, window_name, starts_at_ms) DO UPDATE SET units = l.units + excluded.units
      RETURNING counter, window_name, starts_at_ms, lease_id, xmax = 0 AS is_new
    ), saved AS (
      UPDATE lease_holders SET last_seq = ${seq}, last_answer = ${JSON.stringify(answer)}::text::jsonb,
        last_call_at_ms = CASE WHEN abs(${nowMs}::bigint - last_call_at_ms) < ${hourMs}::bigint THEN last_call_at_ms
          ELSE ${nowMs}::bigint END
      WHERE holder = ${holder}
    )
    SELECT counter, window_name AS name, starts_at_ms AS "startsAtMs", lease_id AS "leaseId", is_new AS "isNew" FROM held`;
}

/** The leases that a holder has of these windows, for a call that is answered once more. */
export async function findLeases(
  tx: Transaction,
  holder: string,
  windows: readonly NamedWindow[],
): Promise<readonly LeaseRow[]> {
  if (windows.length === 0) return [];
  return tx<LeaseRow[]>`
    SELECT counter, window_name AS name, starts_at_ms AS "startsAtMs", lease_id AS "leaseId"
    FROM quota_leases JOIN unnest(
      ${windows.map(({ counter }) => counter)}::text[],
      ${windows.map(({ name }) => name)}::text[],
      ${windows.map(({ startsAtMs }) => startsAtMs)}::bigint[]
    ) AS w (counter, window_name, starts_at_ms) USING (counter, window_name, starts_at_ms)
    WHERE holder = ${holder}`;
}
