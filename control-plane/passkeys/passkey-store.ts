import type { AccountId, PasskeyId, UserId } from '../../shared/model/ids.ts';
import type { Passkey } from '../../shared/model/passkey.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { Page, PagePlace } from '../../shared/wire/api/paging.ts';
import type { Database, Transaction } from '../base/database.ts';
import { readPage } from '../storage/read-page.ts';
import type { PublicCredential } from './ceremonies.ts';

/** A passkey that somebody has used, with its user, who is not disabled. */
export interface PresentedPasskey extends PublicCredential {
  readonly passkeyId: PasskeyId;
  readonly userId: UserId;
  readonly accountId: AccountId;
}

const columns = (sql: Database | Transaction) => sql`
  passkey_id AS "passkeyId", user_id AS "userId", credential_id AS "credentialId", name,
  created_at_ms AS "createdAtMs", last_used_at_ms AS "lastUsedAtMs"`;

export async function findPresentedPasskey(
  sql: Database | Transaction,
  credentialId: string,
): Promise<PresentedPasskey | null> {
  const [passkey] = await sql<PresentedPasskey[]>`
    SELECT passkey_id AS "passkeyId", user_id AS "userId", account_id AS "accountId",
      credential_id AS "credentialId", public_key AS "publicKey", counter, transports
    FROM passkeys JOIN users USING (user_id)
    WHERE credential_id = ${credentialId} AND NOT is_disabled`;
  return passkey ?? null;
}

/** Newest first; `passkeysLimits.passkeysPerUserMax` at most. */
export const listPasskeys = (sql: Database | Transaction, userId: UserId): Promise<readonly Passkey[]> =>
  sql<Passkey[]>`SELECT ${columns(sql)} FROM passkeys WHERE user_id = ${userId} ORDER BY passkey_id DESC`;

export const readPasskeys = (sql: Database, userId: UserId, page: PagePlace): Promise<Page<Passkey>> =>
  readPage(page, {
    count: () => sql<{ total: number }[]>`SELECT count(*) AS total FROM passkeys WHERE user_id = ${userId}`,
    rows: (limit) => sql<Passkey[]>`
      SELECT ${columns(sql)} FROM passkeys
      WHERE user_id = ${userId} ${page.behind === null ? sql`` : sql`AND passkey_id < ${page.behind}`}
      ORDER BY passkey_id DESC LIMIT ${limit} OFFSET ${page.offset}`,
    idOf: ({ passkeyId }) => passkeyId,
  });

/** False: the credential is registered already, for this user or another one. */
export async function insertPasskey(
  tx: Transaction,
  { passkeyId, userId, name, createdAtMs }: Passkey,
  { credentialId, publicKey, counter, transports }: PublicCredential,
): Promise<boolean> {
  const inserted = await tx`
    INSERT INTO passkeys (passkey_id, user_id, credential_id, public_key, counter, transports, name, created_at_ms)
    VALUES (${passkeyId}, ${userId}, ${credentialId}, ${Buffer.from(publicKey)}, ${counter},
      ${[...transports]}, ${name}, ${createdAtMs})
    ON CONFLICT (credential_id) DO NOTHING`;
  return inserted.count === 1;
}

/**
 * Records a use. False: the passkey is gone, or a concurrent login used this count. Authenticators without a
 * counter always show 0.
 */
export async function usePasskey(
  tx: Transaction,
  passkeyId: PasskeyId,
  { counter, nowMs }: { readonly counter: number; readonly nowMs: UnixMillis },
): Promise<boolean> {
  const used = await tx`
    UPDATE passkeys SET counter = ${counter}, last_used_at_ms = ${nowMs}
    WHERE passkey_id = ${passkeyId} AND (counter < ${counter} OR (counter = 0 AND ${counter}::bigint = 0))`;
  return used.count === 1;
}

export async function renamePasskey(tx: Transaction, passkeyId: PasskeyId, name: string): Promise<void> {
  await tx`UPDATE passkeys SET name = ${name} WHERE passkey_id = ${passkeyId}`;
}

export async function deletePasskey(tx: Transaction, passkeyId: PasskeyId): Promise<void> {
  await tx`DELETE FROM passkeys WHERE passkey_id = ${passkeyId}`;
}

/** Whether an identity provider lets the user in. */
export async function hasIdentity(tx: Transaction, userId: UserId): Promise<boolean> {
  return (await tx`SELECT FROM oidc_identities WHERE user_id = ${userId}`).count > 0;
}
