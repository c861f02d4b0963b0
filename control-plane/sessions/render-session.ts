import type { Static } from 'typebox';
import type { SessionId } from '../../shared/model/ids.ts';
import type { Mode } from '../../shared/model/mode.ts';
import { renderTime, type UnixMillis } from '../../shared/model/time.ts';
import { scopesOfRole } from '../../shared/model/user.ts';
import type { SessionAnswer, SessionListItem } from '../../shared/wire/api/session.ts';
import { renderUser } from '../../shared/wire/api/user.ts';
import type { SessionDeps } from './deps.ts';
import type { PresentedSession, Session } from './session-store.ts';

type Times = SessionDeps['sessionTimes'];

const ends = ({ createdAtMs, lastSeenAtMs, expiresAtMs }: Session, { idleMs }: Times) => ({
  created_at: renderTime(createdAtMs),
  expires_at: renderTime(expiresAtMs),
  idle_expires_at: renderTime(Math.min(expiresAtMs, lastSeenAtMs + idleMs) as UnixMillis),
});

export const renderSession = (
  session: PresentedSession,
  mode: Mode,
  times: Times,
): Static<typeof SessionAnswer> => ({
  session_id: session.sessionId,
  user: renderUser(session.user),
  account: {
    account_id: session.user.accountId,
    name: session.accountName,
    plan: session.plan,
    is_operator: session.isOperatorAccount,
  },
  scopes: [...scopesOfRole[session.user.role]],
  mode,
  ...ends(session, times),
});

export const renderSessionListItem = (
  session: Session,
  current: SessionId,
  times: Times,
): Static<typeof SessionListItem> => ({
  session_id: session.sessionId,
  user_id: session.userId,
  user_agent: session.userAgent,
  is_current: session.sessionId === current,
  last_seen_at: renderTime(session.lastSeenAtMs),
  ...ends(session, times),
});
