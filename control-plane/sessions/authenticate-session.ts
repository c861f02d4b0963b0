/**
 * Room `control-plane/sessions`: browser sessions. `cookies.ts`, authentication (here), the proof that a
 * change comes from our pages (`refuse-cross-site.ts`), and single-use challenges of logins in several steps
 * (`login-challenge.ts`).
 */

import type { IncomingHttpHeaders } from 'node:http';
import type { FastifyInstance } from 'fastify';
import { sha256Hex } from '../../shared/crypto/content-hash.ts';
import { ApiError, invalidRequest } from '../../shared/errors/api-error.ts';
import type { RequestId, SessionId } from '../../shared/model/ids.ts';
import { type Mode, modes } from '../../shared/model/mode.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { scopesOfRole } from '../../shared/model/user.ts';
import type { BaseDeps } from '../base/deps.ts';
import type { Caller } from '../http/caller.ts';
import { readCookie, sessionCookie } from './cookies.ts';
import type { SessionDeps } from './deps.ts';
import { sessionsLimits } from './limits.ts';
import { findPresentedSession, type PresentedSession, touchSession } from './session-store.ts';

declare module 'fastify' {
  interface FastifyRequest {
    /** The session by which the caller of this request is known; null: by something else, or not at all. */
    browserSession: PresentedSession | null;
  }
}

/** The stored form of a cookie: its 256 random bits need no slow hash. */
export const hashSessionToken = (token: string): string => sha256Hex(token);

/**
 * The session of the cookie, if it can still be used: within its idle and its absolute end, of a person who
 * is not disabled. Throws `unauthorized` and `account_suspended`.
 */
export async function authenticateSession(
  { sql, sessionTimes }: Pick<SessionDeps, 'sql' | 'sessionTimes'>,
  headers: IncomingHttpHeaders,
  nowMs: UnixMillis,
): Promise<PresentedSession> {
  const token = readCookie(headers, sessionCookie);
  const session = token === null ? null : await findPresentedSession(sql, hashSessionToken(token));
  const isUsable =
    session !== null && nowMs < session.expiresAtMs && nowMs < session.lastSeenAtMs + sessionTimes.idleMs;
  if (!isUsable) {
    throw new ApiError('unauthorized', { message: 'There is no session, or it has ended: log in.' });
  }
  if (session.accountStatus === 'suspended') throw new ApiError('account_suspended');
  return session;
}

/** `X-Agent-Trust-Mode`: in which of the two worlds a session acts, live unless it says otherwise. */
export function readMode(headers: IncomingHttpHeaders): Mode {
  const text = headers['x-agent-trust-mode'] ?? 'live';
  const mode = modes.find((each) => each === text);
  if (mode === undefined) {
    throw invalidRequest('X-Agent-Trust-Mode', 'X-Agent-Trust-Mode must be live or test.');
  }
  return mode;
}

/** A person as the caller of a request: the scopes of their role, in the mode that they chose. */
export const callerOfSession = (
  session: Pick<PresentedSession, 'sessionId' | 'user' | 'isOperatorAccount' | 'planLimits'>,
  { mode, requestId }: { readonly mode: Mode; readonly requestId: RequestId },
): Caller => ({
  accountId: session.user.accountId,
  mode,
  scopes: scopesOfRole[session.user.role],
  // A person's resources belong to the account and outlive their session and user.
  expiresAtMs: null,
  madeKeysEndWith: null,
  isOperator: session.isOperatorAccount && mode === 'live',
  planLimits: session.planLimits,
  actor: { type: 'user', id: session.user.userId, clientId: null },
  person: { userId: session.user.userId, sessionId: session.sessionId },
  requestId,
});

/** Writes the session's use in parallel to the request. */
export function sessionUseNotes(
  app: FastifyInstance,
  { sql, logger, sessionTimes }: Pick<BaseDeps, 'sql' | 'logger'> & Pick<SessionDeps, 'sessionTimes'>,
): (session: PresentedSession, nowMs: UnixMillis) => void {
  const intervalMs = Math.min(sessionsLimits.seenWriteIntervalMsMax, sessionTimes.idleMs / 10);
  const writing = new Map<SessionId, Promise<void>>();
  app.addHook('onClose', async () => {
    await Promise.all(writing.values());
  });
  return ({ sessionId, lastSeenAtMs }, nowMs) => {
    if (nowMs - lastSeenAtMs < intervalMs || writing.has(sessionId)) return;
    if (writing.size >= sessionsLimits.seenWritesMax) return;
    const written = touchSession(sql, sessionId, nowMs)
      .catch((error: unknown) => {
        const failure = error instanceof Error ? error.name : typeof error;
        logger.warn({ session_id: sessionId, failure }, 'last_seen_at of a session could not be written');
      })
      .finally(() => writing.delete(sessionId));
    writing.set(sessionId, written);
  };
}
