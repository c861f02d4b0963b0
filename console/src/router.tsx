import {
  createRootRoute,
  createRoute,
  createRouter,
  Link,
  lazyRouteComponent,
  Outlet,
} from '@tanstack/react-router';
import type { ReactNode } from 'react';
import type { Search } from './api/address.ts';
import { WithSession } from './api/session.tsx';
import { LogIn } from './pages/log-in.tsx';
import { Shell } from './shell.tsx';
import { PageHead, Problem, Waiting } from './ui/page.tsx';

const validateSearch = (search: Record<string, unknown>): Search =>
  Object.fromEntries(
    Object.entries(search).flatMap(([name, value]) =>
      typeof value === 'string' && value !== '' ? [[name, value] as const] : [],
    ),
  );

const rootRoute = createRootRoute({
  component: Outlet,
  validateSearch,
  notFoundComponent: () => (
    <main>
      <PageHead title="There is no such page">The address is wrong, or the page has moved.</PageHead>
      <div>
        <Link to="/">Go to the overview</Link>
      </div>
    </main>
  ),
  errorComponent: ({ error, reset }) => (
    <main>
      <Problem error={error} onRetry={reset} />
    </main>
  ),
});

/** Everything behind the login. An address that is asked for without a session is shown after the login. */
const inside = createRoute({ getParentRoute: () => rootRoute, id: 'inside', component: Inside });

function Inside(): ReactNode {
  return (
    <WithSession
      otherwise={<LogIn />}
      waiting={<Waiting what="the console" />}
      failed={(error, again) => (
        <main>
          <Problem error={error} onRetry={again} />
        </main>
      )}
    >
      <Shell>
        <Outlet />
      </Shell>
    </WithSession>
  );
}

type PageLoader = () => Promise<{ readonly default: () => ReactNode }>;

/** A page of the console; its code is loaded when it is first shown. */
const page = (path: string, load: PageLoader) =>
  createRoute({ getParentRoute: () => inside, path, component: lazyRouteComponent(load) });

const invitation = createRoute({
  getParentRoute: () => rootRoute,
  path: '/invitation',
  component: lazyRouteComponent(() => import('./pages/invitation.tsx')),
});

const logInOidc = createRoute({
  getParentRoute: () => rootRoute,
  path: '/log-in/oidc',
  component: lazyRouteComponent(() => import('./pages/log-in-oidc.tsx')),
});

const routeTree = rootRoute.addChildren([
  invitation,
  logInOidc,
  inside.addChildren([
    page('/', () => import('./pages/overview.tsx')),
    page('/first-request', () => import('./pages/first-request.tsx')),
    page('/approvals', () => import('./pages/approvals.tsx')),
    page('/approvals/standing', () => import('./pages/standing-approvals.tsx')),
    page('/approvals/$id', () => import('./pages/approval.tsx')),
    page('/holds', () => import('./pages/holds.tsx')),
    page('/passports', () => import('./pages/passports.tsx')),
    page('/passports/$id', () => import('./pages/passport.tsx')),
    page('/gates', () => import('./pages/gates.tsx')),
    page('/gates/$id', () => import('./pages/gate.tsx')),
    page('/wallets', () => import('./pages/wallets.tsx')),
    page('/wallets/$id', () => import('./pages/wallet.tsx')),
    page('/mcp-pins', () => import('./pages/mcp-pins.tsx')),
    page('/mcp-pins/$id', () => import('./pages/mcp-pin.tsx')),
    page('/log', () => import('./pages/request-log.tsx')),
    page('/attestations', () => import('./pages/attestations.tsx')),
    page('/attestations/$id', () => import('./pages/attestation.tsx')),
    page('/verify', () => import('./pages/verify-export.tsx')),
    page('/api-keys', () => import('./pages/api-keys.tsx')),
    page('/channels', () => import('./pages/channels.tsx')),
    page('/channels/$id', () => import('./pages/channel.tsx')),
    page('/webhooks', () => import('./pages/webhooks.tsx')),
    page('/webhooks/$id', () => import('./pages/webhook.tsx')),
    page('/audit', () => import('./pages/audit.tsx')),
    page('/signing-keys', () => import('./pages/signing-keys.tsx')),
    page('/issuers', () => import('./pages/issuers.tsx')),
    page('/templates', () => import('./pages/templates.tsx')),
    page('/discovery', () => import('./pages/discovery.tsx')),
    page('/people', () => import('./pages/people.tsx')),
    page('/settings', () => import('./pages/settings.tsx')),
  ]),
]);

export const router = createRouter({
  routeTree,
  basepath: '/console',
  // Plain names and values, so that an address can be read and written by hand.
  parseSearch: (text) => Object.fromEntries(new URLSearchParams(text)),
  stringifySearch: (search) => {
    const filled = Object.entries(search).filter(([, value]) => value !== undefined && value !== '');
    const text = new URLSearchParams(filled as [string, string][]).toString();
    return text === '' ? '' : `?${text}`;
  },
  defaultPreload: 'intent',
  scrollRestoration: true,
});
