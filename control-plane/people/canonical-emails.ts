import type { AccountId, UserId } from '../../shared/model/ids.ts';
import { canonicalEmail } from '../../shared/wire/api/email.ts';
import type { Database } from '../base/database.ts';
import type { BaseDeps } from '../base/deps.ts';
import { isUniqueViolation } from '../storage/unique-violation.ts';
import { peopleLimits } from './limits.ts';

interface KeptAddress {
  readonly userId: UserId;
  readonly accountId: AccountId;
  readonly email: string;
}

/**
 * Canonicalises addresses from before there was a canonical form, at each start. If two users would get one
 * address, neither is changed, merged or renamed. A user with a non-canonical address cannot log in with a
 * password; a passkey or a linked identity still works.
 */
export async function canonicalizeEmails({ sql, logger }: Pick<BaseDeps, 'sql' | 'logger'>): Promise<void> {
  const unusual = await findUnusual(sql);
  const wanted = unusual.map((user) => ({ user, parsed: canonicalEmail(user.email) }));
  const owners = new Map<string, number>();
  const place = ({ accountId }: KeptAddress, email: string) => `${accountId} ${email}`;
  for (const { user, parsed } of wanted) {
    if ('fault' in parsed) continue;
    owners.set(place(user, parsed.email), (owners.get(place(user, parsed.email)) ?? 0) + 1);
  }
  for (const { user, parsed } of wanted) {
    const isAlone = 'email' in parsed && owners.get(place(user, parsed.email)) === 1;
    if ('email' in parsed && parsed.email === user.email) continue;
    if (isAlone && (await moveTo(sql, user, parsed.email))) continue;
    // Another control plane that starts may have moved it, and the user may be deleted meanwhile.
    if (!(await hasStill(sql, user))) continue;
    logger.warn(
      { user_id: user.userId, account_id: user.accountId, failure: isAlone ? 'taken' : 'not canonical' },
      'the email address of this user is not in its canonical form, so it opens nothing: delete the user and invite them again',
    );
  }
}

/** Addresses with unusual characters or an encoded label, which are few. */
const findUnusual = (sql: Database): Promise<readonly KeptAddress[]> =>
  sql<KeptAddress[]>`
    SELECT user_id AS "userId", account_id AS "accountId", email FROM users
    WHERE email !~ '^[a-z0-9!#$%&''*+/=?^_\`{|}~.-]+@[a-z0-9-]+([.][a-z0-9-]+)*$' OR email LIKE '%xn--%'
    ORDER BY user_id LIMIT ${peopleLimits.unusualEmailsMax}`;

/** False: another user of the account has that address. */
async function moveTo(sql: Database, { userId, accountId, email }: KeptAddress, canonical: string) {
  const moved = await sql`
    UPDATE users SET email = ${canonical}
    WHERE user_id = ${userId} AND email = ${email}
      AND NOT EXISTS (SELECT FROM users WHERE account_id = ${accountId} AND email = ${canonical})`.catch(
    (error: unknown) => {
      // It was invited concurrently.
      if (isUniqueViolation(error, /^users_account_id_email_key$/)) return { count: 0 };
      throw error;
    },
  );
  return moved.count > 0;
}

async function hasStill(sql: Database, { userId, email }: KeptAddress): Promise<boolean> {
  const kept = await sql`SELECT FROM users WHERE user_id = ${userId} AND email = ${email}`;
  return kept.count > 0;
}
