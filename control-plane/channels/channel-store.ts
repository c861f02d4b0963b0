import { must } from '../../shared/errors/assert.ts';
import type { Channel, ChannelFault } from '../../shared/model/channel.ts';
import type { ChannelId, GateId } from '../../shared/model/ids.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { Page, PagePlace } from '../../shared/wire/api/paging.ts';
import type { Database, Transaction } from '../base/database.ts';
import { entityTag } from '../http/entity-tag.ts';
import { hasPart } from '../storage/has-part.ts';
import { readPage } from '../storage/read-page.ts';

interface ChannelRow extends Omit<Channel, 'lastError'> {
  readonly errorCode: ChannelFault | null;
  readonly errorDetail: string | null;
  readonly errorAtMs: UnixMillis | null;
}

const columns = (sql: Database | Transaction) => sql`
  channel_id AS "channelId", account_id AS "accountId", mode, name, kind, gate_id AS "gateId",
  shown_target AS "shownTarget", target_hash AS "targetHash", after_ms AS "afterMs", events, status,
  disabled_reason AS "disabledReason", failing_since_ms AS "failingSinceMs", failures,
  last_error_code AS "errorCode", last_error_detail AS "errorDetail", last_error_at_ms AS "errorAtMs",
  last_sent_at_ms AS "lastSentAtMs", version, created_at_ms AS "createdAtMs", updated_at_ms AS "updatedAtMs"`;

const ownedBy = (sql: Database | Transaction, { accountId, mode }: Owner) =>
  sql`account_id = ${accountId} AND mode = ${mode}`;

function toChannel({ errorCode, errorDetail, errorAtMs, ...row }: ChannelRow): Channel {
  const lastError =
    errorCode === null || errorAtMs === null
      ? null
      : { code: errorCode, detail: errorDetail ?? '', atMs: errorAtMs };
  return { ...row, lastError };
}

/** Identifies a version of the channel. Excludes its health, which does not matter to an editor. */
export const channelTag = ({ version }: Pick<Channel, 'version'>): string => entityTag(String(version));

export async function insertChannel(tx: Transaction, channel: Channel, sealedTarget: string): Promise<void> {
  await tx`
    INSERT INTO channels (channel_id, account_id, mode, gate_id, kind, name, shown_target, target_hash, sealed_target,
      after_ms, events, status, version, created_at_ms, updated_at_ms)
    VALUES (${channel.channelId}, ${channel.accountId}, ${channel.mode}, ${channel.gateId}, ${channel.kind},
      ${channel.name}, ${channel.shownTarget}, ${channel.targetHash}, ${sealedTarget}, ${channel.afterMs},
      ${[...channel.events]}, ${channel.status}, ${channel.version}, ${channel.createdAtMs}, ${channel.updatedAtMs})`;
}

/** How many the account has in all, and at that place; until the transaction ends no other adds one. */
export async function countChannelsLocked(
  tx: Transaction,
  owner: Owner,
  gateId: GateId | null,
): Promise<{ readonly total: number; readonly here: number }> {
  await lockNames(tx, owner);
  const [row] = await tx<{ total: number; here: number }[]>`
    SELECT count(*) AS total, count(*) FILTER (WHERE gate_id IS NOT DISTINCT FROM ${gateId}) AS here
    FROM channels WHERE ${ownedBy(tx, owner)}`;
  return must(row, 'a count has a row');
}

/** Until the transaction ends no other adds or renames a channel of the account. */
export const lockNames = (tx: Transaction, { accountId }: Owner) =>
  tx`SELECT FROM accounts WHERE account_id = ${accountId} FOR NO KEY UPDATE`;

/** Names must be locked. */
export async function hasChannelNamed(tx: Transaction, owner: Owner, name: string): Promise<boolean> {
  const rows = await tx`SELECT FROM channels WHERE name = ${name} AND ${ownedBy(tx, owner)}`;
  return rows.length > 0;
}

/** Whether it is a gate of the owner. */
export async function hasGate(tx: Transaction, owner: Owner, gateId: GateId): Promise<boolean> {
  const rows = await tx`
    SELECT FROM gates WHERE gate_id = ${gateId} AND ${ownedBy(tx, owner)} AND deleted_at_ms IS NULL`;
  return rows.length > 0;
}

export async function findChannel(
  sql: Database | Transaction,
  owner: Owner,
  channelId: ChannelId,
): Promise<Channel | null> {
  const [row] = await sql<ChannelRow[]>`
    SELECT ${columns(sql)} FROM channels WHERE channel_id = ${channelId} AND ${ownedBy(sql, owner)}`;
  return row === undefined ? null : toChannel(row);
}

/** Locks it until the transaction ends. */
export async function lockChannel(
  tx: Transaction,
  owner: Owner,
  channelId: ChannelId,
): Promise<{ readonly channel: Channel; readonly sealedTarget: string } | null> {
  const [row] = await tx<(ChannelRow & { readonly sealedTarget: string })[]>`
    SELECT ${columns(tx)}, sealed_target AS "sealedTarget" FROM channels
    WHERE channel_id = ${channelId} AND ${ownedBy(tx, owner)} FOR UPDATE`;
  if (row === undefined) return null;
  const { sealedTarget, ...channel } = row;
  return { channel: toChannel(channel), sealedTarget };
}

export async function listChannels(
  sql: Database,
  owner: Owner,
  { namePart, page }: { readonly namePart: string | null; readonly page: PagePlace },
): Promise<Page<Channel>> {
  const where = sql`${ownedBy(sql, owner)} ${hasPart(sql, sql`name`, namePart)}`;
  return readPage(page, {
    count: () => sql<{ total: number }[]>`SELECT count(*) AS total FROM channels WHERE ${where}`,
    rows: async (limit) => {
      const rows = await sql<ChannelRow[]>`
        SELECT ${columns(sql)} FROM channels WHERE ${where} ${page.behind === null ? sql`` : sql`AND channel_id < ${page.behind}`}
        ORDER BY channel_id DESC LIMIT ${limit} OFFSET ${page.offset}`;
      return rows.map(toChannel);
    },
    idOf: ({ channelId }) => channelId,
  });
}

/**
 * The row must be locked. `isAnew`: it forgets how attempts before went, and what those under way will have
 * come to.
 */
export async function updateChannelRow(
  tx: Transaction,
  channel: Channel,
  { sealedTarget, isAnew }: { readonly sealedTarget: string; readonly isAnew: boolean },
): Promise<void> {
  await tx`
    UPDATE channels SET name = ${channel.name}, shown_target = ${channel.shownTarget},
      target_hash = ${channel.targetHash}, sealed_target = ${sealedTarget}, after_ms = ${channel.afterMs},
      events = ${[...channel.events]}, status = ${channel.status}, disabled_reason = ${channel.disabledReason},
      version = ${channel.version}, updated_at_ms = ${channel.updatedAtMs}
      ${isAnew ? tx`, era = era + 1, failing_since_ms = NULL, failures = 0, paused_until_ms = NULL, last_error_code = NULL, last_error_detail = NULL, last_error_at_ms = NULL` : tx``}
    WHERE channel_id = ${channel.channelId}`;
}

/** What waits for it is removed soon, and never sent. */
export async function deleteChannelRow(tx: Transaction, channelId: ChannelId): Promise<void> {
  await tx`DELETE FROM channels WHERE channel_id = ${channelId}`;
}
