import type { Database } from '../../control-plane/base/database.ts';
import { signPassport } from '../../control-plane/passports/sign-passport.ts';
import { loadSigningKeys } from '../../control-plane/signing/load-signing-keys.ts';
import { chooseEd25519 } from '../../shared/crypto/choose-ed25519.ts';
import { sha256Hex } from '../../shared/crypto/content-hash.ts';
import { sealer } from '../../shared/crypto/seal.ts';
import { must } from '../../shared/errors/assert.ts';
import type { AccountId, IssuerId } from '../../shared/model/ids.ts';
import type { Passport } from '../../shared/model/passport.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { systemClock } from '../../shared/runtime/clock.ts';
import { systemRandom } from '../../shared/runtime/random.ts';
import { noConstraints } from '../../shared/wire/api/constraints.ts';
import type { ControlPlane } from './installation.ts';

const rowsPerInsert = 10_000;
const validMs = 90 * 24 * 3_600_000;

/**
 * Issues passports with `orders:create` without the API, which would take minutes: signs them here with the
 * installation's key and inserts the rows. Returns their tokens.
 */
export async function issuePassports(installation: ControlPlane, count: number): Promise<readonly string[]> {
  const sql = installation.openDatabase();
  try {
    const template = await templateOf(installation, sql);
    const random = systemRandom();
    const ed25519 = chooseEd25519();
    const signingKeys = await loadSigningKeys({
      ...{ sql, clock: systemClock, random, ed25519 },
      sealer: sealer(installation.masterKey),
    });
    const key = signingKeys.current('passport');
    const tokens: string[] = [];
    for (let from = 0; from < count; from += rowsPerInsert) {
      const rows = Array.from({ length: Math.min(rowsPerInsert, count - from) }, () => {
        const passportId = random.newId('pass', template.issuedAtMs);
        const agentId = passportId.replace('pass_', 'agent_');
        const token = signPassport({ ...template, passportId, agentId, agentName: agentId }, key);
        tokens.push(token);
        return { passportId, agentId, tokenHash: sha256Hex(token) };
      });
      await insertLike(sql, template.passportId, rows);
    }
    return tokens;
  } finally {
    await sql.end({ timeout: 1 });
  }
}

/** A passport that the API has issued, for what all have in common. */
async function templateOf(installation: ControlPlane, sql: Database): Promise<Passport> {
  const agentId = `template-${Date.now()}`;
  const issued = await installation.api('POST', '/passports', {
    ...{ agent_id: agentId, permissions: ['orders:create'] },
  });
  const [row] = await sql<
    { accountId: AccountId; issuerId: IssuerId; publicKey: string; issuedAtMs: number }[]
  >`
    SELECT account_id AS "accountId", issuer_id AS "issuerId", public_key AS "publicKey", issued_at_ms AS "issuedAtMs"
    FROM passports WHERE passport_id = ${String(issued['passport_id'])}`;
  const { accountId, issuerId, publicKey, issuedAtMs } = must(row, 'a passport was issued');
  return {
    passportId: String(issued['passport_id']) as Passport['passportId'],
    ...{ accountId, issuerId, publicKey, agentId, agentName: agentId },
    ...{ mode: 'live', issuerDomain: null, owner: null, user: null, isFederated: false, suspendedBy: [] },
    ...{ subject: { agent_id: agentId }, trustTier: 'L1' },
    permissions: ['orders:create'] as unknown as Passport['permissions'],
    constraints: noConstraints,
    walletId: null,
    ...{ status: 'active', revokedAtMs: null, revocationReason: null, revokedBy: null },
    issuedAtMs: issuedAtMs as UnixMillis,
    expiresAtMs: (Math.floor((issuedAtMs + validMs) / 1_000) * 1_000) as UnixMillis,
    ...{ metadata: {}, useCount: 0, lastUsedAtMs: null },
  };
}

/** All but ids and token as in the template's row. */
async function insertLike(
  sql: Database,
  templateId: string,
  rows: readonly { readonly passportId: string; readonly agentId: string; readonly tokenHash: string }[],
): Promise<void> {
  await sql`
    INSERT INTO passports (passport_id, account_id, mode, issuer_id, agent_id, agent_name, subject, permissions,
      constraints, trust_tier, public_key, token_hash, signing_key_id, status, issued_at_ms, expires_at_ms, metadata)
    SELECT new.passport_id, p.account_id, p.mode, p.issuer_id, new.agent_id, new.agent_id,
      jsonb_build_object('agent_id', new.agent_id), p.permissions, p.constraints, p.trust_tier, p.public_key,
      new.token_hash, p.signing_key_id, p.status, p.issued_at_ms, p.expires_at_ms, p.metadata
    FROM passports p, unnest(${rows.map(({ passportId }) => passportId)}::text[],
      ${rows.map(({ agentId }) => agentId)}::text[], ${rows.map(({ tokenHash }) => tokenHash)}::text[])
      AS new (passport_id, agent_id, token_hash)
    WHERE p.passport_id = ${templateId}`;
}

/**
 * Inserts revoked passports without tokens; a sidecar started afterwards has them in its snapshot.
 */
export async function addRevocations(installation: ControlPlane, count: number): Promise<void> {
  const sql = installation.openDatabase();
  try {
    const { passportId } = await templateOf(installation, sql);
    const [{ before } = { before: 0 }] = await sql<
      { before: number }[]
    >`SELECT count(*) AS before FROM passports`;
    for (let from = before; from < before + count; from += rowsPerInsert) {
      const last = Math.min(from + rowsPerInsert, before + count) - 1;
      await insertRevoked(sql, passportId, { from, last });
    }
  } finally {
    await sql.end({ timeout: 1 });
  }
}

/** Revoked passports like the one of the template, with numbers in their ids; nothing is announced. */
export async function insertRevoked(
  sql: Database,
  templateId: string,
  { from, last }: { readonly from: number; readonly last: number },
): Promise<void> {
  // They end on 89 different days, as passports would that were issued over a quarter.
  await sql`
    INSERT INTO passports (passport_id, account_id, mode, issuer_id, agent_id, agent_name, subject, permissions,
      constraints, trust_tier, public_key, token_hash, signing_key_id, status, issued_at_ms, expires_at_ms,
      revoked_at_ms, revocation_reason, metadata)
    SELECT 'pass_' || lpad(to_hex(number), 26, '0'), p.account_id, p.mode, p.issuer_id, 'agent-' || number,
      'agent', p.subject, p.permissions, p.constraints, p.trust_tier, p.public_key, p.token_hash, p.signing_key_id,
      'revoked', p.issued_at_ms, p.expires_at_ms - (number % 89) * 86400000, p.issued_at_ms, 'unspecified', p.metadata
    FROM passports p, generate_series(${from}::bigint, ${last}::bigint) AS number
    WHERE p.passport_id = ${templateId}`;
}
