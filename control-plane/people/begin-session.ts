import type { IncomingHttpHeaders } from 'node:http';
import type { UserId } from '../../shared/model/ids.ts';
import { isPlainText } from '../../shared/model/plain-text.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { Transaction } from '../base/database.ts';
import { hashSessionToken } from '../sessions/authenticate-session.ts';
import { readCookie, sessionCookie } from '../sessions/cookies.ts';
import type { SessionDeps } from '../sessions/deps.ts';
import { sessionsLimits } from '../sessions/limits.ts';
import { deleteSessionOfToken, insertSession, type Session } from '../sessions/session-store.ts';
import { noteLogin } from './user-store.ts';

/** 256 bits: nobody guesses one. */
const tokenBytes = 32;

/** A session at the only moment at which its cookie is known. */
export interface NewSession {
  readonly session: Session;
  readonly token: string;
}

/**
 * Begins a session of a user whose row the caller holds. Its cookie is new whatever the browser held before,
 * and what it held ends, so that nobody comes to share a session by planting its cookie beforehand.
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

/** People read it beside other text, so it holds nothing that would make it look like something else. */
function readUserAgent({ 'user-agent': text }: IncomingHttpHeaders): string | null {
  return text === undefined || !isPlainText(text) ? null : text.slice(0, sessionsLimits.userAgentCharsMax);
}
