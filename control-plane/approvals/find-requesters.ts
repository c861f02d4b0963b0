import { type AccountId, isId, type PassportId, type UserId } from '../../shared/model/ids.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { Transaction } from '../base/database.ts';
import { findOnePeople, makersOf } from '../people/one-people.ts';

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
    /** With those who are one person with them at that time; null: they alone. */
    readonly independentAtMs: UnixMillis | null;
  },
): Promise<readonly UserId[]> {
  const { passports } = about;
  const isOfThem =
    typeof passports === 'string'
      ? tx`target = ${passports}`
      : tx`target IN (SELECT passport_id FROM passports WHERE account_id = ${passports.of.accountId}
          AND mode = ${passports.of.mode} AND owner = ${passports.owner})`;
  const rows = await tx<{ id: string }[]>`
    WITH RECURSIVE behind AS (
      SELECT actor_id AS id FROM audit_entries
      WHERE account_id = ${about.accountId} AND mode IN ('live', 'test') AND ${isOfThem}
        AND operation IN ('issuePassport', 'issuePassportUnattended')
      UNION
      SELECT ${about.askedBy}::text
      UNION
      SELECT made.maker FROM behind, LATERAL (${makersOf(tx, about.accountId, tx`behind.id`)}) made
    )
    SELECT id FROM behind WHERE id IS NOT NULL`;
  const askers = rows.map(({ id }) => id);
  const nowMs = about.independentAtMs;
  const all =
    nowMs === null
      ? askers
      : (await findOnePeople(tx, about.accountId, { nowMs, askers })).allOneWith(askers);
  return all.filter((id) => isId('usr', id)).sort();
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
