import type { IncomingHttpHeaders } from 'node:http';
import type { RequestId, UserId } from '../../shared/model/ids.ts';
import { isPlainText } from '../../shared/model/plain-text.ts';
import { renderTime, type UnixMillis } from '../../shared/model/time.ts';
import { lockAccount } from '../accounts/account-store.ts';
import { administer } from '../audit/administer.ts';
import type { Transaction } from '../base/database.ts';
import { hashSessionToken } from '../sessions/authenticate-session.ts';
import { readCookie, sessionCookie } from '../sessions/cookies.ts';
import type { SessionDeps } from '../sessions/deps.ts';
import { sessionsLimits } from '../sessions/limits.ts';
import { deleteSessionOfToken, insertSession, type Session } from '../sessions/session-store.ts';
import { lockUser, noteLogin, type UserWithSecrets } from './user-store.ts';

/** 256 bits. */
const tokenBytes = 32;

/** A new session, while its cookie is known. */
export interface NewSession {
  readonly session: Session;
  readonly token: string;
}

/**
 * Begins a session of a user whose row is locked. Its cookie is always new, and the browser's earlier session
 * ends, which prevents session fixation.
 */
export async function beginSession(
  tx: Transaction,
  { clock, random, sessionTimes }: Pick<SessionDeps, 'clock' | 'random' | 'sessionTimes'>,
  { userId, headers }: { readonly userId: UserId; readonly headers: IncomingHttpHeaders },
): Promise<NewSession> {
  const nowMs = clock.now();
  const token = Buffer.from(random.bytes(tokenBytes)).toString('base64url');
  const session: Session = {
    sessionId: random.newId('sess', nowMs),
    userId,
    userAgent: readUserAgent(headers),
    createdAtMs: nowMs,
    lastSeenAtMs: nowMs,
    expiresAtMs: (nowMs + sessionTimes.totalMs) as UnixMillis,
  };
  const before = readCookie(headers, sessionCookie);
  await noteLogin(tx, userId, nowMs);
  if (before !== null) await deleteSessionOfToken(tx, hashSessionToken(before));
  await insertSession(tx, session, hashSessionToken(token));
  return { session, token };
}

/** A proven login, with further conditions. */
interface ProvenLogin {
  readonly operation: 'logIn' | 'logInWithOidc' | 'logInWithPasskey';
  readonly headers: IncomingHttpHeaders;
  readonly requestId: RequestId;
  /** The user may become a person of the account with it, whose row is locked first. */
  readonly isFirst?: boolean;
  /**
   * Checks again under the user's lock; null: gone or disabled. Throws to refuse the login. Returns further
   * members of the audit entry.
   */
  admit(tx: Transaction, user: UserWithSecrets | null): Promise<Readonly<Record<string, string>>>;
}

/** Begins the session of an authenticated user. The audit entry names them as the actor, in live mode. */
export const logInAs = (
  deps: SessionDeps,
  { userId, accountId }: Pick<UserWithSecrets, 'userId' | 'accountId'>,
  { operation, headers, requestId, isFirst = false, admit }: ProvenLogin,
): Promise<NewSession> => {
  const actor = { type: 'user', id: userId, clientId: null };
  return administer(deps, { accountId, mode: 'live', actor, requestId }, async (tx) => {
    if (isFirst) await lockAccount(tx, accountId);
    const user = await lockUser(tx, accountId, userId);
    const audited = await admit(tx, user?.isDisabled === false ? user : null);
    const result = await beginSession(tx, deps, { userId, headers });
    const { sessionId, expiresAtMs } = result.session;
    const after = {
      session_id: sessionId,
      user_id: userId,
      expires_at: renderTime(expiresAtMs),
      ...audited,
    };
    return { result, audited: { operation, target: sessionId, before: null, after } };
  });
};

/** Text for people, so without characters that disguise it. */
function readUserAgent({ 'user-agent': text }: IncomingHttpHeaders): string | null {
  return text === undefined || !isPlainText(text) ? null : text.slice(0, sessionsLimits.userAgentCharsMax);
}
