import { useQuery, useQueryClient } from '@tanstack/react-query';
import { createContext, type ReactNode, useContext, useEffect, useMemo, useRef, useState } from 'react';
import { holdsScope, parseScope, type Scope } from '../../../shared/model/scopes.ts';
import { AgentTrustError, type Mode, onSessionEnd, setMode } from './client.ts';
import { followEvents, pollForPlan } from './live.ts';
import { people, type Session } from './people.ts';

interface SessionState {
  readonly session: Session;
  readonly mode: Mode;
  /** Shows the other world. */
  chooseMode(mode: Mode): void;
  /** Whether the role of this person allows it. */
  may(scope: Scope): boolean;
}

const SessionContext = createContext<SessionState | null>(null);

export function useSession(): SessionState {
  const state = useContext(SessionContext);
  if (state === null) throw new Error('useSession outside of a session');
  return state;
}

export const sessionKey = ['session'] as const;
const modeKey = 'agent-trust.mode';

/**
 * Tells every page who is logged in; null: no one. Drops another person's cached data. The query of the
 * session itself stays, because the pages watch it.
 */
export function useSetSession(): (session: Session | null) => void {
  const client = useQueryClient();
  return (session) => {
    client.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== sessionKey[0] });
    client.setQueryData(sessionKey, session);
  };
}

/** Null without a login. */
const readSession = (): Promise<Session | null> =>
  people.session().catch((error: unknown) => {
    if (error instanceof AgentTrustError && error.http_status === 401) return null;
    throw error;
  });

/**
 * Ends the session of an idle person. The service cannot detect that: an open page polls all the time, and
 * each request counts as use.
 */
function useIdleEnd(session: Session | null | undefined, readAtMs: number, end: () => void): void {
  const idleMs = session ? Date.parse(session.idle_expires_at) - readAtMs : null;
  const latest = useRef(end);
  latest.current = end;
  const usedAtMs = useRef(0);
  // biome-ignore lint/correctness/useExhaustiveDependencies: a new session begins with its login
  useEffect(() => {
    usedAtMs.current = Date.now();
  }, [session?.session_id]);
  useEffect(() => {
    // A wrong clock of this machine must not log the person out at once.
    if (idleMs === null || idleMs < 60_000) return;
    const note = () => {
      usedAtMs.current = Date.now();
    };
    const kinds = ['pointerdown', 'keydown', 'wheel', 'touchstart'];
    for (const kind of kinds) addEventListener(kind, note, { passive: true });
    const timer = setInterval(() => {
      if (Date.now() - usedAtMs.current > idleMs) latest.current();
    }, 10_000);
    return () => {
      clearInterval(timer);
      for (const kind of kinds) removeEventListener(kind, note);
    };
  }, [idleMs]);
}

/** Shows `children` to a logged-in person, else `otherwise`. */
export function WithSession({
  children,
  otherwise,
  waiting,
  failed,
}: {
  readonly children: ReactNode;
  readonly otherwise: ReactNode;
  readonly waiting: ReactNode;
  readonly failed: (error: unknown, again: () => void) => ReactNode;
}): ReactNode {
  const client = useQueryClient();
  const query = useQuery({ queryKey: sessionKey, queryFn: readSession, staleTime: 60_000 });
  const [mode, setShown] = useState<Mode>(() => {
    const stored = sessionStorage.getItem(modeKey) === 'test' ? 'test' : 'live';
    setMode(stored);
    return stored;
  });
  const session = query.data;
  const plan = session?.account.plan ?? '';
  useEffect(() => pollForPlan(plan), [plan]);
  const setSession = useSetSession();
  useEffect(() => onSessionEnd(() => client.setQueryData(sessionKey, null)), [client]);
  const isLoggedIn = session !== null && session !== undefined;
  useEffect(() => (isLoggedIn ? followEvents(client, mode) : undefined), [client, mode, isLoggedIn]);
  useIdleEnd(session, query.dataUpdatedAt, () => {
    void people.logOut().catch(() => undefined);
    setSession(null);
  });
  const state = useMemo<SessionState | null>(() => {
    if (!session) return null;
    const held = session.scopes.map(parseScope).filter((scope) => scope !== null);
    return {
      session,
      mode,
      chooseMode: (next) => {
        setMode(next);
        sessionStorage.setItem(modeKey, next);
        setShown(next);
        client.removeQueries({ predicate: ({ queryKey }) => queryKey[0] !== sessionKey[0] });
      },
      may: (scope) => holdsScope(held, scope),
    };
  }, [session, mode, client]);
  if (state !== null) return <SessionContext value={state}>{children}</SessionContext>;
  if (query.isPending) return waiting;
  if (query.isError) return failed(query.error, () => void query.refetch());
  return otherwise;
}
