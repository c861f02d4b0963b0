import { must } from '../../shared/errors/assert.ts';
import type { Actor, AuditEntry } from '../../shared/model/audit.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { Database, Transaction } from '../base/database.ts';

type AuditRow = Omit<AuditEntry, 'actor'> & {
  readonly actorType: Actor['type'];
  readonly actorId: Actor['id'];
  readonly actorClientId: Actor['clientId'];
};

const columns = (sql: Database | Transaction) => sql`
  audit_id AS "auditId", account_id AS "accountId", mode, actor_type AS "actorType", actor_id AS "actorId",
  actor_client_id AS "actorClientId", operation, target, before, after, request_id AS "requestId",
  created_at_ms AS "createdAtMs", sequence, previous_hash AS "previousHash", hash, signing_key_id AS "signingKeyId", signature`;

const toEntry = ({ actorType, actorId, actorClientId, ...row }: AuditRow): AuditEntry => ({
  ...row,
  actor: { type: actorType, id: actorId, clientId: actorClientId },
});

const ownedBy = (sql: Database | Transaction, { accountId, mode }: Owner) =>
  sql`account_id = ${accountId} AND mode = ${mode}`;

/** The caller holds the lock of the chain. */
export async function insertAuditEntry(tx: Transaction, entry: AuditEntry): Promise<void> {
  const json = (state: AuditEntry['before']) => (state === null ? null : JSON.stringify(state));
  await tx`
    INSERT INTO audit_entries (audit_id, account_id, mode, sequence, actor_type, actor_id, actor_client_id, operation, target,
      before, after, request_id, created_at_ms, previous_hash, hash, signing_key_id, signature)
    VALUES (${entry.auditId}, ${entry.accountId}, ${entry.mode}, ${entry.sequence}, ${entry.actor.type}, ${entry.actor.id},
      ${entry.actor.clientId}, ${entry.operation}, ${entry.target}, ${json(entry.before)}::text::json,
      ${json(entry.after)}::text::json, ${entry.requestId}, ${entry.createdAtMs}, ${entry.previousHash}, ${entry.hash},
      ${entry.signingKeyId}, ${entry.signature})`;
}

/** Filters of a page. Null: none. */
export interface AuditFilter {
  readonly actor: string | null;
  readonly operation: string | null;
  readonly target: string | null;
  /** Not older than this. */
  readonly sinceMs: UnixMillis | null;
  /** Older than this, exclusive: adjacent windows share no entry. */
  readonly untilMs: UnixMillis | null;
}

/** The place of an entry in every list. */
export interface AuditPlace {
  readonly createdAtMs: UnixMillis;
  readonly sequence: number;
}

export interface AuditPage {
  readonly entries: readonly AuditEntry[];
  /** Whether more entries follow. */
  readonly hasMore: boolean;
}

/** Newest first. Entries never move, so new ones neither repeat nor hide any. */
export async function listAuditEntries(
  sql: Database | Transaction,
  owner: Owner,
  filter: AuditFilter,
  { limit, after }: { readonly limit: number; readonly after: AuditPlace | null },
): Promise<AuditPage> {
  // One more than requested shows whether there is a next page.
  const rows = await sql<AuditRow[]>`
    SELECT ${columns(sql)} FROM audit_entries
    WHERE ${ownedBy(sql, owner)}
      ${filter.actor === null ? sql`` : sql`AND actor_id = ${filter.actor}`}
      ${filter.operation === null ? sql`` : sql`AND operation = ${filter.operation}`}
      ${filter.target === null ? sql`` : sql`AND target = ${filter.target}`}
      ${filter.sinceMs === null ? sql`` : sql`AND created_at_ms >= ${filter.sinceMs}`}
      ${filter.untilMs === null ? sql`` : sql`AND created_at_ms < ${filter.untilMs}`}
      ${after === null ? sql`` : sql`AND (created_at_ms, sequence) < (${after.createdAtMs}, ${after.sequence})`}
    ORDER BY created_at_ms DESC, sequence DESC LIMIT ${limit + 1}`;
  return { entries: rows.slice(0, limit).map(toEntry), hasMore: rows.length > limit };
}

/** The part of a chain in an export; see AuditManifest. */
export interface AuditSpan {
  readonly firstSequence: number;
  readonly previousHash: string | null;
  /** Of the head row. */
  readonly lastSequence: number;
  readonly lastHash: string | null;
}

/** The existing entries, whatever the head row says. */
export interface AuditExtent {
  /** 0: none. */
  readonly highest: number;
  /** Whether the entry before the span is missing. */
  readonly isCutOff: boolean;
}

export async function readAuditSpan(
  tx: Transaction,
  owner: Owner,
  sinceMs: UnixMillis | null,
): Promise<AuditSpan & AuditExtent> {
  const [head] = await tx<{ sequence: number; hash: string }[]>`
    SELECT sequence, hash FROM audit_chains WHERE ${ownedBy(tx, owner)}`;
  const [last] = await tx<{ sequence: number }[]>`
    SELECT sequence FROM audit_entries WHERE ${ownedBy(tx, owner)} ORDER BY sequence DESC LIMIT 1`;
  const highest = last?.sequence ?? 0;
  const { sequence: lastSequence, hash: lastHash } = head ?? { sequence: 0, hash: null };
  const found = sinceMs === null ? 1 : await findFirst(tx, owner, sinceMs);
  if (found === 1)
    return { firstSequence: 1, previousHash: null, lastSequence, lastHash, highest, isCutOff: false };
  if (found === null || found > lastSequence) {
    const firstSequence = lastSequence + 1;
    return { firstSequence, previousHash: lastHash, lastSequence, lastHash, highest, isCutOff: false };
  }
  const [first] = await tx<{ previousHash: string; isCutOff: boolean }[]>`
    SELECT previous_hash AS "previousHash",
      NOT EXISTS (SELECT FROM audit_entries WHERE ${ownedBy(tx, owner)} AND sequence = ${found - 1}) AS "isCutOff"
    FROM audit_entries WHERE ${ownedBy(tx, owner)} AND sequence = ${found}`;
  const { previousHash, isCutOff } = must(first, 'it was found in the same snapshot');
  return { firstSequence: found, previousHash, lastSequence, lastHash, highest, isCutOff };
}

/**
 * Times are from several replicas' clocks and may fall along the chain, so the first entry not older is
 * searched.
 */
async function findFirst(tx: Transaction, owner: Owner, sinceMs: UnixMillis): Promise<number | null> {
  const [first] = await tx<{ sequence: number | null }[]>`
    SELECT min(sequence) AS sequence FROM audit_entries WHERE ${ownedBy(tx, owner)} AND created_at_ms >= ${sinceMs}`;
  return first?.sequence ?? null;
}

/** Entries of a chain by their sequence numbers, both included, in order. */
export async function readAuditRange(
  tx: Transaction,
  owner: Owner,
  { first, last }: { readonly first: number; readonly last: number },
): Promise<readonly AuditEntry[]> {
  const rows = await tx<AuditRow[]>`
    SELECT ${columns(tx)} FROM audit_entries
    WHERE ${ownedBy(tx, owner)} AND sequence BETWEEN ${first} AND ${last} ORDER BY sequence`;
  return rows.map(toEntry);
}
