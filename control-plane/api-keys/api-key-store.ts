import type { PendingQuery, Row } from 'postgres';
import { type AccountStatus, type Plan, type PlanLimits, planLimitsOf } from '../../shared/model/account.ts';
import type { ApiKey } from '../../shared/model/api-key.ts';
import type { AccountId, ApiKeyId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import type { Mode } from '../../shared/model/mode.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { Scope } from '../../shared/model/scopes.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { Page, PagePlace } from '../../shared/wire/api/paging.ts';
import type { Database, Transaction } from '../base/database.ts';
import { hasPart } from '../storage/has-part.ts';
import { readPage } from '../storage/read-page.ts';

/** A presented key, with the facts that decide whether it may be used. Deleted keys are not found. */
export interface PresentedKey {
  readonly keyId: ApiKeyId;
  readonly keyHash: string;
  readonly accountId: AccountId;
  readonly mode: Mode;
  readonly scopes: readonly Scope[];
  readonly expiresAtMs: UnixMillis | null;
  readonly endsWithKeyId: ApiKeyId | null;
  readonly lastUsedAtMs: UnixMillis | null;
  readonly accountStatus: AccountStatus;
  readonly isOperatorAccount: boolean;
  /** The current plan limits of the account. */
  readonly planLimits: PlanLimits;
}

interface PresentedKeyRow extends Omit<PresentedKey, 'planLimits'>, PlanLimits {
  readonly plan: Plan;
}

export const findPresentedKey = async (sql: Database, keyHash: string): Promise<PresentedKey | null> =>
  (await findPresentedKeys(sql, [keyHash])).get(keyHash) ?? null;

/** By hash; deleted and unknown ones are left out. */
export async function findPresentedKeys(
  sql: Database,
  keyHashes: readonly string[],
): Promise<ReadonlyMap<string, PresentedKey>> {
  const keys = await readPresentedKeys(sql, sql`k.key_hash = ANY(${[...keyHashes]}::text[])`);
  return new Map(keys.map((key) => [key.keyHash, key]));
}

/** The key that an access token stands for. */
export const findKeyOfToken = async (sql: Database, keyId: ApiKeyId): Promise<PresentedKey | null> =>
  (await readPresentedKeys(sql, sql`k.key_id = ${keyId}`))[0] ?? null;

async function readPresentedKeys(sql: Database, where: PendingQuery<Row[]>): Promise<PresentedKey[]> {
  const rows = await sql<PresentedKeyRow[]>`
    SELECT k.key_id AS "keyId", k.key_hash AS "keyHash", k.account_id AS "accountId", k.mode, k.scopes,
      k.expires_at_ms AS "expiresAtMs", k.ends_with_key_id AS "endsWithKeyId", k.last_used_at_ms AS "lastUsedAtMs", a.status AS "accountStatus",
      a.is_operator AS "isOperatorAccount", a.plan, a.requests_per_minute AS "requestsPerMinute",
      a.requests_per_day AS "requestsPerDay"
    FROM api_keys k JOIN accounts a USING (account_id)
    WHERE ${where} AND k.revoked_at_ms IS NULL`;
  return rows.map(({ plan, requestsPerMinute, requestsPerDay, ...key }) => ({
    ...key,
    planLimits: planLimitsOf({ plan, limits: { requestsPerMinute, requestsPerDay } }),
  }));
}

/** Writes nothing if another replica did so within `limits.keyUseWriteIntervalMs`. */
export async function touchApiKey(sql: Database, keyId: ApiKeyId, nowMs: UnixMillis): Promise<void> {
  await sql`
    UPDATE api_keys SET last_used_at_ms = ${nowMs}
    WHERE key_id = ${keyId}
      AND (last_used_at_ms IS NULL OR last_used_at_ms <= ${nowMs - limits.keyUseWriteIntervalMs})`;
}

export async function insertApiKey(tx: Transaction, key: ApiKey): Promise<void> {
  await tx`
    INSERT INTO api_keys (key_id, account_id, mode, name, scopes, key_hash, prefix, last4, created_at_ms, expires_at_ms,
      ends_with_key_id)
    VALUES (${key.keyId}, ${key.accountId}, ${key.mode}, ${key.name}, ${[...key.scopes]}, ${key.keyHash},
      ${key.prefix}, ${key.last4}, ${key.createdAtMs}, ${key.expiresAtMs},
      ${key.endsWithKeyId})`;
}

const columns = (sql: Database | Transaction) => sql`
  key_id AS "keyId", account_id AS "accountId", mode, name, scopes, key_hash AS "keyHash", prefix, last4,
  created_at_ms AS "createdAtMs", expires_at_ms AS "expiresAtMs", ends_with_key_id AS "endsWithKeyId", revoked_at_ms AS "revokedAtMs",
  last_used_at_ms AS "lastUsedAtMs"`;

/** Deleted keys are not found. */
export async function findApiKey(sql: Database, owner: Owner, keyId: ApiKeyId): Promise<ApiKey | null> {
  const rows = await sql<ApiKey[]>`
    SELECT ${columns(sql)} FROM api_keys
    WHERE key_id = ${keyId} AND account_id = ${owner.accountId} AND mode = ${owner.mode} AND revoked_at_ms IS NULL`;
  return rows[0] ?? null;
}

export interface LockedApiKey extends ApiKey {
  /** Its expiry without an overlap; equals `expiresAtMs` unless it was rolled. */
  readonly ownExpiresAtMs: UnixMillis | null;
}

export async function lockApiKey(
  tx: Transaction,
  owner: Owner,
  keyId: ApiKeyId,
): Promise<LockedApiKey | null> {
  const rows = await tx<LockedApiKey[]>`
    SELECT ${columns(tx)}, CASE WHEN is_rolled THEN own_expires_at_ms ELSE expires_at_ms END AS "ownExpiresAtMs"
    FROM api_keys
    WHERE key_id = ${keyId} AND account_id = ${owner.accountId} AND mode = ${owner.mode} AND revoked_at_ms IS NULL
    FOR UPDATE`;
  return rows[0] ?? null;
}

export async function listApiKeys(
  sql: Database,
  owner: Owner,
  { namePart, page }: { readonly namePart: string | null; readonly page: PagePlace },
): Promise<Page<ApiKey>> {
  const where = sql`account_id = ${owner.accountId} AND mode = ${owner.mode} AND revoked_at_ms IS NULL
    ${hasPart(sql, sql`name`, namePart)}`;
  return readPage(page, {
    count: () => sql<{ total: number }[]>`SELECT count(*) AS total FROM api_keys WHERE ${where}`,
    rows: (limit) => sql<ApiKey[]>`
      SELECT ${columns(sql)} FROM api_keys WHERE ${where} ${page.behind === null ? sql`` : sql`AND key_id < ${page.behind}`}
      ORDER BY key_id DESC LIMIT ${limit} OFFSET ${page.offset}`,
    idOf: ({ keyId }) => keyId,
  });
}

/** Marks the key as rolled; it ends at `endsAtMs`. */
export async function beginOverlap(
  tx: Transaction,
  { keyId, ownExpiresAtMs }: LockedApiKey,
  endsAtMs: UnixMillis,
): Promise<void> {
  await tx`
    UPDATE api_keys SET is_rolled = true, own_expires_at_ms = ${ownExpiresAtMs}, expires_at_ms = ${endsAtMs}
    WHERE key_id = ${keyId}`;
}

/** Locks the key against deletion until the transaction ends. False: already deleted. */
export async function holdApiKey(tx: Transaction, keyId: ApiKeyId): Promise<boolean> {
  const rows = await tx`SELECT FROM api_keys WHERE key_id = ${keyId} AND revoked_at_ms IS NULL FOR SHARE`;
  return rows.length > 0;
}

/**
 * Ends the key and, transitively, the keys that end with it. Returns all of them, because sidecars must
 * forget each.
 */
export async function revokeApiKeys(
  tx: Transaction,
  keyId: ApiKeyId,
  nowMs: UnixMillis,
): Promise<readonly ApiKeyId[]> {
  const rows = await tx<{ keyId: ApiKeyId }[]>`
    WITH RECURSIVE ending AS (
      SELECT ${keyId}::text AS key_id
      UNION SELECT k.key_id FROM api_keys k JOIN ending e ON k.ends_with_key_id = e.key_id)
    UPDATE api_keys SET revoked_at_ms = ${nowMs}
    WHERE key_id IN (SELECT key_id FROM ending) AND revoked_at_ms IS NULL
    RETURNING key_id AS "keyId"`;
  return rows.map((row) => row.keyId);
}

/** Shortens the keys that end with this one to its end. Returns the changed ones. */
export async function shortenKeysEndingWith(
  tx: Transaction,
  keyId: ApiKeyId,
  endsAtMs: UnixMillis,
): Promise<readonly ApiKey[]> {
  return tx<ApiKey[]>`
    WITH RECURSIVE ending AS (
      SELECT key_id FROM api_keys WHERE ends_with_key_id = ${keyId}
      UNION SELECT k.key_id FROM api_keys k JOIN ending e ON k.ends_with_key_id = e.key_id)
    UPDATE api_keys SET expires_at_ms = ${endsAtMs}
    WHERE key_id IN (SELECT key_id FROM ending) AND revoked_at_ms IS NULL
      AND (expires_at_ms IS NULL OR expires_at_ms > ${endsAtMs})
    RETURNING ${columns(tx)}`;
}
