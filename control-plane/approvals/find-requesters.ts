import type { AccountId, PassportId, UserId } from '../../shared/model/ids.ts';
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
    readonly passportId: PassportId;
    /** The key or person that asked. */
    readonly askedBy: string;
  },
): Promise<readonly UserId[]> {
  const rows = await tx<{ userId: UserId }[]>`
    WITH RECURSIVE behind AS (
      SELECT actor_id AS id FROM audit_entries
      WHERE account_id = ${about.accountId} AND mode IN ('live', 'test') AND target = ${about.passportId}
        AND operation IN ('issuePassport', 'issuePassportUnattended')
      UNION
      SELECT ${about.askedBy}
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

/** The person whose email address or id is the owner of the passport (contract §3). */
export async function findOwners(
  tx: Transaction,
  about: { readonly accountId: AccountId; readonly passportId: PassportId },
): Promise<readonly UserId[]> {
  const rows = await tx<{ userId: UserId }[]>`
    SELECT u.user_id AS "userId" FROM passports p
    JOIN users u ON u.account_id = ${about.accountId} AND (u.user_id = p.owner OR lower(u.email) = lower(p.owner))
    WHERE p.passport_id = ${about.passportId} ORDER BY 1`;
  return rows.map(({ userId }) => userId);
}
