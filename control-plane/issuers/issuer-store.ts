import type { IssuerId } from '../../shared/model/ids.ts';
import type { Issuer } from '../../shared/model/issuer.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import type { CountedIssuer } from '../../shared/wire/api/issuer.ts';
import type { Page, PagePlace } from '../../shared/wire/api/paging.ts';
import type { Database, Transaction } from '../base/database.ts';
import { ofKey } from '../creation/unique-name.ts';
import { hasPart } from '../storage/has-part.ts';
import { readItems, readPage } from '../storage/read-page.ts';

const columns = (sql: Database | Transaction) => sql`
  i.issuer_id AS "issuerId", i.account_id AS "accountId", i.mode, i.name, i.domain, i.trust_tier AS "trustTier",
  i.metadata, i.status, i.is_default AS "isDefault", i.wallet_id AS "walletId", i.created_at_ms AS "createdAtMs",
  (SELECT jsonb_build_object('version', f.version, 'settings', f.settings, 'keys', f.keys, 'keysAtMs', f.keys_at_ms,
    'fault', f.fault) FROM federations f WHERE f.issuer_id = i.issuer_id) AS federation`;

/** False: the account already has a default issuer in this mode, so only for a default issuer. */
export async function insertIssuer(tx: Transaction, issuer: Issuer): Promise<boolean> {
  const inserted = await tx`
    INSERT INTO issuers (issuer_id, account_id, mode, name, domain, trust_tier, metadata, status, is_default, created_at_ms, wallet_id,
      wallet_since_ms)
    VALUES (${issuer.issuerId}, ${issuer.accountId}, ${issuer.mode}, ${issuer.name}, ${issuer.domain},
      ${issuer.trustTier}, ${JSON.stringify(issuer.metadata)}::text::jsonb, ${issuer.status}, ${issuer.isDefault},
      ${issuer.createdAtMs}, ${issuer.walletId}, ${issuer.walletId === null ? null : 0})
    ON CONFLICT (account_id, mode) WHERE is_default DO NOTHING`;
  return inserted.count === 1;
}

export async function hasIssuerNamed(
  tx: Transaction,
  owner: Owner,
  name: string,
  key: string | null,
): Promise<boolean> {
  const rows = await tx`
    SELECT FROM issuers
    WHERE account_id = ${owner.accountId} AND mode = ${owner.mode} AND name = ${name} ${ofKey(tx, tx`metadata`, key)} LIMIT 1`;
  return rows.length > 0;
}

export async function findIssuer(
  sql: Database | Transaction,
  owner: Owner,
  issuerId: IssuerId,
): Promise<Issuer | null> {
  const rows = await sql<Issuer[]>`
    SELECT ${columns(sql)} FROM issuers i
    WHERE i.issuer_id = ${issuerId} AND i.account_id = ${owner.accountId} AND i.mode = ${owner.mode}`;
  return rows[0] ?? null;
}

export async function findDefaultIssuer(sql: Database | Transaction, owner: Owner): Promise<Issuer | null> {
  const rows = await sql<Issuer[]>`
    SELECT ${columns(sql)} FROM issuers i
    WHERE i.account_id = ${owner.accountId} AND i.mode = ${owner.mode} AND i.is_default`;
  return rows[0] ?? null;
}

/**
 * Its key stays as it is, so passports of it are inserted meanwhile: one that waited for this lock would hold
 * the row that a security event waits for.
 */
export async function lockIssuer(tx: Transaction, owner: Owner, issuerId: IssuerId): Promise<Issuer | null> {
  const rows = await tx<Issuer[]>`
    SELECT ${columns(tx)} FROM issuers i
    WHERE i.issuer_id = ${issuerId} AND i.account_id = ${owner.accountId} AND i.mode = ${owner.mode}
    FOR NO KEY UPDATE`;
  return rows[0] ?? null;
}

/** The counts of one issuer's passports; an unrevoked one is active until it expires. */
const counted = (sql: Database | Transaction, nowMs: UnixMillis) => sql`
  LEFT JOIN LATERAL (
    SELECT count(*) AS "passportCount",
      count(*) FILTER (
        WHERE p.status = 'active' AND (p.expires_at_ms IS NULL OR p.expires_at_ms > ${nowMs})
      ) AS "activePassports",
      count(*) FILTER (WHERE p.status = 'revoked') AS "revokedPassports",
      max(p.issued_at_ms) AS "lastPassportIssuedAtMs"
    FROM passports p WHERE p.issuer_id = i.issuer_id
  ) AS counts ON true`;

export async function findCountedIssuer(
  sql: Database | Transaction,
  owner: Owner,
  { issuerId, nowMs }: { readonly issuerId: IssuerId; readonly nowMs: UnixMillis },
): Promise<CountedIssuer | null> {
  const rows = await sql<CountedIssuer[]>`
    SELECT ${columns(sql)}, counts.* FROM issuers i ${counted(sql, nowMs)}
    WHERE i.issuer_id = ${issuerId} AND i.account_id = ${owner.accountId} AND i.mode = ${owner.mode}`;
  return rows[0] ?? null;
}

export async function listIssuers<Item>(
  sql: Database,
  owner: Owner,
  asked: {
    readonly namePart: string | null;
    readonly page: PagePlace;
    readonly nowMs: UnixMillis;
    readonly toItem: (issuer: CountedIssuer) => Item;
    readonly logger: Logger;
  },
): Promise<Page<Item>> {
  const { namePart, page, nowMs, toItem, logger } = asked;
  const idOf = ({ issuerId }: CountedIssuer) => issuerId;
  const where = sql`account_id = ${owner.accountId} AND mode = ${owner.mode} ${hasPart(sql, sql`name`, namePart)}`;
  const found = await readPage(page, {
    count: () => sql<{ total: number }[]>`SELECT count(*) AS total FROM issuers WHERE ${where}`,
    // Pages first, so that only the page's issuers are counted.
    rows: (limit) => sql<CountedIssuer[]>`
      SELECT ${columns(sql)}, counts.* FROM (
        SELECT * FROM issuers WHERE ${where} ${page.behind === null ? sql`` : sql`AND issuer_id < ${page.behind}`}
        ORDER BY issuer_id DESC LIMIT ${limit} OFFSET ${page.offset}
      ) AS i ${counted(sql, nowMs)}
      ORDER BY i.issuer_id DESC`,
    idOf,
  });
  return readItems(found, { of: 'issuer', idOf, toItem, logger });
}

export async function updateIssuerRow(
  tx: Transaction,
  issuerId: IssuerId,
  next: Pick<Issuer, 'name' | 'metadata' | 'status' | 'walletId'>,
  nowMs: UnixMillis,
): Promise<void> {
  await tx`
    UPDATE issuers SET name = ${next.name}, metadata = ${JSON.stringify(next.metadata)}::text::jsonb,
      status = ${next.status}, wallet_id = ${next.walletId},
      wallet_since_ms = CASE WHEN wallet_id IS DISTINCT FROM ${next.walletId} THEN ${nowMs} ELSE wallet_since_ms END
    WHERE issuer_id = ${issuerId}`;
}
