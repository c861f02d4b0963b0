import type { UnixMillis } from '../../shared/model/time.ts';
import type { Database, Transaction } from '../base/database.ts';
import { databaseNowMs } from '../storage/database-clock.ts';

/** A key of a sidecar that proves nothing any more. */
export interface RevokedKey {
  readonly kid: string;
  readonly revokedAtMs: UnixMillis;
}

/** Oldest first. As many as an operator has revoked, at most `signingKeysLimits.revokedKeysMax`. */
export const readRevokedKeys = (sql: Database | Transaction): Promise<RevokedKey[]> =>
  sql<RevokedKey[]>`
    SELECT kid, revoked_at_ms AS "revokedAtMs" FROM revoked_sidecar_keys ORDER BY revoked_at_ms, kid`;

export async function findRevokedKey(sql: Database | Transaction, kid: string): Promise<RevokedKey | null> {
  const [row] = await sql<RevokedKey[]>`
    SELECT kid, revoked_at_ms AS "revokedAtMs" FROM revoked_sidecar_keys WHERE kid = ${kid}`;
  return row ?? null;
}

/** Null: there are `max` already. Of two at once, both get the same. */
export async function insertRevokedKey(
  tx: Transaction,
  { kid, max }: { readonly kid: string; readonly max: number },
): Promise<RevokedKey | null> {
  await tx`
    INSERT INTO revoked_sidecar_keys (kid, revoked_at_ms)
    SELECT ${kid}, ${databaseNowMs(tx)} WHERE (SELECT count(*) FROM revoked_sidecar_keys) < ${max}
    ON CONFLICT (kid) DO NOTHING`;
  return findRevokedKey(tx, kid);
}
