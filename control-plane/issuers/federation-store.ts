import { InvariantError } from '../../shared/errors/assert.ts';
import type { FederatedIssuer, Federation, ForeignKey } from '../../shared/model/federation.ts';
import type { AccountId, GateId, IssuerId } from '../../shared/model/ids.ts';
import type { IssuerStatus } from '../../shared/model/issuer.ts';
import type { Mode } from '../../shared/model/mode.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import {
  type FederationSettings,
  parseStoredFederation,
  renderFederation,
} from '../../shared/wire/api/federation.ts';
import type { Database, Transaction } from '../base/database.ts';

/** An issuer of others with what became of the last reading of its keys. */
export interface KeptFederation extends FederatedIssuer {
  /** Why its keys could not be read, or what of them was passed over; null: neither. */
  readonly fault: string | null;
}

/** An issuer of others as it is stored. */
export interface StoredFederation extends KeptFederation {
  readonly status: IssuerStatus;
  /**
   * When the turn was taken to read its keys; 0: a reading ended that no unknown key had asked for, so the
   * next one may ask at once. Null: pasted.
   */
  readonly askedAtMs: UnixMillis | null;
}

interface FederationRow {
  readonly issuerId: IssuerId;
  readonly accountId: AccountId;
  readonly mode: Mode;
  readonly version: number;
  readonly settings: FederationSettings;
  readonly keys: readonly ForeignKey[];
  readonly keysAtMs: UnixMillis | null;
  readonly askedAtMs: UnixMillis | null;
  readonly fault: string | null;
  readonly status: IssuerStatus;
  readonly hasWallets: boolean;
}

const columns = (sql: Database | Transaction) => sql`
  f.issuer_id AS "issuerId", f.account_id AS "accountId", f.mode, f.version, f.settings, f.keys,
  f.keys_at_ms AS "keysAtMs", f.asked_at_ms AS "askedAtMs", f.fault, i.status, i.wallet_since_ms IS NOT NULL AS "hasWallets"`;

/** Issuers are found by the database's collation. */
const itsIssuer = (sql: Database | Transaction) =>
  sql`JOIN issuers i ON i.issuer_id = f.issuer_id COLLATE "default"`;

/** Rows were validated before they were written. */
function toFederation(row: FederationRow): StoredFederation {
  const { settings, ...rest } = row;
  try {
    return { ...rest, federation: parseStoredFederation(settings) };
  } catch (cause) {
    throw new InvariantError(`the federation of ${row.issuerId} can be read`, { cause });
  }
}

export async function insertFederation(tx: Transaction, issuer: KeptFederation): Promise<void> {
  await tx`
    INSERT INTO federations (issuer_id, account_id, mode, settings, keys, version, keys_at_ms, asked_at_ms, fault)
    VALUES (${issuer.issuerId}, ${issuer.accountId}, ${issuer.mode}, ${settingsOf(issuer.federation)}::text::jsonb,
      ${JSON.stringify(issuer.keys)}::text::jsonb, ${issuer.version}, ${issuer.keysAtMs},
      ${askedAt(issuer, 0 as UnixMillis)}, ${issuer.fault})`;
}

/** Keys that are pasted are never asked for. */
const askedAt = ({ keysAtMs }: FederatedIssuer, askedAtMs: UnixMillis): UnixMillis | null =>
  keysAtMs === null ? null : askedAtMs;

const settingsOf = (federation: Federation): string => JSON.stringify(renderFederation(federation));

/** Settings and keys of a locked issuer, as they are now. `askedAtMs`: see StoredFederation. */
export async function updateFederation(
  tx: Transaction,
  issuer: KeptFederation,
  askedAtMs = 0 as UnixMillis,
): Promise<void> {
  await tx`
    UPDATE federations SET settings = ${settingsOf(issuer.federation)}::text::jsonb,
      keys = ${JSON.stringify(issuer.keys)}::text::jsonb, version = ${issuer.version},
      keys_at_ms = ${issuer.keysAtMs}, asked_at_ms = ${askedAt(issuer, askedAtMs)}, fault = ${issuer.fault}
    WHERE issuer_id = ${issuer.issuerId}`;
}

export async function noteKeyFault(sql: Database, issuerId: IssuerId, fault: string): Promise<void> {
  await sql`UPDATE federations SET fault = ${fault} WHERE issuer_id = ${issuerId}`;
}

export async function countFederations(tx: Transaction, owner: Owner): Promise<number> {
  const [row] = await tx<{ count: number }[]>`
    SELECT count(*)::int AS count FROM federations WHERE account_id = ${owner.accountId} AND mode = ${owner.mode}`;
  return row?.count ?? 0;
}

export async function findFederation(
  sql: Database | Transaction,
  issuerId: IssuerId,
): Promise<StoredFederation | null> {
  const [row] = await sql<FederationRow[]>`
    SELECT ${columns(sql)} FROM federations f ${itsIssuer(sql)} WHERE f.issuer_id = ${issuerId}`;
  return row === undefined ? null : toFederation(row);
}

export async function findFederations(
  sql: Database | Transaction,
  issuerIds: readonly IssuerId[],
): Promise<ReadonlyMap<IssuerId, StoredFederation>> {
  if (issuerIds.length === 0) return new Map();
  const rows = await sql<FederationRow[]>`
    SELECT ${columns(sql)} FROM federations f ${itsIssuer(sql)}
    WHERE f.issuer_id = ANY(${[...issuerIds]}::text[])`;
  return new Map(rows.map((row) => [row.issuerId, toFederation(row)]));
}

