import type { PendingQuery, Row } from 'postgres';
import { ApiError, invalidRequest } from '../../shared/errors/api-error.ts';
import { must } from '../../shared/errors/assert.ts';
import type { AccountId, SidecarId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { Page, PagePlace } from '../../shared/wire/api/paging.ts';
import type { DecisionTimes } from '../../shared/wire/sync/decision-times.ts';
import { type FeedId, type FeedPosition, globalFeed, type Position } from '../../shared/wire/sync/sync.ts';
import type { Database, Transaction } from '../base/database.ts';
import { noteHints } from '../events/note-hints.ts';
import { databaseNowMs } from '../storage/database-clock.ts';
import { readPage } from '../storage/read-page.ts';
import { ownerName } from '../storage/stored-owner.ts';
import { syncLimits } from './limits.ts';

/** The sidecar and process that sent a request. */
export interface Connection {
  readonly sidecarId: SidecarId;
  readonly accountId: AccountId;
  readonly connectionId: string;
}

/**
 * Makes the connections of a process the only ones of its sidecar id, discards earlier acknowledgements, and
 * returns the connection id: a time that is unique per sidecar, so that the newer of two processes is known,
 * a dot, and the process. All connections of one process are one: a call that arrives late, or twice, ends
 * none.
 * Throws `invalid_request` if the sidecar id belongs to another account, `overloaded` if the account has
 * `syncLimits.sidecarsPerAccountMax` other sidecars connected.
 */
export async function connectSidecar(
  sql: Database,
  sidecar: {
    readonly sidecarId: SidecarId;
    readonly accountId: AccountId;
    /** Names the process, and is known to it alone. */
    readonly process: string;
    readonly clockOffsetMs: number;
    /** Version of the sidecar. */
    readonly version?: string | null;
  },
): Promise<string> {
  const { sidecarId, accountId, clockOffsetMs, version = null } = sidecar;
  await makeRoom(sql, { sidecarId, accountId });
  const suffix = sql`${`.${sidecar.process}`}::text`;
  const nowMs = databaseNowMs(sql);
  const later = sql`greatest(excluded.connected_at_ms, sidecars.connected_at_ms + 1)`;
  const taken = await sql<{ connection_id: string }[]>`
    INSERT INTO sidecars (sidecar_id, account_id, connection_id, connected_at_ms, last_seen_at_ms,
      acked_account_revision, acked_global_revision, clock_offset_ms, version)
    VALUES (${sidecarId}, ${accountId}, ${nowMs} || ${suffix}, ${nowMs}, ${nowMs}, 0, 0, ${clockOffsetMs}, ${version})
    ON CONFLICT (sidecar_id) DO UPDATE SET connection_id = ${later} || ${suffix},
      connected_at_ms = ${later}, last_seen_at_ms = excluded.last_seen_at_ms,
      acked_account_revision = 0, acked_global_revision = 0, clock_offset_ms = excluded.clock_offset_ms,
      version = excluded.version, stopped_at_ms = NULL, decisions = NULL, decision_p50_ms = NULL, decision_p99_ms = NULL
    WHERE sidecars.account_id = excluded.account_id
    RETURNING connection_id`;
  const connectionId = taken[0]?.connection_id;
  if (connectionId !== undefined) {
    noteHints(sql, [{ accountId, mode: null, type: 'sidecar', id: sidecarId }]);
    return connectionId;
  }
  throw invalidRequest('sidecar_id', 'This sidecar_id belongs to another account.');
}

/**
 * Bounds the sidecars of an account: a revocation may wait for every connected one, and plans do not limit
 * sidecar calls. The longest-silent ones are forgotten, those without a shipped record first; a forgotten
 * sidecar that returns connects like a new one. Two concurrent connects may both take the last place, which
 * is harmless.
 */
async function makeRoom(
  sql: Database,
  { sidecarId, accountId }: { readonly sidecarId: SidecarId; readonly accountId: AccountId },
): Promise<void> {
  const connectedSinceMs = sql`${databaseNowMs(sql)} - ${limits.sidecarConnectedMs}::bigint`;
  const [others] = await sql<{ connected: number; silent: number }[]>`
    SELECT count(*) FILTER (WHERE last_seen_at_ms > ${connectedSinceMs} AND stopped_at_ms IS NULL) AS connected,
      count(*) FILTER (WHERE last_seen_at_ms <= ${connectedSinceMs} OR stopped_at_ms IS NOT NULL) AS silent
    FROM sidecars WHERE account_id = ${accountId} AND sidecar_id <> ${sidecarId}`;
  const { connected, silent } = must(others, 'a count has a row');
  if (connected >= syncLimits.sidecarsPerAccountMax) {
    throw new ApiError('overloaded', {
      message: `This account has ${syncLimits.sidecarsPerAccountMax} connected sidecars, which is the maximum.`,
    });
  }
  if (silent < syncLimits.sidecarsPerAccountMax) return;
  await sql`
    DELETE FROM sidecars WHERE sidecar_id = ANY (ARRAY(
      SELECT sidecar_id FROM sidecars
      WHERE account_id = ${accountId} AND sidecar_id <> ${sidecarId}
        AND (last_seen_at_ms <= ${connectedSinceMs} OR stopped_at_ms IS NOT NULL)
      ORDER BY EXISTS (SELECT FROM sidecar_epochs WHERE sidecar_epochs.sidecar_id = sidecars.sidecar_id), last_seen_at_ms
      LIMIT ${syncLimits.sidecarsPerTrimMax} FOR UPDATE SKIP LOCKED))`;
}

/**
 * Forgets sidecars not seen for `syncLimits.sidecarForgottenMs`, a bounded number at a time, skipping rows
 * that other replicas lock.
 */
export async function trimSidecars(sql: Database): Promise<number> {
  const removed = await sql`
    DELETE FROM sidecars WHERE sidecar_id = ANY (ARRAY(
      SELECT sidecar_id FROM sidecars
      WHERE last_seen_at_ms < ${databaseNowMs(sql)} - ${syncLimits.sidecarForgottenMs}::bigint
      ORDER BY last_seen_at_ms LIMIT ${syncLimits.changesPerTrimMax} FOR UPDATE SKIP LOCKED))`;
  return removed.count;
}

/**
 * State of a connection. `unknown`: neither it nor a newer one exists, as after a restore; the sidecar may
 * reconnect. `superseded`: a newer process has taken over the sidecar id; if this one reconnected, the two
 * would evict each other in a loop.
 *
 * A newer connection that was never used for `connectionUnusedMsMax` counts as none: its call came late, from
 * a process that had died before this one connected.
 */
export type ConnectionStatus = 'newest' | 'superseded' | 'unknown';

/** Null: not an id of a connection. */
const processOf = (connectionId: string): string | null => connectionId.split('.')[1] || null;

const isOfProcess = (current: string, connectionId: string): boolean =>
  processOf(connectionId) !== null && processOf(current) === processOf(connectionId);

export async function readConnectionStatus(
  sql: Database | Transaction,
  { sidecarId, accountId, connectionId }: Connection,
): Promise<ConnectionStatus> {
  const [row] = await sql<{ connection_id: string; connected_at_ms: number; is_unused: boolean }[]>`
    SELECT connection_id, connected_at_ms, last_seen_at_ms <= connected_at_ms
      AND connected_at_ms < ${databaseNowMs(sql)} - ${syncLimits.connectionUnusedMsMax}::bigint AS is_unused
    FROM sidecars WHERE sidecar_id = ${sidecarId} AND account_id = ${accountId}`;
  if (row === undefined) return 'unknown';
  if (isOfProcess(row.connection_id, connectionId)) return 'newest';
  const isNewer = row.connected_at_ms > Number.parseInt(connectionId, 10);
  return isNewer && !row.is_unused ? 'superseded' : 'unknown';
}

/** What a sidecar reports about itself; absent or null keeps the last value. */
export interface SaidOfItself {
  readonly times?: DecisionTimes | null;
  readonly clockOffsetMs?: number | null;
}

/**
 * Notes that the sidecar is alive, its position and its report. An acknowledgement overtaken by a later one
 * changes nothing. A position outside this database's history resets the acknowledgement, because the
 * acknowledged state no longer applies. False: the connection is unknown. Throws `precondition_failed` if a
 * newer connection has taken over the sidecar id.
 */
export async function noteSidecar(
  sql: Database,
  connection: Connection,
  applied: Position,
  { times = null, clockOffsetMs = null }: SaidOfItself = {},
): Promise<boolean> {
  const { sidecarId, accountId, connectionId } = connection;
  const isKnown = (feedId: FeedId, { revision, mark }: FeedPosition) => sql`
    (SELECT signature FROM changes WHERE feed_id = ${feedId} AND revision = ${revision}) = ${mark}`;
  const noted = await sql`
    UPDATE sidecars SET last_seen_at_ms = greatest(last_seen_at_ms, ${databaseNowMs(sql)}), stopped_at_ms = NULL,
      acked_account_revision = CASE WHEN ${isKnown(accountId, applied.account)}
        THEN greatest(acked_account_revision, ${applied.account.revision}) ELSE 0 END,
      acked_global_revision = CASE WHEN ${isKnown(globalFeed, applied.global)}
        THEN greatest(acked_global_revision, ${applied.global.revision}) ELSE 0 END
      ${clockOffsetMs === null ? sql`` : sql`, clock_offset_ms = ${clockOffsetMs}`}
      ${
        times === null
          ? sql``
          : sql`, decisions = ${times.decisions}, decision_p50_ms = ${times.p50Ms}, decision_p99_ms = ${times.p99Ms}`
      }
    WHERE sidecar_id = ${sidecarId} AND account_id = ${accountId}
      AND split_part(connection_id, '.', 2) = ${processOf(connectionId)}`;
  if (noted.count > 0) return true;
  if ((await readConnectionStatus(sql, connection)) === 'unknown') return false;
  throw new ApiError('precondition_failed', {
    param: 'connection_id',
    message: 'Another process has connected with this sidecar_id, and only the newest connection counts.',
  });
}

/**
 * Notes at once what `noteSidecar` has noted of these before, but for their positions: they called so long
 * ago. Resolves to those that the database still knows.
 */
export async function noteAllSeen(
  sql: Database,
  seen: readonly (Connection & SaidOfItself & { readonly agoMs: number })[],
): Promise<ReadonlySet<string>> {
  if (seen.length === 0) return new Set();
  const rows = await sql<{ id: string }[]>`
    UPDATE sidecars s SET last_seen_at_ms = greatest(last_seen_at_ms, ${databaseNowMs(sql)} - n.ago_ms),
      clock_offset_ms = coalesce(n.clock_offset_ms, s.clock_offset_ms), decisions = coalesce(n.decisions, s.decisions),
      decision_p50_ms = CASE WHEN n.decisions IS NULL THEN s.decision_p50_ms ELSE n.p50_ms END,
      decision_p99_ms = CASE WHEN n.decisions IS NULL THEN s.decision_p99_ms ELSE n.p99_ms END
    FROM unnest(
      ${seen.map(({ sidecarId }) => sidecarId)}::text[],
      ${seen.map(({ accountId }) => accountId)}::text[],
      ${seen.map(({ connectionId }) => processOf(connectionId))}::text[],
      ${seen.map(({ agoMs }) => Math.round(agoMs))}::bigint[],
      ${seen.map(({ clockOffsetMs = null }) => clockOffsetMs)}::bigint[],
      ${seen.map(({ times = null }) => times?.decisions ?? null)}::bigint[],
      ${seen.map(({ times = null }) => times?.p50Ms ?? null)}::float8[],
      ${seen.map(({ times = null }) => times?.p99Ms ?? null)}::float8[]
    ) AS n (sidecar_id, account_id, process, ago_ms, clock_offset_ms, decisions, p50_ms, p99_ms)
    WHERE s.sidecar_id = n.sidecar_id AND s.account_id = n.account_id
      AND split_part(s.connection_id, '.', 2) = n.process
    RETURNING s.sidecar_id AS id`;
  return new Set(rows.map(({ id }) => id));
}

/**
 * Notes that the process of this connection shuts down cleanly. Any later call of this sidecar id cancels it.
 * False: another connection is the current one.
 */
export async function noteStopped(
  sql: Database,
  { sidecarId, accountId, connectionId }: Connection,
): Promise<boolean> {
  const noted = await sql`
    UPDATE sidecars SET stopped_at_ms = ${databaseNowMs(sql)}
    WHERE sidecar_id = ${sidecarId} AND account_id = ${accountId}
      AND split_part(connection_id, '.', 2) = ${processOf(connectionId)}`;
  if (noted.count === 0) return false;
  noteHints(sql, [{ accountId, mode: null, type: 'sidecar', id: sidecarId }]);
  return true;
}

/**
 * The accounts whose sidecars serve this owner's passports: its own, and those of gates at which they were
 * shown. One index step per gate, at most `syncLimits.servingGatesMax`.
 */
export async function findServingAccounts(sql: Database, owner: Owner): Promise<AccountId[]> {
  const nextGate = (after: PendingQuery<Row[]>) => sql`
    SELECT gate FROM records
    WHERE reader = (SELECT number FROM record_names WHERE name = ${ownerName(owner)})
      AND other_reader IS NOT NULL ${after}
    ORDER BY gate LIMIT 1`;
  const rows = await sql<{ accountId: AccountId }[]>`
    WITH RECURSIVE shown_at AS (
      (SELECT gate, 1 AS place FROM (${nextGate(sql``)}) AS first)
      UNION ALL
      SELECT next.gate, place + 1
      FROM shown_at CROSS JOIN LATERAL (${nextGate(sql`AND records.gate > shown_at.gate`)}) AS next
      WHERE place < ${syncLimits.servingGatesMax}
    )
    SELECT DISTINCT account_id AS "accountId" FROM shown_at
    JOIN record_names ON record_names.number = shown_at.gate JOIN gates ON gates.gate_id = record_names.name`;
  return [owner.accountId, ...rows.map((row) => row.accountId)];
}

/**
 * Counts the sidecars of these accounts that are connected and that have applied this global revision, and
 * lists the silent ones. A cleanly stopped sidecar is neither.
 */
export async function lookAtSidecars(
  sql: Database,
  accountIds: readonly AccountId[],
  globalRevision: number,
): Promise<{
  readonly sidecars: number;
  readonly acknowledged: number;
  readonly silent: readonly SidecarId[];
}> {
  const rows = await sql<{ sidecarId: SidecarId; isConnected: boolean; hasAcknowledged: boolean }[]>`
    SELECT sidecar_id AS "sidecarId", acked_global_revision >= ${globalRevision} AS "hasAcknowledged",
      last_seen_at_ms > ${databaseNowMs(sql)} - ${limits.sidecarConnectedMs}::bigint AS "isConnected"
    FROM sidecars
    WHERE account_id = ANY(${[...accountIds]}::text[]) AND stopped_at_ms IS NULL
      AND last_seen_at_ms > ${databaseNowMs(sql)} - ${syncLimits.sidecarSilentMs}::bigint
    ORDER BY last_seen_at_ms DESC`;
  const connected = rows.filter(({ isConnected }) => isConnected);
  const silent = rows.filter(({ isConnected }) => !isConnected);
  return {
    sidecars: connected.length,
    acknowledged: connected.filter(({ hasAcknowledged }) => hasAcknowledged).length,
    silent: silent.slice(0, syncLimits.silentSidecarsMax).map(({ sidecarId }) => sidecarId),
  };
}

/** A sidecar as shown to its account. */
export interface SeenSidecar {
  readonly sidecarId: SidecarId;
  readonly isConnected: boolean;
  readonly connectedAtMs: UnixMillis;
  readonly lastSeenAtMs: UnixMillis;
  /** Null: not cleanly stopped. */
  readonly stoppedAtMs: UnixMillis | null;
  readonly clockOffsetMs: number;
  /** Null: its version does not report this. */
  readonly version: string | null;
  /** Null: not reported yet, or not connected. */
  readonly decisions: number | null;
  readonly decisionP50Ms: number | null;
  readonly decisionP99Ms: number | null;
  /** Unacknowledged changes of both feeds. */
  readonly changesBehind: number;
  /** Time since it was last seen. */
  readonly silentMs: number;
}

/** The sidecars of an account, newest first. */
export const listSidecars = (
  sql: Database,
  accountId: AccountId,
  page: PagePlace,
): Promise<Page<SeenSidecar>> =>
  readPage(page, {
    count: () =>
      sql<{ total: number }[]>`SELECT count(*) AS total FROM sidecars WHERE account_id = ${accountId}`,
    rows: (limit) => readSidecars(sql, accountId, { ...page, limit }),
    idOf: ({ sidecarId }) => sidecarId,
  });

const readSidecars = (
  sql: Database,
  accountId: AccountId,
  page: PagePlace,
): Promise<readonly SeenSidecar[]> =>
  sql<SeenSidecar[]>`
    SELECT sidecar_id AS "sidecarId", connected_at_ms AS "connectedAtMs", last_seen_at_ms AS "lastSeenAtMs",
      stopped_at_ms AS "stoppedAtMs", clock_offset_ms AS "clockOffsetMs", version, decisions, decision_p50_ms AS "decisionP50Ms",
      decision_p99_ms AS "decisionP99Ms",
      stopped_at_ms IS NULL AND last_seen_at_ms > ${databaseNowMs(sql)} - ${limits.sidecarConnectedMs}::bigint AS "isConnected",
      greatest(own.revision - acked_account_revision, 0) + greatest(all_feeds.revision - acked_global_revision, 0) AS "changesBehind",
      greatest(${databaseNowMs(sql)} - last_seen_at_ms, 0) AS "silentMs"
    FROM sidecars
      JOIN feeds own ON own.feed_id = sidecars.account_id
      JOIN feeds all_feeds ON all_feeds.feed_id = ${globalFeed}
    WHERE account_id = ${accountId} ${page.behind === null ? sql`` : sql`AND sidecar_id < ${page.behind}`}
    ORDER BY sidecar_id DESC LIMIT ${page.limit} OFFSET ${page.offset}`;
