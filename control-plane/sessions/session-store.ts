import type { AccountStatus, Plan, PlanLimits } from '../../shared/model/account.ts';
import { planLimitsOf } from '../../shared/model/account.ts';
import type { AccountId, SessionId, UserId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { Role, User } from '../../shared/model/user.ts';
import type { Page, PagePlace } from '../../shared/wire/api/paging.ts';
import type { Database, Transaction } from '../base/database.ts';
import { readPage } from '../storage/read-page.ts';
import { sessionsLimits } from './limits.ts';

/** A session as its row has it. */
export interface Session {
  readonly sessionId: SessionId;
  readonly userId: UserId;
  readonly userAgent: string | null;
  readonly createdAtMs: UnixMillis;
  readonly lastSeenAtMs: UnixMillis;
  readonly expiresAtMs: UnixMillis;
}

/** A presented session, with the facts that decide whether it may be used. */
export interface PresentedSession extends Session {
  readonly user: User;
  readonly accountName: string;
  readonly accountStatus: AccountStatus;
  readonly plan: Plan;
  readonly isOperatorAccount: boolean;
  readonly planLimits: PlanLimits;
}

interface PresentedRow extends Session, PlanLimits, Omit<User, 'isDisabled'> {
  readonly userCreatedAtMs: UnixMillis;
  readonly accountName: string;
  readonly accountStatus: AccountStatus;
  readonly plan: Plan;
  readonly isOperatorAccount: boolean;
}

/** Sessions of disabled users are not found. Does not check expiry. */
export async function findPresentedSession(
  sql: Database,
  tokenHash: string,
): Promise<PresentedSession | null> {
  const [row] = await sql<PresentedRow[]>`
    SELECT s.session_id AS "sessionId", s.user_id AS "userId", s.user_agent AS "userAgent",
      s.created_at_ms AS "createdAtMs", s.last_seen_at_ms AS "lastSeenAtMs", s.expires_at_ms AS "expiresAtMs",
      u.account_id AS "accountId", u.email, u.name, u.role, u.accepted_at_ms AS "acceptedAtMs",
      u.totp_confirmed_at_ms IS NOT NULL AS "totpEnabled", u.created_at_ms AS "userCreatedAtMs",
      u.last_login_at_ms AS "lastLoginAtMs", u.invited_by AS "invitedBy", u.came_by AS "cameBy",
      u.confirmed_at_ms AS "confirmedAtMs", a.name AS "accountName", a.status AS "accountStatus", a.plan,
      a.is_operator AS "isOperatorAccount", a.requests_per_minute AS "requestsPerMinute",
      a.requests_per_day AS "requestsPerDay"
    FROM sessions s JOIN users u USING (user_id)
    JOIN accounts a ON a.account_id = u.account_id COLLATE "default"
    WHERE s.token_hash = ${tokenHash} AND NOT u.is_disabled`;
  if (row === undefined) return null;
  const { plan, requestsPerMinute, requestsPerDay } = row;
  return {
    ...row,
    user: { ...row, isDisabled: false, createdAtMs: row.userCreatedAtMs },
    planLimits: planLimitsOf({ plan, limits: { requestsPerMinute, requestsPerDay } }),
  };
}

/** Writes nothing if another replica recorded a later request. */
export async function touchSession(sql: Database, sessionId: SessionId, nowMs: UnixMillis): Promise<void> {
  await sql`
    UPDATE sessions SET last_seen_at_ms = ${nowMs}
    WHERE session_id = ${sessionId} AND last_seen_at_ms < ${nowMs}`;
}

/**
 * Stores a session and makes room: removes expired ones, and the user's longest unused beyond
 * `sessionsLimits.sessionsPerUserMax`. The user's row is locked.
 */
export async function insertSession(tx: Transaction, session: Session, tokenHash: string): Promise<void> {
  await tx`
    DELETE FROM sessions WHERE session_id IN (
      SELECT session_id FROM sessions WHERE user_id = ${session.userId}
      ORDER BY last_seen_at_ms DESC OFFSET ${sessionsLimits.sessionsPerUserMax - 1})`;
  await tx`
    DELETE FROM sessions WHERE session_id = ANY (ARRAY(
      SELECT session_id FROM sessions WHERE expires_at_ms <= ${session.createdAtMs}
      ORDER BY expires_at_ms LIMIT ${sessionsLimits.sessionsPerTrimMax} FOR UPDATE SKIP LOCKED))`;
  await tx`
    INSERT INTO sessions (session_id, token_hash, user_id, user_agent, created_at_ms, last_seen_at_ms, expires_at_ms)
    VALUES (${session.sessionId}, ${tokenHash}, ${session.userId}, ${session.userAgent}, ${session.createdAtMs},
      ${session.lastSeenAtMs}, ${session.expiresAtMs})`;
}

/** The sessions of a person that are not over, newest first. */
export const listSessions = (
  sql: Database,
  userId: UserId,
  {
    page,
    nowMs,
    seenSinceMs,
  }: { readonly page: PagePlace; readonly nowMs: UnixMillis; readonly seenSinceMs: number },
): Promise<Page<Session>> => {
  const where = sql`
    user_id = ${userId} AND expires_at_ms > ${nowMs} AND last_seen_at_ms > ${seenSinceMs}`;
  return readPage(page, {
    count: () => sql<{ total: number }[]>`SELECT count(*) AS total FROM sessions WHERE ${where}`,
    rows: (limit) => sql<Session[]>`
      SELECT session_id AS "sessionId", user_id AS "userId", user_agent AS "userAgent",
        created_at_ms AS "createdAtMs", last_seen_at_ms AS "lastSeenAtMs", expires_at_ms AS "expiresAtMs"
      FROM sessions
      WHERE ${where} ${page.behind === null ? sql`` : sql`AND session_id < ${page.behind}`}
      ORDER BY session_id DESC LIMIT ${limit} OFFSET ${page.offset}`,
    idOf: ({ sessionId }) => sessionId,
  });
};

/** The session's user; null: not of this account. */
export async function findSessionOwner(
  sql: Database,
  accountId: AccountId,
  sessionId: SessionId,
): Promise<{ readonly userId: UserId; readonly role: Role } | null> {
  const [row] = await sql<{ userId: UserId; role: Role }[]>`
    SELECT u.user_id AS "userId", u.role FROM sessions JOIN users u USING (user_id)
    WHERE session_id = ${sessionId} AND u.account_id = ${accountId}`;
  return row ?? null;
}

/** False: already ended. */
export async function deleteSession(tx: Transaction, sessionId: SessionId): Promise<boolean> {
  const deleted = await tx`DELETE FROM sessions WHERE session_id = ${sessionId}`;
  return deleted.count > 0;
}

/** Ends the browser's session from before its login, against session fixation. */
export async function deleteSessionOfToken(tx: Transaction, tokenHash: string): Promise<void> {
  await tx`DELETE FROM sessions WHERE token_hash = ${tokenHash}`;
}

/** Ends the sessions of a person, at once and everywhere: each request looks its session up. */
export async function deleteSessionsOf(tx: Transaction, userId: UserId): Promise<void> {
  await tx`DELETE FROM sessions WHERE user_id = ${userId}`;
}
