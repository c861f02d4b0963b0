import { useQuery } from '@tanstack/react-query';
import { Link, useRouterState } from '@tanstack/react-router';
import { type ReactNode, useEffect, useRef, useState } from 'react';
import { api } from './api/client.ts';
import { pollMs, useConnection } from './api/live.ts';
import { useSession } from './api/session.tsx';
import { navigation } from './navigation.ts';
import { Palette } from './palette.tsx';
import { useModal } from './ui/dialog.tsx';
import { count } from './ui/format.ts';
import { Toasts } from './ui/toast.tsx';

/** Also while changes are pushed: this is no change that is. */
const historyPollMs = 5_000;

/** Navigation, search, the state of the connection; and in the middle the page. */
export function Shell({ children }: { readonly children: ReactNode }): ReactNode {
  const { session, mode, chooseMode } = useSession();
  const [isSearching, setSearching] = useState(false);
  const [isMenuOpen, setMenuOpen] = useState(false);
  const path = useRouterState({ select: ({ location }) => location.pathname });
  const main = useRef<HTMLElement>(null);
  const lastPath = useRef(path);
  useEffect(() => {
    const search = (event: KeyboardEvent) => {
      if (!(event.ctrlKey || event.metaKey) || event.key.toLowerCase() !== 'k') return;
      event.preventDefault();
      setSearching((was) => !was);
    };
    addEventListener('keydown', search);
    return () => removeEventListener('keydown', search);
  }, []);
  useEffect(() => {
    // A reader of the screen is at the new page, not at the link that led there.
    if (lastPath.current !== path) main.current?.focus({ preventScroll: true });
    lastPath.current = path;
    setMenuOpen(false);
  }, [path]);

  return (
    <>
      <a className="skip" href="#main">
        Skip to the page
      </a>
      <div className="shell">
        <Sidebar />
        {isMenuOpen ? <Drawer onClose={() => setMenuOpen(false)} /> : null}
        <div>
          <header className="topbar">
            <button type="button" className="button menu-button" onClick={() => setMenuOpen(true)}>
              Menu
            </button>
            <button type="button" className="search-button" onClick={() => setSearching(true)}>
              Search <kbd>Ctrl K</kbd>
            </button>
            <span className="grow" />
            <ConnectionState />
            <label className="sr-only" htmlFor="mode">
              Mode
            </label>
            <select
              id="mode"
              className="input"
              style={{ width: 'auto' }}
              value={mode}
              onChange={(event) => chooseMode(event.target.value === 'test' ? 'test' : 'live')}
            >
              <option value="live">Live</option>
              <option value="test">Test</option>
            </select>
            <Link to="/settings" className="button bare wide-only">
              {session.user.name}
            </Link>
          </header>
          <Offline />
          <Regressed />
          {mode === 'test' ? (
            <p className="mode-bar">
              This is the test world: its passports and gates are separate from the live ones.
            </p>
          ) : null}
          <main id="main" ref={main} tabIndex={-1} key={mode}>
            {children}
          </main>
        </div>
      </div>
      {isSearching ? <Palette onClose={() => setSearching(false)} /> : null}
      <Toasts />
    </>
  );
}

function Sidebar(): ReactNode {
  const { may } = useSession();
  const waiting = useWaitingApprovals();
  return (
    <nav className="sidebar" aria-label="Console">
      <Link to="/" className="brand">
        <img src="/console/icon.svg" alt="" width="24" height="24" />
        agent-trust
      </Link>
      {navigation.map(({ title, places }) => {
        const shown = places.filter(({ scope }) => scope === null || may(scope));
        if (shown.length === 0) return null;
        return (
          <div key={title} className="nav-group">
            <h2>{title}</h2>
            {shown.map(({ to, label }) => (
              <Link key={to} to={to} className="nav-link" activeOptions={{ exact: to === '/' }}>
                {label}
                {to === '/approvals' && waiting > 0 ? (
                  <span className="count">
                    {waiting > 99 ? '99+' : waiting}
                    <span className="sr-only"> waiting</span>
                  </span>
                ) : null}
              </Link>
            ))}
          </div>
        );
      })}
    </nav>
  );
}

/** How many requests wait for a person. */
function useWaitingApprovals(): number {
  const { may } = useSession();
  const query = useQuery({
    queryKey: ['approvals', 'waiting'],
    queryFn: () => api.approvals.list({ status: 'pending', limit: 1 }),
    enabled: may('approvals:read'),
    refetchInterval: pollMs(),
  });
  return query.data?.total ?? 0;
}

function Drawer({ onClose }: { onClose(): void }): ReactNode {
  const dialog = useModal();
  return (
    <dialog ref={dialog} className="drawer" aria-label="Menu" onCancel={onClose}>
      <Sidebar />
      <div style={{ padding: 12 }}>
        <button type="button" className="button" onClick={onClose}>
          Close
        </button>
      </div>
    </dialog>
  );
}

const connectionWords = { live: 'Up to date', polling: 'Checking', offline: 'No connection' } as const;
const connectionHints = {
  live: 'Changes appear as they happen.',
  polling: 'Changes are not pushed at the moment; the page asks again and again.',
  offline: 'The service cannot be reached.',
} as const;

function ConnectionState(): ReactNode {
  const state = useConnection();
  return (
    <span className="connection" title={connectionHints[state]}>
      <span className={`dot ${state}`} aria-hidden="true" />
      <span className="wide-only">{connectionWords[state]}</span>
    </span>
  );
}

/** The database lacks what was in force: on every page, because what it shows may be wrong. */
function Regressed(): ReactNode {
  const { data } = useQuery({
    queryKey: ['ready', 'history'],
    queryFn: () => api.service.ready(),
    refetchInterval: historyPollMs,
    refetchOnWindowFocus: true,
  });
  const missing = data?.history?.missing ?? null;
  if (missing === null) return null;
  return (
    <p className="offline-bar" role="alert">
      The database went back to an earlier state: it lacks {count(missing.changes)} changes,{' '}
      {count(missing.records)} records and {count(missing.entries)} entries of the log that were in force.
      Sidecars keep what was revoked in force. Until the operator has run <code>agent-trust recover</code>,
      nothing can be changed but to take something away.
    </p>
  );
}

function Offline(): ReactNode {
  const isOffline = useConnection() === 'offline';
  return (
    <div role="status">
      {isOffline ? (
        <p className="offline-bar">
          No connection to the service. What you see may be out of date; the page goes on trying.
        </p>
      ) : null}
    </div>
  );
}
