import { InvariantError } from '../../shared/errors/assert.ts';
import type { Actor } from '../../shared/model/audit.ts';
import { federatedTokenHash } from '../../shared/model/federation.ts';
import type { IssuerId, PassportId, WalletId } from '../../shared/model/ids.ts';
import type { IssuerStatus } from '../../shared/model/issuer.ts';
import type { Owner } from '../../shared/model/owner.ts';
import { type Passport, type PassportStatus, passportStatusAt } from '../../shared/model/passport.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { TrustTier } from '../../shared/model/trust-tier.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { noConstraints, renderConstraints } from '../../shared/wire/api/constraints.ts';
import type { Page, PagePlace } from '../../shared/wire/api/paging.ts';
import type { Database, Transaction } from '../base/database.ts';
import { hasPart } from '../storage/has-part.ts';
import { readItems, readPage } from '../storage/read-page.ts';
import { readStoredActor, storedActor } from '../storage/stored-actor.ts';
import { readStoredConstraints, tryStoredConstraints } from '../storage/stored-constraints.ts';
import { together } from '../storage/together.ts';
import { leavePlace } from './leave-place.ts';

/** A passport with the standing of its issuer and of its signing key. */
export interface StoredPassport extends Passport {
  readonly issuerStatus: IssuerStatus;
  readonly isKeyCompromised: boolean;
}

type PassportRow = Omit<StoredPassport, 'constraints' | 'revokedBy'> & {
  readonly constraints: unknown;
  readonly revokedBy: unknown;
};

const columns = (sql: Database | Transaction) => sql`
  p.passport_id AS "passportId", p.account_id AS "accountId", p.mode, p.issuer_id AS "issuerId",
  i.domain AS "issuerDomain", i.status AS "issuerStatus", k.compromised AND p.token_hash <> ${federatedTokenHash} AS "isKeyCompromised",
  p.owner, p.for_user AS "user", p.token_hash = ${federatedTokenHash} AS "isFederated", p.agent_id AS "agentId", p.agent_name AS "agentName",
  p.subject, p.permissions, p.constraints, p.trust_tier AS "trustTier", p.public_key AS "publicKey", p.status,
  p.issued_at_ms AS "issuedAtMs", p.expires_at_ms AS "expiresAtMs", p.revoked_at_ms AS "revokedAtMs",
  p.revocation_reason AS "revocationReason", p.revoked_by AS "revokedBy", p.metadata,
  (SELECT coalesce(jsonb_agg(jsonb_build_object('cause', s.cause, 'sinceMs', s.since_ms, 'event', s.event, 'owner', nullif(s.owner, ''))
    ORDER BY s.since_ms, s.cause, s.owner), '[]') FROM suspensions s WHERE s.passport_id = p.passport_id) AS "suspendedBy",
  (SELECT w.wallet_id FROM passport_wallets w WHERE w.passport_id = p.passport_id) AS "walletId"`;

const use = (sql: Database | Transaction) => sql`
  coalesce(u.use_count, 0) AS "useCount", u.last_used_at_ms AS "lastUsedAtMs"`;

/**
 * Rows were validated before they were written, so an unreadable one is an internal error that names the
 * passport.
 */
function toPassport(row: PassportRow, nowMs: UnixMillis): StoredPassport {
  try {
    const constraints = readStoredConstraints(row.constraints, 'passport');
    return { ...withoutConstraints(row, nowMs), constraints };
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    throw new InvariantError(`the row of passport ${row.passportId} can be read: ${why}`, { cause });
  }
}

const withoutConstraints = (row: PassportRow, nowMs: UnixMillis): Omit<StoredPassport, 'constraints'> => ({
  ...row,
  revokedBy: readStoredActor(row.revokedBy),
  status: passportStatusAt(row, nowMs),
});

/** The members for lists, which need no parsing. */
type ListedPassport = Omit<Passport, 'constraints' | 'revokedBy'>;

/**
 * Inserts a passport. False: its agent_id belongs to an active or suspended one, possibly issued
 * concurrently. An expired passport gives up its agent_id here.
 */
