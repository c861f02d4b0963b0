import type { AccountId, PassportId, UserId } from '../../shared/model/ids.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { Transaction } from '../base/database.ts';

/**
 * The people behind a request: who issued the passport, and who made or rolled the key that asked; where keys
 * did that, who made those. By the audit, which keeps every maker. Sorted.
 */
export async function findRequesters(
  tx: Transaction,
  about: {
    /** Of the gate: people of other accounts answer nothing here. */
    readonly accountId: AccountId;
    /** One, or all of an owner. */
    readonly passports: PassportId | { readonly of: Owner; readonly owner: string };
    /** The key or person that asked; null: nothing has asked yet. */
    readonly askedBy: string | null;
  },
): Promise<readonly UserId[]> {
  const { passports } = about;
  const isOfThem =
    typeof passports === 'string'
      ? tx`target = ${passports}`
      : tx`target IN (SELECT passport_id FROM passports WHERE account_id = ${passports.of.accountId}
          AND mode = ${passports.of.mode} AND owner = ${passports.owner})`;
  const rows = await tx<{ userId: UserId }[]>`
    WITH RECURSIVE behind AS (
      SELECT actor_id AS id FROM audit_entries
      WHERE account_id = ${about.accountId} AND mode IN ('live', 'test') AND ${isOfThem}
        AND operation IN ('issuePassport', 'issuePassportUnattended')
      UNION
      SELECT ${about.askedBy}::text
      UNION
      SELECT made.actor_id FROM behind, LATERAL (
        SELECT actor_id FROM audit_entries
        WHERE account_id = ${about.accountId} AND mode IN ('live', 'test') AND target = behind.id
          AND operation = 'createApiKey'
        UNION ALL
        -- The entry of a roll is about the old key, and names the new one.
        SELECT actor_id FROM audit_entries
        WHERE account_id = ${about.accountId} AND mode IN ('live', 'test') AND operation = 'rollApiKey'
          AND after ->> 'key_id' = behind.id
      ) made
    )
    SELECT DISTINCT user_id AS "userId" FROM behind JOIN users ON user_id = id
    WHERE account_id = ${about.accountId} ORDER BY 1`;
  return rows.map(({ userId }) => userId);
}

/** The people whose email address or id is the owner of the passport, or this owner (contract §3). */
export async function findOwners(
  tx: Transaction,
  about: {
    readonly accountId: AccountId;
    readonly passportId: PassportId | null;
    readonly owner?: string | null;
  },
): Promise<readonly UserId[]> {
  const { accountId, passportId, owner = null } = about;
  const rows = await tx<{ userId: UserId }[]>`
    SELECT user_id AS "userId" FROM users u
    JOIN (SELECT owner FROM passports WHERE passport_id = ${passportId} UNION ALL SELECT ${owner}::text) AS named
      ON u.user_id = named.owner OR lower(u.email) = lower(named.owner)
    WHERE u.account_id = ${accountId} ORDER BY 1`;
  return rows.map(({ userId }) => userId);
}
