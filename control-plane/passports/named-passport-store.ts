import type { PassportFacts, VerifiedPassport } from '../../shared/decision/facts.ts';
import { federatedTokenHash } from '../../shared/model/federation.ts';
import { type AccountId, type IssuerId, isId, type PassportId } from '../../shared/model/ids.ts';
import type { IssuerStatus } from '../../shared/model/issuer.ts';
import { limits } from '../../shared/model/limits.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { PassportStatus } from '../../shared/model/passport.ts';
import type { PermissionKey } from '../../shared/model/permission.ts';
import { toSeconds, type UnixMillis } from '../../shared/model/time.ts';
import type { TrustTier } from '../../shared/model/trust-tier.ts';
import { compileKnownPassport } from '../../shared/verification/compile-known-passport.ts';
import type { Database, Transaction } from '../base/database.ts';
import { distinct } from '../storage/distinct.ts';
import { readStoredConstraints } from '../storage/stored-constraints.ts';
import { readTogether } from '../storage/together.ts';

/** A passport as its row has it, without its token. */
export type NamedPassport = Extract<PassportFacts, { kind: 'verified' }>;

interface NamedRow {
  readonly passportId: PassportId;
  readonly accountId: AccountId;
  readonly mode: Owner['mode'];
  readonly issuerId: IssuerId;
  readonly agentId: string;
  readonly permissions: readonly PermissionKey[];
  readonly constraints: unknown;
  readonly trustTier: TrustTier;
  readonly status: PassportStatus;
  readonly issuerStatus: IssuerStatus;
  readonly isKeyCompromised: boolean;
  readonly owner: string | null;
  readonly user: string | null;
  readonly tokenHash: string;
  readonly keyId: string;
  readonly publicKey: string;
  readonly hasWallet: boolean;
  readonly issuedAtMs: UnixMillis;
  readonly expiresAtMs: UnixMillis | null;
}

const columns = (sql: Database | Transaction) => sql`
  p.passport_id AS "passportId", p.account_id AS "accountId", p.mode, p.issuer_id AS "issuerId",
  p.agent_id AS "agentId", p.permissions, p.constraints, p.trust_tier AS "trustTier", p.status,
  i.status AS "issuerStatus", k.compromised AS "isKeyCompromised", p.token_hash AS "tokenHash",
  p.signing_key_id AS "keyId", p.public_key AS "publicKey", p.issued_at_ms AS "issuedAtMs", p.expires_at_ms AS "expiresAtMs",
  p.owner, p.for_user AS "user",
  EXISTS (SELECT FROM passport_wallets w WHERE w.passport_id = p.passport_id AND w.wallet_id IS NOT NULL) AS "hasWallet"`;

/** What a passport of an issuer of others may do is in its token alone: without it, it is unknown. */
const joins = (sql: Database | Transaction) => sql`
  JOIN issuers i ON i.issuer_id = p.issuer_id AND p.token_hash <> ${federatedTokenHash}
  JOIN signing_keys k ON k.kid = p.signing_key_id`;

/**
 * The owner's passports with these names: a passport_id, or else the agent_id of the one that is in use, or
 * was last. Unknown names are left out.
 */
export async function findNamedPassports(
  sql: Database | Transaction,
  { accountId, mode }: Owner,
  names: readonly string[],
): Promise<ReadonlyMap<string, NamedPassport>> {
  const all = distinct(names.filter(mayExist));
  if (all.length === 0) return new Map();
  const ids = all.filter((name) => isId('pass', name));
  const agents = all.filter((name) => !isId('pass', name));
  const [byId, byAgent] = await readTogether(sql, [
    sql<NamedRow[]>`
      SELECT ${columns(sql)} FROM passports p ${joins(sql)}
      WHERE p.passport_id = ANY(${ids}::text[]) AND p.account_id = ${accountId} AND p.mode = ${mode}`,
    sql<NamedRow[]>`
      SELECT ${columns(sql)} FROM unnest(${agents}::text[]) AS asked (agent_id)
      CROSS JOIN LATERAL (
        SELECT * FROM passports
        WHERE account_id = ${accountId} AND mode = ${mode} AND passports.agent_id = asked.agent_id
        ORDER BY status IN ('active', 'suspended') DESC, passport_id DESC LIMIT 1
      ) p ${joins(sql)}`,
  ]);
  return new Map([
    ...byId.map((row) => [row.passportId, toNamed(row)] as const),
    ...byAgent.map((row) => [row.agentId, toNamed(row)] as const),
  ]);
}

/** PostgreSQL's text holds no U+0000, and a query with it fails for all whom it is for. */
const mayExist = (name: string): boolean => name.length <= limits.nameCharsMax && !name.includes('\0');

/**
 * The owner's passports that are in use at that moment and have one of these permissions, by ascending id.
 */
export async function listPassportsWith(
  sql: Database,
  { accountId, mode }: Owner,
  asked: {
    readonly permissions: readonly string[];
    readonly after: string;
    readonly max: number;
    readonly nowMs: UnixMillis;
  },
): Promise<readonly NamedPassport[]> {
  const rows = await sql<NamedRow[]>`
    SELECT ${columns(sql)} FROM passports p ${joins(sql)}
    WHERE p.account_id = ${accountId} AND p.mode = ${mode} AND p.passport_id > ${asked.after}
      AND p.status = 'active' AND (p.expires_at_ms IS NULL OR p.expires_at_ms > ${asked.nowMs})
      AND p.permissions && ${[...asked.permissions]}::text[]
    ORDER BY p.passport_id LIMIT ${asked.max}`;
  return rows.map(toNamed);
}

function toNamed({ status, ...row }: NamedRow): NamedPassport {
  const passport: VerifiedPassport = compileKnownPassport({
    ...row,
    constraints: readStoredConstraints(row.constraints, 'passport'),
    notBeforeS: toSeconds(row.issuedAtMs),
    expiresAtS: row.expiresAtMs === null ? null : toSeconds(row.expiresAtMs),
  });
  return {
    kind: 'verified',
    passport,
    standing: {
      // As in knownPassport: marked expired to free its agent_id, which is final.
      status: status === 'expired' ? 'revoked' : status,
      isIssuerSuspended: row.issuerStatus === 'suspended',
      // The caller's own account, or it would not have been served.
      isAccountSuspended: false,
      isKeyCompromised: row.isKeyCompromised,
      isInWallet: false,
      stateAgeMs: 0,
    },
  };
}