export async function insertPassport(
  tx: Transaction,
  passport: Passport,
  token: { readonly hash: string; readonly signingKeyId: string },
): Promise<boolean> {
  // One round trip: the expired one makes room for the new one.
  const [, inserted] = await together([
    () => tx`
    UPDATE passports SET status = 'expired'
    WHERE account_id = ${passport.accountId} AND mode = ${passport.mode} AND agent_id = ${passport.agentId}
      AND status IN ('active', 'suspended') AND expires_at_ms <= ${passport.issuedAtMs}`,
    () => tx`
    INSERT INTO passports (passport_id, account_id, mode, issuer_id, agent_id, agent_name, subject, permissions,
      constraints, trust_tier, public_key, token_hash, signing_key_id, status, issued_at_ms, expires_at_ms, metadata, owner, for_user)
    VALUES (${passport.passportId}, ${passport.accountId}, ${passport.mode}, ${passport.issuerId}, ${passport.agentId},
      ${passport.agentName}, ${JSON.stringify(passport.subject)}::text::jsonb, ${[...passport.permissions]},
      ${JSON.stringify(renderConstraints(passport.constraints))}::text::jsonb, ${passport.trustTier},
      ${passport.publicKey}, ${token.hash}, ${token.signingKeyId}, ${passport.status}, ${passport.issuedAtMs}, ${passport.expiresAtMs},
      ${JSON.stringify(passport.metadata)}::text::jsonb, ${passport.owner}, ${passport.user})
    ON CONFLICT (account_id, mode, agent_id) WHERE status IN ('active', 'suspended') DO NOTHING`,
  ]);
  if (inserted.count !== 1) return false;
  if (passport.walletId !== null)
    await tx`
      INSERT INTO passport_wallets (passport_id, wallet_id, is_in_token, changed_at_ms)
      VALUES (${passport.passportId}, ${passport.walletId}, true, 0)`;
  return true;
}

/** Whether its token says that it may have a wallet: sidecars need not be told then. */
export async function isWalletInToken(tx: Transaction, passportId: PassportId): Promise<boolean> {
  const [row] = await tx<{ isInToken: boolean }[]>`
    SELECT is_in_token AS "isInToken" FROM passport_wallets WHERE passport_id = ${passportId}`;
  return row?.isInToken === true;
}

/** The row of the passport is locked. */
export async function setPassportWallet(
  tx: Transaction,
  passportId: PassportId,
  {
    fromId,
    walletId,
    nowMs,
  }: {
    readonly fromId: WalletId | null;
    readonly walletId: WalletId | null;
    readonly nowMs: UnixMillis;
  },
): Promise<void> {
  await tx`
    INSERT INTO passport_wallets AS w (passport_id, wallet_id, is_in_token, changed_at_ms)
    VALUES (${passportId}, ${walletId}, false, ${nowMs})
    ON CONFLICT (passport_id) DO UPDATE SET wallet_id = excluded.wallet_id, changed_at_ms = excluded.changed_at_ms`;
  await leavePlace(tx, passportId, { parentId: fromId, nowMs });
}

export async function findPassport(
  sql: Database,
  owner: Owner,
  { passportId, nowMs }: { readonly passportId: PassportId; readonly nowMs: UnixMillis },
): Promise<StoredPassport | null> {
  const [row] = await sql<PassportRow[]>`
    SELECT ${columns(sql)}, ${use(sql)} FROM passports p
    JOIN issuers i USING (issuer_id) JOIN signing_keys k ON k.kid = p.signing_key_id
    LEFT JOIN passport_use u USING (passport_id)
    WHERE p.passport_id = ${passportId} AND p.account_id = ${owner.accountId} AND p.mode = ${owner.mode}`;
  return row === undefined ? null : toPassport(row, nowMs);
}

interface AskedPassport {
  readonly passportId: PassportId;
  readonly nowMs: UnixMillis;
}

/** Locks the passport against state changes until the transaction ends. */
export async function lockPassport(
  tx: Transaction,
  owner: Owner,
  asked: AskedPassport,
): Promise<StoredPassport | null> {
  const row = await lockRow(tx, owner, asked.passportId);
  return row === null ? null : toPassport(row, asked.nowMs);
}

/** The same for ending it: unreadable constraints count as none. */
export async function lockPassportToEnd(
  tx: Transaction,
  owner: Owner,
  asked: AskedPassport,
): Promise<StoredPassport | null> {
  const row = await lockRow(tx, owner, asked.passportId);
  if (row === null) return null;
  const constraints = tryStoredConstraints(row.constraints, 'passport') ?? noConstraints;
  return { ...withoutConstraints(row, asked.nowMs), constraints };
}

async function lockRow(tx: Transaction, owner: Owner, passportId: PassportId): Promise<PassportRow | null> {
  const [row] = await tx<PassportRow[]>`
    SELECT ${columns(tx)}, ${use(tx)} FROM passports p
    JOIN issuers i USING (issuer_id) JOIN signing_keys k ON k.kid = p.signing_key_id
    LEFT JOIN passport_use u USING (passport_id)
    WHERE p.passport_id = ${passportId} AND p.account_id = ${owner.accountId} AND p.mode = ${owner.mode}
    FOR UPDATE OF p`;
  return row ?? null;
}

export interface PassportFilter {
  readonly agentIdPart: string | null;
  readonly agentNamePart: string | null;
  readonly issuerId: IssuerId | null;
  /** Exactly this one. */
  readonly owner: string | null;
  /** Exactly this one, whoever issued the passport. */
  readonly user: string | null;
  readonly status: PassportStatus | null;
  readonly trustTier: TrustTier | null;
}

