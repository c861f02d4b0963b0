import { InvariantError } from '../../shared/errors/assert.ts';
import type { FederatedIssuer, Federation, ForeignKey } from '../../shared/model/federation.ts';
import type { AccountId, IssuerId } from '../../shared/model/ids.ts';
import type { IssuerStatus } from '../../shared/model/issuer.ts';
import type { Mode } from '../../shared/model/mode.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import {
  type FederationSettings,
  parseStoredFederation,
  renderFederation,
} from '../../shared/wire/federation.ts';
import type { Database, Transaction } from '../base/database.ts';

/** An issuer of others as it is stored. */
export interface StoredFederation extends FederatedIssuer {
  readonly status: IssuerStatus;
  /** Why its keys could not be read the last time; null: they could. */
  readonly fault: string | null;
}

interface FederationRow {
  readonly issuerId: IssuerId;
  readonly accountId: AccountId;
  readonly mode: Mode;
  readonly version: number;
  readonly settings: FederationSettings;
  readonly keys: readonly ForeignKey[];
  readonly keysAtMs: UnixMillis | null;
  readonly fault: string | null;
  readonly status: IssuerStatus;
}

const columns = (sql: Database | Transaction) => sql`
  f.issuer_id AS "issuerId", f.account_id AS "accountId", f.mode, f.version, f.settings, f.keys,
  f.keys_at_ms AS "keysAtMs", f.fault, i.status`;

/** Rows were validated before they were written. */
function toFederation(row: FederationRow): StoredFederation {
  const { settings, ...rest } = row;
  try {
    return { ...rest, federation: parseStoredFederation(settings) };
  } catch (cause) {
    throw new InvariantError(`the federation of ${row.issuerId} can be read`, { cause });
  }
}

export async function insertFederation(tx: Transaction, issuer: FederatedIssuer): Promise<void> {
  await tx`
    INSERT INTO federations (issuer_id, account_id, mode, settings, keys, version, keys_at_ms, asked_at_ms)
    VALUES (${issuer.issuerId}, ${issuer.accountId}, ${issuer.mode}, ${settingsOf(issuer.federation)}::text::jsonb,
      ${JSON.stringify(issuer.keys)}::text::jsonb, ${issuer.version}, ${issuer.keysAtMs}, ${issuer.keysAtMs})`;
}

const settingsOf = (federation: Federation): string => JSON.stringify(renderFederation(federation));

/** Settings and keys of a locked issuer, as they are now. */
export async function updateFederation(tx: Transaction, issuer: FederatedIssuer): Promise<void> {
  await tx`
    UPDATE federations SET settings = ${settingsOf(issuer.federation)}::text::jsonb,
      keys = ${JSON.stringify(issuer.keys)}::text::jsonb, version = ${issuer.version},
      keys_at_ms = ${issuer.keysAtMs}, asked_at_ms = ${issuer.keysAtMs}, fault = NULL
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
    SELECT ${columns(sql)} FROM federations f JOIN issuers i USING (issuer_id) WHERE f.issuer_id = ${issuerId}`;
  return row === undefined ? null : toFederation(row);
}

export async function findFederations(
  sql: Database | Transaction,
  issuerIds: readonly IssuerId[],
): Promise<ReadonlyMap<IssuerId, StoredFederation>> {
  if (issuerIds.length === 0) return new Map();
  const rows = await sql<FederationRow[]>`
    SELECT ${columns(sql)} FROM federations f JOIN issuers i USING (issuer_id)
    WHERE f.issuer_id = ANY(${[...issuerIds]}::text[])`;
  return new Map(rows.map((row) => [row.issuerId, toFederation(row)]));
}

/** Those of the account, in both modes: what its tokens are compared with. */
export async function accountFederations(
  sql: Database | Transaction,
  accountId: AccountId,
): Promise<readonly StoredFederation[]> {
  const rows = await sql<FederationRow[]>`
    SELECT ${columns(sql)} FROM federations f JOIN issuers i USING (issuer_id)
    WHERE f.account_id = ${accountId}`;
  return rows.map(toFederation);
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
    SELECT f.issuer_id AS "issuerId" FROM federations f JOIN issuers i USING (issuer_id)
    WHERE ${isFree(sql, nowMs, gapMs)} AND i.status = 'active'
      AND (f.keys_at_ms > ${nowMs + gapMs} OR f.keys_at_ms
        <= ${nowMs}::bigint - least(${refreshMs}::bigint, (f.settings->>'max_key_age_s')::bigint * 1000 / 6))
    ORDER BY f.asked_at_ms LIMIT ${max}`;
  return rows.map(({ issuerId }) => issuerId);
}
