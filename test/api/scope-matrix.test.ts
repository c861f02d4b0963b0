import { beforeAll, describe, expect, it } from 'vitest';
import { scopes } from '../../shared/model/scopes.ts';
import { startOwnApi } from '../support/service/api.ts';
import { expectError } from '../support/service/expect-error.ts';
import { useApi } from '../support/service/use-api.ts';

/**
 * The table of contract §2, written out here once more and by hand: which operation needs which scope. `x`
 * stands for an id. Paths are those under `/v1` unless they begin with another folder.
 */
const table: Readonly<Record<string, readonly string[]>> = {
  'passports:issue': ['POST /passports', 'POST /api/passports'],
  'passports:read': ['GET /passports', 'GET /passports/x', 'GET /passports/x/verify'],
  'passports:revoke': [
    'POST /passports/x/revoke',
    'POST /passports/x/suspend',
    'POST /passports/x/reactivate',
    'POST /issuers/x/revoke-subject',
    'POST /owners/x/suspend',
    'POST /owners/x/reactivate',
  ],
  'gates:create': ['POST /gates'],
  'gates:read': [
    'GET /gates',
    'GET /gates/x',
    'GET /gates/x/shadow',
    'GET /gates/x/shadow/report',
    'POST /gates/x/backtest',
    'GET /backtests/x',
    'DELETE /backtests/x',
    'POST /gates/x/test',
    'POST /conditions/check',
    'GET /gates/x/usage',
    'GET /gates/x/policies',
    'GET /policies/x',
    'GET /sidecars',
    'GET /mcp-pins',
    'GET /mcp-pins/x',
    'GET /authzen/vocabulary',
  ],
  'gates:update': [
    'PUT /gates/x',
    'PUT /gates/x/shadow',
    'DELETE /gates/x/shadow',
    'POST /gates/x/shadow/promote',
    'POST /gates/x/catalog',
    'POST /mcp-pins/x/accept',
    'POST /mcp-pins/x/reject',
    'PUT /authzen/vocabulary',
  ],
  'gates:manage': ['DELETE /gates/x'],
  'enforcement:check': [
    'POST /gates/x/check',
    'POST /gates/x/check/batch',
    'POST /enforce',
    'POST /mcp-pins',
    'POST /attestations/x/outcome',
    'POST /attestations/x/hold/extend',
    'POST /attestations/x/refund',
    'POST /access/v1/evaluation',
    'POST /access/v1/evaluations',
    'POST /access/v1/requests',
    'GET /access/v1/requests/x',
  ],
  'enforcement:delegate': [
    'POST /access/v1/search/subject',
    'POST /access/v1/search/resource',
    'POST /access/v1/search/action',
  ],
  'wallets:read': ['GET /wallets', 'GET /wallets/x', 'GET /wallets/x/statement'],
  'wallets:manage': [
    'POST /wallets',
    'PUT /wallets/x',
    'POST /wallets/x/freeze',
    'POST /wallets/x/unfreeze',
    'DELETE /wallets/x',
    'POST /passports/x/wallet',
  ],
  'approvals:read': [
    'GET /approvals',
    'GET /approvals/x',
    'GET /approvals/standing',
    'GET /approvals/standing/x',
  ],
  'approvals:resolve': [
    'POST /approvals/x/approve',
    'POST /approvals/x/deny',
    'POST /approvals/x/undo',
    'POST /approvals/standing',
    'DELETE /approvals/standing/x',
  ],
  'attestations:read': [
    'POST /receipts',
    'GET /attestations',
    'GET /attestations/x',
    'GET /attestations/x/facts',
    'GET /attestations/x/proof',
    'GET /attestations/x/outcome',
    'GET /holds',
    'GET /outcomes',
    'GET /attestations/export',
    'GET /attestations/retention',
    'GET /statistics/decisions',
  ],
  'audit:read': ['GET /audit', 'GET /audit/export', 'GET /users', 'GET /users/x'],
  'issuers:create': ['POST /issuers'],
  'issuers:read': ['GET /issuers', 'GET /issuers/x', 'POST /issuers/x/try-token'],
  'issuers:update': ['PUT /issuers/x'],
  'templates:create': ['POST /templates'],
  'templates:read': ['GET /templates', 'GET /templates/x'],
  'keys:manage': [
    'POST /api-keys',
    'GET /api-keys',
    'GET /api-keys/x',
    'POST /api-keys/x/roll',
    'DELETE /api-keys/x',
    'PUT /attestations/retention',
  ],
  'users:manage': ['POST /users', 'POST /users/x/invitation', 'PATCH /users/x', 'DELETE /users/x'],
  'webhooks:manage': [
    'POST /channels',
    'GET /channels',
    'GET /channels/x',
    'PATCH /channels/x',
    'DELETE /channels/x',
    'POST /channels/x/test',
    'POST /webhooks',
    'GET /webhooks',
    'GET /webhooks/x',
    'PUT /webhooks/x',
    'DELETE /webhooks/x',
    'POST /webhooks/x/roll-secret',
    'POST /webhooks/x/test',
    'GET /webhooks/x/deliveries',
    'POST /webhooks/x/deliveries/x/resend',
    'POST /webhooks/x/recover',
  ],
  'sidecars:connect': [
    'POST /sync/connect',
    'GET /sync/snapshot',
    'GET /sync/changes',
    'POST /sync/ack',
    'POST /sync/goodbye',
    'POST /sync/attestations',
    'POST /sync/leases',
    'POST /sync/proofs',
    'POST /sync/receipt-key',
    'POST /sync/settlements',
    'POST /sync/tokens',
    'POST /sync/history',
    'POST /sync/history/state',
  ],
  'admin:*': [
    'POST /accounts',
    'GET /accounts',
    'GET /accounts/x',
    'PUT /accounts/x',
    'POST /signing-keys/rotate',
    'POST /signing-keys/revoke-sidecar-key',
    'POST /sync/history/recover',
    'GET /sync/leases/balance',
    'POST /sync/archive/plan',
    'GET /sync/archive/export',
    'POST /sync/archive',
    'POST /sync/archive/due',
    'POST /sync/archive/account/plan',
    'POST /sync/archive/account',
  ],
};