export async function listPassports<Item>(
  sql: Database | Transaction,
  owner: Owner,
  asked: {
    readonly filter: PassportFilter;
    readonly page: PagePlace;
    readonly nowMs: UnixMillis;
    readonly toItem: (passport: ListedPassport) => Item;
    readonly logger: Logger;
  },
): Promise<Page<Item>> {
  const { filter, page, nowMs, toItem, logger } = asked;
  const where = sql`
    p.account_id = ${owner.accountId} AND p.mode = ${owner.mode}
    ${hasPart(sql, sql`p.agent_id`, filter.agentIdPart)}
    ${hasPart(sql, sql`p.agent_name`, filter.agentNamePart)}
    ${filter.issuerId === null ? sql`` : sql`AND p.issuer_id = ${filter.issuerId}`}
    ${filter.owner === null ? sql`` : sql`AND p.owner = ${filter.owner}`}
    ${filter.user === null ? sql`` : sql`AND p.for_user = ${filter.user}`}
    ${filter.trustTier === null ? sql`` : sql`AND p.trust_tier = ${filter.trustTier}`}
    ${filter.status === null ? sql`` : sql`AND ${hasStatusAt(sql, filter.status, nowMs)}`}`;
  const idOf = ({ passportId }: PassportRow) => passportId;
  const rows = await readPage(page, {
    count: () => sql<{ total: number }[]>`SELECT count(*) AS total FROM passports p WHERE ${where}`,
    rows: (limit) => sql<PassportRow[]>`
      SELECT ${columns(sql)}, ${use(sql)} FROM passports p
      JOIN issuers i USING (issuer_id) JOIN signing_keys k ON k.kid = p.signing_key_id
      LEFT JOIN passport_use u USING (passport_id)
      WHERE ${where} ${page.behind === null ? sql`` : sql`AND p.passport_id < ${page.behind}`}
      ORDER BY p.passport_id DESC LIMIT ${limit} OFFSET ${page.offset}`,
    idOf,
  });
  const read = (row: PassportRow) => toItem({ ...row, status: passportStatusAt(row, nowMs) });
  return readItems(rows, { of: 'passport', idOf, toItem: read, logger });
}

/** Ids of the owner's passports with this agent_id, whatever their state, at most `max`, the newest first. */
export async function passportIdsOfAgent(
  sql: Database | Transaction,
  owner: Owner,
  asked: {
    readonly agentId: string;
    /** Only this one, if it is of the agent; null: all. */
    readonly passportId: string | null;
    readonly max: number;
  },
): Promise<readonly PassportId[]> {
  const rows = await sql<{ passportId: PassportId }[]>`
    SELECT passport_id AS "passportId" FROM passports
    WHERE account_id = ${owner.accountId} AND mode = ${owner.mode} AND agent_id = ${asked.agentId}
      ${asked.passportId === null ? sql`` : sql`AND passport_id = ${asked.passportId}`}
    ORDER BY passport_id DESC LIMIT ${asked.max}`;
  return rows.map(({ passportId }) => passportId);
}

/** `passportStatusAt` in SQL: 'expired' is hardly ever written, and mostly seen by the time. */
function hasStatusAt(sql: Database | Transaction, status: PassportStatus, nowMs: UnixMillis) {
  switch (status) {
    case 'revoked':
      return sql`p.status = 'revoked'`;
    case 'expired':
      return sql`p.status <> 'revoked' AND p.expires_at_ms <= ${nowMs}`;
    default:
      return sql`p.status = ${status} AND (p.expires_at_ms IS NULL OR p.expires_at_ms > ${nowMs})`;
  }
}

/** Whether another passport with this agent_id is active or suspended. */
export async function hasLiveAgent(
  tx: Transaction,
  { accountId, mode, agentId, passportId }: Pick<Passport, 'accountId' | 'mode' | 'agentId' | 'passportId'>,
): Promise<boolean> {
  const rows = await tx`
    SELECT FROM passports WHERE account_id = ${accountId} AND mode = ${mode} AND agent_id = ${agentId}
      AND status IN ('active', 'suspended') AND passport_id <> ${passportId}`;
  return rows.length > 0;
}

export async function setPassportRevoked(
  tx: Transaction,
  passportId: PassportId,
  { reason, nowMs, by }: { readonly reason: string; readonly nowMs: UnixMillis; readonly by: Actor | null },
): Promise<void> {
  await tx`
    UPDATE passports SET status = 'revoked', revoked_at_ms = ${nowMs}, revocation_reason = ${reason},
      revoked_by = ${storedActor(by)}::text::jsonb
    WHERE passport_id = ${passportId}`;
}
