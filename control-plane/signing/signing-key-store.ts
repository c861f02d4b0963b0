import { must } from '../../shared/errors/assert.ts';
import { limits } from '../../shared/model/limits.ts';
import type { VerificationKey } from '../../shared/model/signing-key.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { Database, Transaction } from '../base/database.ts';
import { advisoryLocks } from '../storage/locks.ts';

export interface StoredSigningKey extends VerificationKey {
  /** Opens with MASTER_KEY alone; see sealed-signing-key.ts. */
  readonly sealedPrivateKey: string;
  readonly createdAtMs: UnixMillis;
}

/**
 * Held until the end of a transaction that adds keys, so that replicas create and rotate keys one after the
 * other.
 */
export async function lockSigningKeys(tx: Transaction): Promise<void> {
  await tx`SELECT pg_advisory_xact_lock(${advisoryLocks.signingKeys})`;
}

/** All of them, oldest first. */
export const readSigningKeys = (sql: Database | Transaction): Promise<StoredSigningKey[]> =>
  sql<StoredSigningKey[]>`
    SELECT kid, purpose, public_key AS "publicKey", sealed_private_key AS "sealedPrivateKey",
      not_before_ms AS "notBeforeMs", retired_at_ms AS "retiredAtMs", compromised, created_at_ms AS "createdAtMs"
    FROM (SELECT * FROM signing_keys UNION ALL SELECT * FROM log_keys) AS keys ORDER BY not_before_ms, kid`;

/** The version before would publish a purpose that its sidecars do not know. */
const tableOf = (tx: Transaction, { purpose }: VerificationKey) =>
  purpose === 'log' ? tx`log_keys` : tx`signing_keys`;

/** What the manifest of an export says of its keys and of its time. */
export interface ExportKeys {
  readonly keyIds: readonly string[];
  /**
   * `nowMs`, unless that is too early for a verifier to believe each key. It is after PostgreSQL's clock was
   * set back to before the start of a key that has signed by then.
   */
  readonly createdAtMs: UnixMillis;
}

/** From the export's own snapshot: a key that another replica has put into use meanwhile is among them. */
export async function readExportKeys(tx: Transaction, nowMs: UnixMillis): Promise<ExportKeys> {
  const rows = await tx<{ kid: string; notBeforeMs: UnixMillis }[]>`
    SELECT kid, not_before_ms AS "notBeforeMs" FROM signing_keys WHERE purpose = 'attestation'
    ORDER BY not_before_ms, kid`;
  const newest = must(rows.at(-1), 'each purpose has a key from the first start on');
  return {
    keyIds: rows.map(({ kid }) => kid),
    createdAtMs: Math.max(nowMs, newest.notBeforeMs - limits.notBeforeLeewayMs) as UnixMillis,
  };
}

export async function insertSigningKey(tx: Transaction, key: StoredSigningKey): Promise<void> {
  await tx`
    INSERT INTO ${tableOf(tx, key)} (kid, purpose, public_key, sealed_private_key, not_before_ms, retired_at_ms,
      compromised, created_at_ms)
    VALUES (${key.kid}, ${key.purpose}, ${key.publicKey}, ${key.sealedPrivateKey}, ${key.notBeforeMs},
      ${key.retiredAtMs}, ${key.compromised}, ${key.createdAtMs})`;
}

/** Writes how a key ends; nothing else of it ever changes. */
export async function endSigningKey(tx: Transaction, key: VerificationKey): Promise<void> {
  await tx`
    UPDATE ${tableOf(tx, key)} SET retired_at_ms = ${key.retiredAtMs}, compromised = ${key.compromised}
    WHERE kid = ${key.kid}`;
}

/** The public part of a key. */
export const publicHalf = (key: VerificationKey): VerificationKey => ({
  kid: key.kid,
  purpose: key.purpose,
  publicKey: key.publicKey,
  notBeforeMs: key.notBeforeMs,
  retiredAtMs: key.retiredAtMs,
  compromised: key.compromised,
});
