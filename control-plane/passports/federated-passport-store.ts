import { federatedTokenHash } from '../../shared/model/federation.ts';
import type { AccountId, IssuerId, PassportId, WalletId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import type { Mode } from '../../shared/model/mode.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { TrustTier } from '../../shared/model/trust-tier.ts';
import type { Random } from '../../shared/runtime/random.ts';
import type { GateConstraints } from '../../shared/wire/api/constraints.ts';
import type { Database, Transaction } from '../base/database.ts';
import { leavePlace } from './leave-place.ts';
import { adoptPassportEnd } from './unnamed-end-store.ts';

/** The passport of a subject of another issuer (contract §4). */
export interface SubjectPassport {
  readonly passportId: PassportId;
  readonly accountId: AccountId;
  readonly mode: Mode;
  readonly issuerId: IssuerId;
  readonly subject: string;
  /** As of its last token. Null: it was named before any token was seen, and keeps what it has. */
  readonly terms: {
    readonly permissions: readonly string[];
    readonly trustTier: TrustTier;
    readonly owner: string | null;
    /** In the public wire shape. */
    readonly constraints: GateConstraints;
  } | null;
}

/** A wallet that passports of an issuer come into when they are first seen, and since when it is this one. */
export interface DefaultWallet {
  readonly walletId: WalletId;
  readonly sinceMs: UnixMillis;
}

/**
 * Those of these issuers, held until the transaction ends. Before any passport is locked, in the order of
 * their ids.
 */
export async function holdDefaultWallets(
  tx: Transaction,
  issuerIds: readonly IssuerId[],
): Promise<ReadonlyMap<IssuerId, DefaultWallet>> {
  const rows = await tx<(DefaultWallet & { readonly issuerId: IssuerId })[]>`
    SELECT i.issuer_id AS "issuerId", w.wallet_id AS "walletId", i.wallet_since_ms AS "sinceMs"
    FROM issuers i JOIN wallets w ON w.wallet_id = i.wallet_id AND w.deleted_at_ms IS NULL
    WHERE i.issuer_id = ANY(${[...issuerIds]}::text[]) ORDER BY w.wallet_id FOR KEY SHARE OF w`;
  return new Map(rows.map(({ issuerId, ...wallet }) => [issuerId, wallet]));
}

/** What every row has that is inserted here; the key is only there because a row of a passport names one. */
interface Insertion {
  readonly signingKeyId: string;
  readonly nowMs: UnixMillis;
  readonly random: Random;
  readonly wallets: ReadonlyMap<IssuerId, DefaultWallet>;
}

/**
 * Whether the passports are there with exactly these terms: then nothing has to be written. In the order
 * given.
 */
export async function areKnown(
  sql: Database | Transaction,
  passports: readonly SubjectPassport[],
): Promise<readonly boolean[]> {
  const rows = await sql<{ passportId: PassportId; terms: string }[]>`
    SELECT passport_id AS "passportId",
      jsonb_build_array(permissions, trust_tier, owner, constraints)::text AS terms
    FROM passports WHERE passport_id = ANY(${passports.map(({ passportId }) => passportId)}::text[])`;
  const known = new Map(rows.map(({ passportId, terms }) => [passportId, terms]));
  return passports.map(({ passportId, terms }) => {
    const stored = known.get(passportId);
    if (stored === undefined || terms === null) return stored !== undefined;
    const { permissions, trustTier, owner, constraints } = terms;
    return sameJson(stored, [permissions, trustTier, owner, constraints]);
  });
}

const sameJson = (stored: string, wanted: unknown): boolean =>
  JSON.stringify(sorted(JSON.parse(stored))) === JSON.stringify(sorted(wanted));

/** jsonb keeps members in an order of its own. */
const sorted = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .toSorted(([one], [other]) => (one < other ? -1 : 1))
      .map(([name, member]) => [name, sorted(member)]),
  );
};

/** Those of these passports that are here. */
export async function knownPassports(tx: Transaction, ids: readonly string[]): Promise<ReadonlySet<string>> {
  const rows = await tx<{ id: string }[]>`
    SELECT passport_id AS id FROM passports WHERE passport_id = ANY(${[...ids]}::text[])`;
  return new Set(rows.map(({ id }) => id));
}

/** Inserts the passport, or brings its terms up to its last token. Its standing and its name stay. */
export async function putSubjectPassport(
  tx: Transaction,
  passport: SubjectPassport,
  made: Insertion,
): Promise<void> {
  const { passportId, terms } = passport;
  if (terms !== null) {
    const updated = await tx`
      UPDATE passports SET permissions = ${[...terms.permissions]}, trust_tier = ${terms.trustTier}, owner = ${terms.owner},
        constraints = ${JSON.stringify(terms.constraints)}::text::jsonb
      WHERE passport_id = ${passportId} AND token_hash = ${federatedTokenHash}`;
    if (updated.count > 0) return;
  }
  // Where the name belongs to another passport, a part of the own id follows it. A subject is any text, so
  // that name may be taken too, but not one that nobody can guess.
  const part = ` ${passportId.slice(-16)}`;
  const unguessable = Buffer.from(made.random.bytes(8)).toString('hex');
  for (const suffix of ['', part, `${part} ${unguessable}`]) {
    const name = passport.subject.slice(0, limits.foreignSubjectCharsMax - suffix.length);
    if (await insertSubject(tx, passport, made, `${name}${suffix}`))
      return adoptPassportEnd(tx, { ...passport, nowMs: made.nowMs });
    const [known] = await tx`SELECT FROM passports WHERE passport_id = ${passportId}`;
    if (known !== undefined) return;
  }
}

async function insertSubject(
  tx: Transaction,
  { passportId, accountId, mode, issuerId, subject, terms }: SubjectPassport,
  { signingKeyId, nowMs, wallets }: Insertion,
  agentId: string,
): Promise<boolean> {
  const inserted = await tx`
    INSERT INTO passports (passport_id, account_id, mode, issuer_id, agent_id, agent_name, subject, permissions,
      constraints, trust_tier, public_key, token_hash, signing_key_id, status, issued_at_ms, expires_at_ms, metadata, owner)
    VALUES (${passportId}, ${accountId}, ${mode}, ${issuerId}, ${agentId}, ${subject},
      ${JSON.stringify({ agent_id: agentId, subject })}::text::jsonb, ${[...(terms?.permissions ?? [])]},
      ${JSON.stringify(terms?.constraints ?? {})}::text::jsonb, ${terms?.trustTier ?? 'L1'}, '', ${federatedTokenHash},
      ${signingKeyId}, 'active', ${nowMs}, NULL, '{}'::jsonb, ${terms?.owner ?? null})
    ON CONFLICT DO NOTHING`;
  if (inserted.count !== 1) return false;
  const wallet = wallets.get(issuerId);
  // Sidecars ask for the wallets of each passport of such an issuer: none has to be told.
  if (wallet !== undefined) {
    await tx`
      INSERT INTO passport_wallets (passport_id, wallet_id, is_in_token, changed_at_ms)
      VALUES (${passportId}, ${wallet.walletId}, true, ${wallet.sinceMs})`;
    // Until a sidecar hears that its issuer has wallets, the passport is in none.
    await leavePlace(tx, passportId, { parentId: null, nowMs: wallet.sinceMs });
  }
  return true;
}
