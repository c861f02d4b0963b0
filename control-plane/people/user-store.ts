import { must } from '../../shared/errors/assert.ts';
import type { AccountId, UserId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { Role, User } from '../../shared/model/user.ts';
import type { Page, PagePlace } from '../../shared/wire/paging.ts';
import type { Database, Transaction } from '../base/database.ts';
import { hasPart } from '../storage/has-part.ts';
import { readPage } from '../storage/read-page.ts';
import { peopleLimits } from './limits.ts';

/** A user with their credentials. */
export interface UserWithSecrets extends User {
  /** Null: no password was chosen yet. */
  readonly passwordHash: string | null;
}

const columns = (sql: Database | Transaction) => sql`
  user_id AS "userId", account_id AS "accountId", email, name, role, is_disabled AS "isDisabled",
  accepted_at_ms AS "acceptedAtMs", totp_confirmed_at_ms IS NOT NULL AS "totpEnabled",
  created_at_ms AS "createdAtMs", last_login_at_ms AS "lastLoginAtMs"`;

const secretColumns = (sql: Database | Transaction) => sql`${columns(sql)}, password_hash AS "passwordHash"`;

export async function findUser(sql: Database, accountId: AccountId, userId: UserId): Promise<User | null> {
  const [user] = await sql<User[]>`
    SELECT ${columns(sql)} FROM users WHERE user_id = ${userId} AND account_id = ${accountId}`;
  return user ?? null;
}

/** Those of the account among these, in no order. */
export const findUsers = (
  sql: Database | Transaction,
  accountId: AccountId,
  userIds: readonly UserId[],
): Promise<readonly User[]> =>
  sql<User[]>`
    SELECT ${columns(sql)} FROM users WHERE user_id = ANY(${[...userIds]}::text[]) AND account_id = ${accountId}`;

/** Active people of the account with one of these roles: as many as any gate can want. */
export const findApprovers = (
  sql: Database | Transaction,
  accountId: AccountId,
  roles: readonly Role[],
): Promise<readonly User[]> =>
  sql<User[]>`
    SELECT ${columns(sql)} FROM users
    WHERE account_id = ${accountId} AND role = ANY(${[...roles]}::text[]) AND NOT is_disabled
      AND accepted_at_ms IS NOT NULL
    LIMIT ${limits.approversCountMax}`;

export async function listUsers(
  sql: Database,
  accountId: AccountId,
  { namePart, page }: { readonly namePart: string | null; readonly page: PagePlace },
): Promise<Page<User>> {
  const where = sql`account_id = ${accountId} ${hasPart(sql, sql`concat_ws(chr(10), name, email)`, namePart)}`;
  return readPage(page, {
    count: () => sql<{ total: number }[]>`SELECT count(*) AS total FROM users WHERE ${where}`,
    rows: (limit) => sql<User[]>`
      SELECT ${columns(sql)} FROM users WHERE ${where} ${page.behind === null ? sql`` : sql`AND user_id < ${page.behind}`}
      ORDER BY user_id DESC LIMIT ${limit} OFFSET ${page.offset}`,
    idOf: ({ userId }) => userId,
  });
}

/** A user who may log in with a password. */
export interface LoginCandidate extends UserWithSecrets {
  readonly accountName: string;
}

/**
 * The users whose passwords are tried for this address: the oldest, so that later invitations of the address
 * cannot displace them.
 */
export const findLoginCandidates = (
  sql: Database,
  email: string,
  accountId: string | null,
): Promise<readonly LoginCandidate[]> =>
  sql<LoginCandidate[]>`
    SELECT u.*, a.name AS "accountName" FROM (
      SELECT ${secretColumns(sql)} FROM users
      WHERE email = ${email} AND NOT is_disabled AND password_hash IS NOT NULL
        ${accountId === null ? sql`` : sql`AND account_id = ${accountId}`}
      ORDER BY user_id LIMIT ${peopleLimits.loginCandidatesMax}
    ) u JOIN accounts a ON a.account_id = u."accountId" COLLATE "default"
    ORDER BY u."userId"`;

export async function findUserWithSecrets(
  sql: Database,
  accountId: AccountId,
  userId: UserId,
): Promise<UserWithSecrets | null> {
  const [user] = await sql<UserWithSecrets[]>`
    SELECT ${secretColumns(sql)} FROM users WHERE user_id = ${userId} AND account_id = ${accountId}`;
  return user ?? null;
}

export async function lockUser(
  tx: Transaction,
  accountId: AccountId,
  userId: UserId,
): Promise<UserWithSecrets | null> {
  const [user] = await tx<UserWithSecrets[]>`
    SELECT ${secretColumns(tx)} FROM users WHERE user_id = ${userId} AND account_id = ${accountId} FOR UPDATE`;
  return user ?? null;
}

/**
 * Locks the user with all owners of the account, in the order of their ids: if two owners demote each other,
 * the second call sees the first.
 */
export async function lockUserAndOwners(
  tx: Transaction,
  accountId: AccountId,
  userId: UserId,
): Promise<{ readonly user: UserWithSecrets | null; readonly otherActiveOwners: number }> {
  const users = await tx<UserWithSecrets[]>`
    SELECT ${secretColumns(tx)} FROM users
    WHERE account_id = ${accountId} AND (user_id = ${userId} OR role = 'owner')
    ORDER BY user_id FOR UPDATE`;
  const isOther = (each: User): boolean =>
    each.userId !== userId && each.role === 'owner' && !each.isDisabled && each.acceptedAtMs !== null;
  return {
    user: users.find((each) => each.userId === userId) ?? null,
    otherActiveOwners: users.filter(isOther).length,
  };
}

export async function countUsers(tx: Transaction, accountId: AccountId): Promise<number> {
  const [row] = await tx<{ total: number }[]>`
    SELECT count(*) AS total FROM users WHERE account_id = ${accountId}`;
  return must(row, 'a count has a row').total;
}

/** False: the address is taken in this account. */
export async function insertUser(tx: Transaction, user: User, passwordHash: string | null): Promise<boolean> {
  const inserted = await tx`
    INSERT INTO users (user_id, account_id, email, name, role, password_hash, accepted_at_ms, created_at_ms)
    VALUES (${user.userId}, ${user.accountId}, ${user.email}, ${user.name}, ${user.role}, ${passwordHash},
      ${user.acceptedAtMs}, ${user.createdAtMs})
    ON CONFLICT (account_id, email) DO NOTHING`;
  return inserted.count > 0;
}

export async function updateUserState(
  tx: Transaction,
  { userId, name, role, isDisabled, acceptedAtMs }: User,
): Promise<void> {
  await tx`
    UPDATE users SET name = ${name}, role = ${role}, is_disabled = ${isDisabled}, accepted_at_ms = ${acceptedAtMs}
    WHERE user_id = ${userId}`;
}

export async function setPassword(tx: Transaction, userId: UserId, passwordHash: string): Promise<void> {
  await tx`UPDATE users SET password_hash = ${passwordHash} WHERE user_id = ${userId}`;
}

export async function noteLogin(tx: Transaction, userId: UserId, nowMs: UnixMillis): Promise<void> {
  await tx`UPDATE users SET last_login_at_ms = ${nowMs} WHERE user_id = ${userId}`;
}

/** With their sessions and their invitation. */
export async function removeUser(tx: Transaction, userId: UserId): Promise<void> {
  await tx`DELETE FROM users WHERE user_id = ${userId}`;
}