/** Which other scopes contain that scope, besides `admin:*`, which contains all. */
const containedIn: Readonly<Record<string, readonly string[]>> = {
  'wallets:read': ['wallets:manage'],
  'users:manage': ['keys:manage'],
  'gates:create': ['gates:manage'],
  'gates:read': ['gates:manage'],
  'gates:update': ['gates:manage'],
  'enforcement:check': ['gates:manage'],
  'osgate:read': ['osgate:manage'],
};

/** What answers without a key. The pages at /docs are a folder of files. */
const publicOperations = [
  'GET /livez',
  'GET /readyz',
  'GET /metrics',
  'GET /.well-known/jwks.json',
  'GET /.well-known/sidecar-keys.json',
  'GET /.well-known/authzen-configuration',
  'GET /openapi.json',
  'GET /v1/discover',
  'GET /v1/gates/x/catalog',
  'POST /v1/issuers/x/events',
  'GET /v1/login-methods',
];

/** What begins a session, and so can need none. */
const beginSessions = [
  'POST /session',
  'POST /session/oidc',
  'POST /session/oidc/begin',
  'POST /session/passkey',
  'POST /session/passkey/begin',
  'POST /invitations/read',
  'POST /invitations/accept',
];

/** What a browser session opens and no key. */
const ofSessions = [
  'GET /session',
  'DELETE /session',
  'GET /sessions',
  'DELETE /sessions/x',
  'POST /users/x/confirm',
  'POST /users/me/password',
  'POST /users/me/totp',
  'POST /users/me/totp/confirm',
  'DELETE /users/me/totp',
  'GET /users/me/passkeys',
  'POST /users/me/passkeys',
  'POST /users/me/passkeys/begin',
  'PATCH /users/me/passkeys/x',
  'DELETE /users/me/passkeys/x',
];

/** What one of several scopes opens; which events come then, test/api/events.test.ts says. */
const ofSeveralScopes = (): Readonly<Record<string, readonly string[]>> => ({
  'GET /events': ['approvals:read', 'gates:read', 'passports:read', 'attestations:read', 'webhooks:manage'],
  'GET /whoami': everyScope,
});

/** The pages, the log, and what access tokens open or give (test/api/{log,tools,oauth}.test.ts). */
const elsewhere = /^\/(?:console|docs|log|mcp|oauth|\.well-known\/oauth)/;

