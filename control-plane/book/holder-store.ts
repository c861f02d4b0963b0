import type { AccountId, SidecarId } from '../../shared/model/ids.ts';
import { hourMs, type UnixMillis } from '../../shared/model/time.ts';
import type { CounterKey } from '../../shared/quota/counter.ts';
import type { QuotaWindow, WindowName } from '../../shared/quota/window.ts';
import type { Database, Transaction } from '../base/database.ts';
import { databaseNowMs } from '../storage/database-clock.ts';
import { advisoryLockSeeds } from '../storage/locks.ts';
import type { HeldUnits } from './held-units.ts';
import { quotaLimits } from './limits.ts';

/** A holder belongs to one sidecar permanently. */
export interface HolderName {
  readonly holder: string;
  readonly sidecarId: SidecarId;
}

interface NewHolder extends HolderName {
  readonly accountId: AccountId;
  /** As in LeaseCall; null: not said. */
  readonly epoch: string | null;
}

/** A grant as stored in the holder's row, to answer a repeated call. Times are recomputed. */
export interface StoredGrant {
  readonly granted: number;
  readonly limit: number | null;
  readonly leased: number;
  readonly startsAtMs: UnixMillis;
  readonly endsAtMs: UnixMillis;
}

export interface LastCall {
  /** 0: no call yet. */
  readonly seq: number;
  readonly answer: readonly StoredGrant[];
}

/**
 * Inserts the holder, unless the name exists. Each insert also trims the table: it removes some silent
 * holders with no units, and this sidecar's longest-silent holders beyond
 * `quotaLimits.leaseHoldersPerSidecarMax`. Those belong to superseded processes. Their units can no longer be
 * returned and count until the windows end; a later call of such a holder gets `holder_unknown`. A holder
 * with a call in flight is not removed. A late call for an ended epoch creates no holder, and one beside its
 * end waits for it.
 */
export async function beginHolder(
  tx: Transaction,
  { holder, sidecarId, accountId, epoch }: NewHolder,
  nowMs: UnixMillis,
): Promise<void> {
  if (epoch !== null) await shareEpoch(tx, { sidecarId, epoch });
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

interface NamedEpoch {
  readonly sidecarId: SidecarId;
  readonly epoch: string;
}

const nameOf = ({ sidecarId, epoch }: NamedEpoch): string => `${sidecarId} ${epoch}`;

/**
 * First calls of an epoch's holders share it until their transactions end, and its end waits for them and
 * they for it. So a holder is there before, and its leases go back with all others, or its call finds the
 * epoch ended. A statement of its own, because the next one must see what was committed meanwhile; and no
 * lock of a row, because an epoch has none before its first records or its end.
 */
const shareEpoch = (tx: Transaction, of: NamedEpoch) =>
  tx`SELECT pg_advisory_xact_lock_shared(hashtextextended(${nameOf(of)}, ${advisoryLockSeeds.epochEnds}))`;

/** See `shareEpoch`. The first statement of the end. */
export const lockEpoch = (tx: Transaction, of: NamedEpoch) =>
  tx`SELECT pg_advisory_xact_lock(hashtextextended(${nameOf(of)}, ${advisoryLockSeeds.epochEnds}))`;

/**
 * Reads the last call of a holder and locks the holder until the transaction ends: its calls run one at a
 * time, and nothing else changes its units. Null: this sidecar has no such holder.
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
 * Whether the holder has this many units of each window that no PERMIT took. Its row and these leases are
 * locked. No window may occur twice.
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

/**
 * Locks a holder's leases of these windows. The holder's row is locked already; none is locked for a sidecar
 * that names the holder of another.
 */
export async function lockLeases(
  tx: Transaction,
  { holder, sidecarId }: HolderName,
  windows: readonly NamedWindow[],
): Promise<void> {
  if (windows.length === 0) return;
  await tx`
    SELECT FROM quota_leases l JOIN unnest(
      ${windows.map(({ counter }) => counter)}::text[],
      ${windows.map(({ name }) => name)}::text[],
      ${windows.map(({ startsAtMs }) => startsAtMs)}::bigint[]
    ) AS w (counter, window_name, starts_at_ms) USING (counter, window_name, starts_at_ms)
    WHERE l.holder = ${holder}
      AND EXISTS (SELECT FROM lease_holders h WHERE h.holder = ${holder} AND h.sidecar_id = ${sidecarId})
    ORDER BY l.lease_id FOR NO KEY UPDATE OF l`;
}

/**
 * Takes units from a holder, at most those that no PERMIT took; returns the number per window, in the order
 * given. Its row and these leases are locked. No window may occur twice. The ledger is unchanged: the caller
 * returns the units to it or passes them on.
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
 * Removes leases of windows that ended a while ago, of any holder. The delay is for money taken just before
 * the end of a window and still on its way into an approval. Runs outside of lease calls and skips locked
 * rows: inside one it could hold another holder's lease while waiting for a window which that holder has
 * locked.
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
  /** The number that records use for it. */
  readonly leaseId: number;
}

/**
 * Saves the answer of a call and adds its grants to the holder's leases, in one statement because quota
 * windows are locked by now. Returns the leases with grants; `isNew`: the holder had no lease of that window
 * before.
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

/** A holder's leases of these windows, to answer a repeated call. */
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
