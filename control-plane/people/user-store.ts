import { must } from '../../shared/errors/assert.ts';
import type { AccountId, UserId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { type User, userStatusOf } from '../../shared/model/user.ts';
import type { Page, PagePlace } from '../../shared/wire/api/paging.ts';
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
  created_at_ms AS "createdAtMs", last_login_at_ms AS "lastLoginAtMs", invited_by AS "invitedBy",
  came_by AS "cameBy", confirmed_at_ms AS "confirmedAtMs"`;

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

/** The active people of the account who answer approvals as far as their role lets them. */
export const findConfirmed = (sql: Database | Transaction, accountId: AccountId): Promise<readonly User[]> =>
  sql<User[]>`
    SELECT ${columns(sql)} FROM users
    WHERE account_id = ${accountId} AND NOT is_disabled AND confirmed_at_ms IS NOT NULL
    LIMIT ${peopleLimits.usersPerAccountMax}`;

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
 * Locks the user with all owners and admins of the account, in the order of their ids: if two owners demote
 * each other, the second call sees the first. `others`: those who are active.
 */
export async function lockUserAndManagers(
  tx: Transaction,
  accountId: AccountId,
  userId: UserId,
): Promise<{ readonly user: User | null; readonly others: readonly User[] }> {
  const users = await tx<User[]>`
    SELECT ${columns(tx)} FROM users
    WHERE account_id = ${accountId} AND (user_id = ${userId} OR role IN ('owner', 'admin'))
    ORDER BY user_id FOR UPDATE`;
  return {
    user: users.find((each) => each.userId === userId) ?? null,
    others: users.filter((each) => each.userId !== userId && userStatusOf(each) === 'active'),
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
    INSERT INTO users (user_id, account_id, email, name, role, password_hash, accepted_at_ms, created_at_ms,
      invited_by, came_by, confirmed_at_ms)
    VALUES (${user.userId}, ${user.accountId}, ${user.email}, ${user.name}, ${user.role}, ${passwordHash},
      ${user.acceptedAtMs}, ${user.createdAtMs}, ${user.invitedBy}, ${user.cameBy}, ${user.confirmedAtMs})
    ON CONFLICT (account_id, email) DO NOTHING`;
  return inserted.count > 0;
}

export async function updateUserState(
  tx: Transaction,
  { userId, name, role, isDisabled, acceptedAtMs, invitedBy, cameBy, confirmedAtMs }: User,
): Promise<void> {
  await tx`
    UPDATE users SET name = ${name}, role = ${role}, is_disabled = ${isDisabled}, accepted_at_ms = ${acceptedAtMs},
      invited_by = ${invitedBy}, came_by = ${cameBy}, confirmed_at_ms = ${confirmedAtMs}
    WHERE user_id = ${userId}`;
}

/** Whether the account has no person yet, or one who is confirmed has invited this one. */
export async function isVouchedFor(
  tx: Transaction,
  { accountId, userId, invitedBy }: User,
): Promise<boolean> {
  const [row] = await tx<{ isVouchedFor: boolean }[]>`
    SELECT coalesce(
      bool_or(user_id IS NOT DISTINCT FROM ${invitedBy} AND confirmed_at_ms IS NOT NULL AND NOT is_disabled), true)
      AS "isVouchedFor"
    FROM users WHERE account_id = ${accountId} AND user_id <> ${userId} AND accepted_at_ms IS NOT NULL`;
  return must(row, 'an aggregate has a row').isVouchedFor;
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