const everyScope = [
  'passports:issue passports:read passports:revoke gates:create gates:read gates:update gates:manage',
  'issuers:create issuers:read issuers:update templates:read templates:create osgate:read osgate:manage admin:*',
  'enforcement:check enforcement:delegate attestations:read audit:read approvals:read approvals:resolve webhooks:manage keys:manage sidecars:connect',
  'wallets:read wallets:manage users:manage',
].flatMap((line) => line.split(' '));

const rows = Object.entries(table).flatMap(([scope, operations]) =>
  operations.map((operation) => ({ operation, scope })),
);
const isAbsolute = (path: string) =>
  /^\/(?:access\/|api\/|livez|readyz|metrics|\.well-known|openapi|docs|v1)/.test(path);
const urlOf = (path: string) => (isAbsolute(path) ? path : `/v1${path}`);
const callOf = (operation: string, key: string | null) => {
  const [method = '', path = ''] = operation.split(' ');
  return api.call({ method, url: urlOf(path), key });
};

const api = useApi(startOwnApi);
const keys = new Map<string, string>();
beforeAll(async () => {
  for (const scope of everyScope) keys.set(scope, (await api.createKey({ scopes: [scope] })).key);
});

describe.each(Object.entries(table))('what %s opens', (scope, operations) => {
  const open = [...new Set([scope, 'admin:*', ...(containedIn[scope] ?? [])])];

  it(`takes ${open.join(', ')} and no other scope`, async () => {
    // Who holds all others at once is refused by each of them.
    const others = await api.createKey({ scopes: everyScope.filter((each) => !open.includes(each)) });
    for (const operation of operations) {
      for (const held of open) {
        const { status } = await callOf(operation, keys.get(held) ?? null);
        expect([401, 403], `${operation} ${held}`).not.toContain(status);
      }
      expectError(await callOf(operation, others.key), 'insufficient_scope');
      expectError(await callOf(operation, null), 'unauthorized');
    }
  });
});

it.each(publicOperations)('%s needs no key', async (operation) => {
  expect([401, 403]).not.toContain((await callOf(operation, null)).status);
});

it.each(beginSessions)('%s needs no key, and a page of ours', async (operation) => {
  expectError(await callOf(operation, null), 'cross_site_request');
});

it.each(ofSessions)('%s takes no key', async (operation) => {
  for (const key of [api.adminKey, null]) expectError(await callOf(operation, key), 'unauthorized');
});

it.each(Object.entries(ofSeveralScopes()))('%s takes one of several scopes', async (operation, those) => {
  for (const [held, key] of keys) {
    const isOpen = held === 'admin:*' || held === 'gates:manage' || those.includes(held);
    const reply = await callOf(operation, key);
    if (isOpen) expect(reply.status, held).toBe(200);
    else expectError(reply, 'insufficient_scope');
  }
  expectError(await callOf(operation, null), 'unauthorized');
});

describe('the table', () => {
  const normal = (operation: string): string => {
    const [method = '', path = ''] = operation.split(' ');
    const url = urlOf(path).replace('policies/x', 'policies/:hash').replace('/x', '/:id');
    return `${method} ${url.replace('deliveries/x', 'deliveries/:delivery_id').replace('owners/:id', 'owners/:owner')}`;
  };

  it('has every route, and nothing that is none', () => {
    const keyless = [...publicOperations, ...beginSessions, ...ofSessions, ...Object.keys(ofSeveralScopes())];
    const listed = [...rows.map(({ operation }) => operation), ...keyless].map(normal);
    const routes = api.app.routeScopes
      .filter(({ method, url }) => method !== 'HEAD' && !elsewhere.test(url))
      .map(({ method, url }) => `${method} ${url}`);
    expect(new Set(routes)).toEqual(new Set(listed));
    expect(new Set(listed).size).toBe(listed.length);
  });

  it('accepts every scope', () => {
    expect(new Set(everyScope)).toEqual(new Set(scopes));
  });
});

it('keeps some operations to live keys of the operator', async () => {
  const other = await api.createAccount();
  const test = await api.createKey({ scopes: ['admin:*'], mode: 'test' });
  for (const operation of table['admin:*'] ?? []) {
    for (const key of [other.key, test.key]) expectError(await callOf(operation, key), 'insufficient_scope');
    expect((await callOf(operation, api.adminKey)).status, operation).not.toBe(403);
  }
});
