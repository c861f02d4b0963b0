import { encodeBase64url } from '../../shared/crypto/base64url.ts';
import { must } from '../../shared/errors/assert.ts';
import type { AccountStatus } from '../../shared/model/account.ts';
import { type IdDigest, idDigestBytes } from '../../shared/model/id-digest.ts';
import type { AccountId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import { dayMs, type UnixMillis } from '../../shared/model/time.ts';
import { globalFeed, syncVersion } from '../../shared/wire/sync.ts';
import type {
  ApiKeyBody,
  GateBody,
  PassportStandingGroup,
  SignedSnapshot,
  Snapshot,
} from '../../shared/wire/sync-schema.ts';
import { signSnapshot } from '../../shared/wire/sync-signature.ts';
import type { Transaction } from '../base/database.ts';
import type { SigningDeps } from '../signing/deps.ts';
import { publicHalf, readSigningKeys } from '../signing/signing-key-store.ts';
import { databaseNowMs } from '../storage/database-clock.ts';
import { readHeads, readMark } from './feed-store.ts';

/**
 * The full state for a sidecar of this account, from one REPEATABLE READ transaction, so it is exactly the
 * result of the changes up to the named revisions. Covers both modes, because a sidecar serves all gates of
 * its account.
 */
export async function takeSnapshot(
  deps: Pick<SigningDeps, 'sql' | 'signingKeys'>,
  accountId: AccountId,
): Promise<SignedSnapshot> {
  const snapshot = await deps.sql.begin('ISOLATION LEVEL REPEATABLE READ READ ONLY', (tx) =>
    readSnapshot(tx, deps, accountId),
  );
  // The snapshot may know of a compromised key before this replica does.
  const isBelieved = (kid: string) =>
    snapshot.signing_keys.some((key) => key.kid === kid && !key.compromised);
  const keys = deps.signingKeys.vouching('sync').filter(({ kid }) => isBelieved(kid));
  return signSnapshot(keys, JSON.stringify(snapshot));
}

async function readSnapshot(
  tx: Transaction,
  { signingKeys }: Pick<SigningDeps, 'signingKeys'>,
  accountId: AccountId,
): Promise<Snapshot> {
  const [clock] = await tx<{ nowMs: UnixMillis }[]>`SELECT ${databaseNowMs(tx)} AS "nowMs"`;
  const takenAtMs = must(clock, 'a clock shows a time').nowMs;
  const heads = await readHeads(tx, accountId);
  const [account] = await tx<{ status: AccountStatus }[]>`
    SELECT status FROM accounts WHERE account_id = ${accountId}`;
  const gates = await tx<GateBody[]>`
    SELECT gate_id, account_id, mode, version, policy_version, trust_level, constraints, routes, catalog_prices AS catalog, catalog_approvals
    FROM gates
    WHERE account_id = ${accountId} AND deleted_at_ms IS NULL ORDER BY gate_id`;
  const apiKeys = await tx<ApiKeyBody[]>`
    SELECT key_id, key_hash, mode, scopes, expires_at_ms FROM api_keys
    WHERE account_id = ${accountId} AND revoked_at_ms IS NULL
      AND (expires_at_ms IS NULL OR expires_at_ms > ${takenAtMs}) ORDER BY key_id`;
  const standings = await readStandings(tx, takenAtMs);
  const issuers = await tx<{ digest: Uint8Array }[]>`
    SELECT ${digestOf(tx, 'issuer_id')} AS digest FROM issuers WHERE status = 'suspended' ORDER BY digest`;
  const accounts = await tx<{ digest: Uint8Array }[]>`
    SELECT ${digestOf(tx, 'account_id')} AS digest FROM accounts WHERE status = 'suspended' ORDER BY digest`;
  // Read from the database: memory may lack a key that another replica has just created.
  const keys = signingKeys.sound(await readSigningKeys(tx));
  return {
    sync_version: syncVersion,
    account_id: accountId,
    account_revision: heads.account,
    account_mark: await readMark(tx, accountId, heads.account),
    global_revision: heads.global,
    global_mark: await readMark(tx, globalFeed, heads.global),
    account_status: must(account?.status, 'the account of an authenticated caller is there'),
    gates,
    api_keys: apiKeys,
    passport_standings: standings,
    suspended_issuers: issuers.map(({ digest }) => encodeBase64url(digest) as IdDigest),
    suspended_accounts: accounts.map(({ digest }) => encodeBase64url(digest) as IdDigest),
    signing_keys: keys.map(publicHalf),
    taken_at_ms: takenAtMs,
  };
}

/** `idDigest` in SQL, so that a million ids need not be fetched to be hashed. */
const digestOf = (tx: Transaction, column: 'passport_id' | 'issuer_id' | 'account_id') =>
  tx`substring(sha256(convert_to(${tx(column)}, 'UTF8')) FOR ${idDigestBytes}::int)`;

async function readStandings(tx: Transaction, nowMs: UnixMillis): Promise<PassportStandingGroup[]> {
  // A passport marked as expired gave up its agent_id and may have been suspended before; a sidecar with a
  // slow clock must not treat it as active.
  const groups = await tx<(Omit<PassportStandingGroup, 'passports'> & { digests: Uint8Array })[]>`
    SELECT CASE status WHEN 'expired' THEN 'revoked' ELSE status END AS standing,
      ceil(expires_at_ms / ${dayMs}::numeric)::bigint AS expired_by_day,
      string_agg(${digestOf(tx, 'passport_id')}, ''::bytea ORDER BY ${digestOf(tx, 'passport_id')}) AS digests
    FROM passports
    WHERE status IN ('suspended', 'revoked', 'expired') AND (expires_at_ms IS NULL OR expires_at_ms > ${nowMs - limits.standingKeptMs})
    GROUP BY 1, 2`;
  return groups.map(({ standing, expired_by_day, digests }) => ({
    standing,
    expired_by_day,
    passports: encodeBase64url(digests),
  }));
}
