import { federatedTokenHash, isFederated } from '../../shared/model/federation.ts';
import type { AccountId, PassportId } from '../../shared/model/ids.ts';
import type { Database, Transaction } from '../base/database.ts';

/** A passport, as far as it says who has seen its token. */
export interface ShownPassport {
  /** Of its token; of a passport of another issuer: `federatedTokenHash`. */
  readonly tokenHash: string;
  readonly accountId: AccountId;
  /** Other accounts whose sidecars have shown a token of it (`shownTo`). */
  readonly shownTo: readonly AccountId[] | null;
}

/** `ShownPassport.shownTo` of a row of `passports` with this name. */
export const shownTo = (sql: Database | Transaction, passports: 'p' | 'passports') => sql`
  CASE ${sql(passports)}.token_hash WHEN ${federatedTokenHash} THEN (
    SELECT array_agg(shown.account_id) FROM shown_passports shown
    WHERE shown.passport_id = ${sql(passports)}.passport_id) END`;

/**
 * Whether a sidecar of this account has seen a token of the passport. It shows the hash; of another issuer
 * every token of its subject shows the passport, to the sidecars of its own account, where what one of them
 * makes up stays, and to those of others once they have shown a token that verified.
 */
export const isShown = (
  { tokenHash, accountId: owner, shownTo: others }: ShownPassport,
  shownHash: string | null,
  accountId: AccountId,
): boolean =>
  isFederated(tokenHash)
    ? owner === accountId || others?.includes(accountId) === true
    : tokenHash === shownHash;

/** Sidecars of this account have shown tokens of these passports, which verified. */
export async function noteShown(
  sql: Database,
  accountId: AccountId,
  passportIds: readonly PassportId[],
): Promise<void> {
  if (passportIds.length === 0) return;
  await sql`
    INSERT INTO shown_passports (passport_id, account_id)
    SELECT passport_id, ${accountId} FROM unnest(${[...passportIds].sort()}::text[]) AS passport_id
    ON CONFLICT DO NOTHING`;
}