/** Those of the account, in both modes: what its tokens are compared with. */
export async function accountFederations(
  sql: Database | Transaction,
  accountId: AccountId,
): Promise<readonly StoredFederation[]> {
  const rows = await sql<FederationRow[]>`
    SELECT ${columns(sql)} FROM federations f ${itsIssuer(sql)}
    WHERE f.account_id = ${accountId}`;
  return rows.map(toFederation);
}

/**
 * Those of the account, and those of other accounts that its gates name by id; with `gateId` that this gate
 * names.
 */
export async function knownFederations(
  sql: Database,
  accountId: AccountId,
  gateId: GateId | null = null,
): Promise<readonly StoredFederation[]> {
  const rows = await sql<FederationRow[]>`
    SELECT ${columns(sql)} FROM federations f ${itsIssuer(sql)}
    WHERE f.issuer_id IN (
      SELECT issuer_id FROM federations WHERE account_id = ${accountId}
      UNION ${namedBy(sql, accountId)} ${gateId === null ? sql`` : sql`AND gate_id = ${gateId}`})`;
  return rows.map(toFederation);
}

/** Issuers of others, of their mode, that gates of this account name by id. */
const namedBy = (sql: Database | Transaction, accountId: AccountId) => sql`
  SELECT n.issuer_id FROM gates
  CROSS JOIN jsonb_array_elements_text(constraints->'trusted_issuers') AS named (issuer_id)
  JOIN federations n ON n.issuer_id = named.issuer_id AND n.mode = gates.mode
  WHERE gates.account_id = ${accountId} AND deleted_at_ms IS NULL
    AND jsonb_typeof(constraints->'trusted_issuers') = 'array'`;

/** The accounts, besides its own, whose gates name this issuer. */
export async function accountsNaming(
  tx: Transaction,
  { issuerId, accountId, mode }: Pick<FederatedIssuer, 'issuerId' | 'accountId' | 'mode'>,
): Promise<readonly AccountId[]> {
  const rows = await tx<{ accountId: AccountId }[]>`
    SELECT DISTINCT account_id AS "accountId" FROM gates
    WHERE deleted_at_ms IS NULL AND constraints->'trusted_issuers' ? ${issuerId}
      AND account_id <> ${accountId} AND mode = ${mode}`;
  return rows.map((row) => row.accountId);
}

/**
 * Of these ids the issuers of others of other accounts, each unchanged until the transaction ends. Locked in
 * the order of their ids, and not against one another.
 */
export async function holdNamed(
  tx: Transaction,
  { accountId, mode }: Owner,
  issuerIds: readonly IssuerId[],
): Promise<readonly IssuerId[]> {
  const rows = await tx<{ issuerId: IssuerId }[]>`
    SELECT issuer_id AS "issuerId" FROM issuers
    WHERE issuer_id = ANY(${[...issuerIds]}::text[]) AND account_id <> ${accountId} AND mode = ${mode}
      AND EXISTS (SELECT FROM federations f WHERE f.issuer_id = issuers.issuer_id)
    ORDER BY issuer_id COLLATE "C" FOR SHARE`;
  return rows.map((row) => row.issuerId);
}

/** How many issuers of others of other accounts the gates of this account and mode name. */
export async function countNamed(tx: Transaction, { accountId, mode }: Owner): Promise<number> {
  const [row] = await tx<{ count: number }[]>`
    SELECT count(*)::int AS count FROM federations
    WHERE account_id <> ${accountId} AND mode = ${mode} AND issuer_id IN (${namedBy(tx, accountId)})`;
  return row?.count ?? 0;
}

/**
 * Takes the turn to ask for these keys, unless another replica has it, or had it less than `gapMs` ago. Times
 * are PostgreSQL's, as all replicas carry them.
 */
export async function takeTurn(
  sql: Database,
  issuerId: IssuerId,
  { nowMs, gapMs }: { readonly nowMs: UnixMillis; readonly gapMs: number },
): Promise<boolean> {
  const taken = await sql`
    UPDATE federations SET asked_at_ms = ${nowMs}
    WHERE issuer_id = ${issuerId} AND ${isFree(sql, nowMs, gapMs)}`;
  return taken.count === 1;
}

/** A time ahead was noted before the clock was set back. It must not hold up all readings until then. */
const isFree = (sql: Database, nowMs: UnixMillis, gapMs: number) =>
  sql`(asked_at_ms <= ${nowMs - gapMs} OR asked_at_ms > ${nowMs + gapMs})`;

/**
 * Issuers whose keys are due, at most `max`: read `refreshMs` ago, or a sixth of their longest age if that is
 * less. One that could not be read is asked again after `gapMs`.
 */
export async function dueFederations(
  sql: Database,
  asked: {
    readonly nowMs: UnixMillis;
    readonly refreshMs: number;
    readonly gapMs: number;
    readonly max: number;
  },
): Promise<readonly IssuerId[]> {
  const { nowMs, refreshMs, gapMs, max } = asked;
  const rows = await sql<{ issuerId: IssuerId }[]>`
    SELECT f.issuer_id AS "issuerId" FROM federations f ${itsIssuer(sql)}
    WHERE ${isFree(sql, nowMs, gapMs)} AND i.status = 'active'
      AND (f.keys_at_ms > ${nowMs + gapMs} OR f.keys_at_ms
        <= ${nowMs}::bigint - least(${refreshMs}::bigint, (f.settings->>'max_key_age_s')::bigint * 1000 / 6))
    ORDER BY f.asked_at_ms LIMIT ${max}`;
  return rows.map(({ issuerId }) => issuerId);
}
