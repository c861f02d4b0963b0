import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { pageSources } from '../../console/src/page-sources.ts';
import { dayMs } from '../../shared/model/time.ts';
import { until, untilAnswer } from '../support/base/until.ts';
import { copiedBy, faultsOf, follow, looksGood, sharedConsole, visit } from '../support/programs/console.ts';
import { startTestSidecar, type TestSidecar } from '../support/service/sidecar.ts';

/** What somebody may call a thing who wants the console to run it. */
const hostile = {
  gate: 'Orders API <img src=x onerror=alert(1)>',
  agent: '<script>alert(1)</script>',
  webhook: '"><svg onload=alert(1)>',
  issuer: 'javascript:alert(1)',
  template: "{{constructor.constructor('alert(1)')()}}",
};

/** Pages whose request needs the session of the person: no command can make it. */
const ofSession = ['/settings'];

const world = sharedConsole({ outbound: { allowPrivate: true } });
let sidecar: TestSidecar;
/** Every page by its name and address, with something on each. */
let pages: readonly (readonly [name: string, path: string])[];
/** An address of each page of `pageSources`, with filters where it has some. */
let places: Readonly<Record<string, string>>;
let page: Page;
/** What the console has asked for: a page may show what another one has read. */
const asked = new Set<string>();

beforeAll(async () => {
  sidecar = await startTestSidecar({ api: world.api });
  await fill();
  page = await world.open({ role: 'owner' });
  page.on('request', (request) => asked.add(request.url()));
  await visit(page, '/settings');
});
afterAll(async () => {
  await sidecar?.close();
  sidecar?.removeFolder();
});

async function fill(): Promise<void> {
  const { api } = world;
  const post = async (url: string, body: object) => (await api.call({ url: `/v1${url}`, body })).body;
  const { gate_id: gate } = await api.createGate({
    name: hostile.gate,
    description: 'What the shop sells to agents',
    constraints: {
      allowed_domains: ['*.example.com'],
      spend_limits: { per_transaction_usd: 50, daily_usd: 500 },
      rate_limits: { requests_per_minute: 60, per: 'passport' },
      approvals: { above_usd: 20 },
      pii_controls: { mode: 'redact' },
      conditions: [{ id: 'currency', require: "request.permission_key != 'a'", message: hostile.webhook }],
    },
  });
  const { gate_id: priced } = await api.createGate({ name: 'Search' });
  for (const price_cents of [5, 7]) {
    const pricing = { model: 'per_call', price_cents };
    const permissions = [
      { key: 'orders:create', display_name: hostile.agent, pricing, category: 'orders' },
      { key: 'orders:refund', requires_approval: true },
    ];
    await post(`/gates/${priced}/catalog`, { permissions });
  }
  const limits = { daily_usd: 500, total_usd: 9_000, requests_per_day: 100 };
  const { wallet_id: company } = await post('/wallets', { name: hostile.gate, limits });
  const { wallet_id: team } = await post('/wallets', {
    ...{ name: hostile.agent, parent_wallet_id: company, limits: { daily_usd: 200 }, share: 'reserved' },
  });
  const { wallet_id: frozen } = await post('/wallets', { name: hostile.webhook, parent_wallet_id: company });
  await post(`/wallets/${frozen}/freeze`, {});
  const passport = await api.issuePassport({
    agent_id: 'buyer-1',
    wallet_id: team,
    agent_name: hostile.agent,
    permissions: ['orders:*'],
    metadata: { note: hostile.webhook },
  });
  const tools = (description: string) => ({
    gate_id: gate,
    upstream: 'http://127.0.0.1:3000/mcp',
    tools: [
      { definition: JSON.stringify({ description, inputSchema: { type: 'object' }, name: hostile.agent }) },
    ],
    is_whole: true,
  });
  await post('/mcp-pins', tools(hostile.gate));
  const { pins } = await post('/mcp-pins', tools(`${hostile.webhook} \u202e ${'x'.repeat(300)}`));
  await api.createIssuer({ name: hostile.issuer });
  await post('/templates', { name: hostile.template, constraints: { approvals: { above_usd: 1 } } });
  const hook = await post('/webhooks', {
    url: 'http://127.0.0.1:9/hook',
    events: ['approval.requested'],
    description: hostile.webhook,
  });
  const channel = await post('/channels', {
    ...{ name: hostile.webhook, kind: 'slack', target: 'http://127.0.0.1:9/services/T0/B0', after_s: 600 },
  });
  await api.deps.sql`
    UPDATE channels SET failing_since_ms = ${api.deps.clock.now()}, failures = 3, last_error_code = 'bad_answer',
      last_error_detail = ${`HTTP 500 ${hostile.webhook}`}, last_error_at_ms = ${api.deps.clock.now()}`;
  await api.call({
    method: 'PUT',
    url: `/v1/gates/${gate}/shadow`,
    body: { constraints: { allowed_domains: [`${'x'.repeat(60)}.example.com`] } },
  });
  const soon = new Date(api.deps.clock.now() + 3 * dayMs).toISOString();
  await api.createKey({ name: hostile.agent, scopes: ['gates:read'], expires_at: soon });
  const delivery = await post(`/webhooks/${hook.webhook_id}/test`, {});
  await sidecar.caughtUp();
  const request = { permission_key: 'orders:create', domain: 'shop.example.com' };
  const check = (more: object) => sidecar.check(gate, passport.jwt, { ...request, ...more });
  await check({ amount: 12.5 });
  await check({ amount: 51 });
  await check({ amount: 5, domain: 'evil.example.org' });
  // A busy machine may answer that it does not know yet; any client asks again.
  const ask = () => check({ amount: 30 });
  const suspended = await untilAnswer(ask, ({ body }) => body.decision === 'SUSPEND', { what: 'a SUSPEND' });
  const { approval_id: approval } = suspended.body;
  const ahead = {
    ...{ gate_id: gate, passport_id: passport.passport_id, permission_key: 'orders:create' },
    ...{ each_usd: 25, total_usd: 25, expires_at: soon, note: hostile.webhook },
  };
  await post('/approvals/standing', ahead);
  const { standing_approval_id: ended } = await post('/approvals/standing', ahead);
  await api.call({ method: 'DELETE', url: `/v1/approvals/standing/${ended}` });
  const held = await untilAnswer(
    () => check({ amount: 8, hold: true }),
    ({ body }) => body.decision === 'PERMIT',
    { what: 'a hold' },
  );
  await check({ amount: 9, hold: true });
  const report = () =>
    api.call({
      url: `/v1/attestations/${held.body.attestation_id}/outcome`,
      body: { outcome: 'served', amount: 2 },
    });
  await untilAnswer(report, ({ status }) => status === 200, { what: 'an outcome' });
  const records = async () => (await api.call({ url: '/v1/attestations' })).body.attestations;
  await until(async () => (await records()).length >= 3, { what: 'three records' });
  const [record] = await records();
  const pass = `/passports/${passport.passport_id}`;
  places = {
    '/approvals': '/approvals?status=denied',
    '/approvals/$id': `/approvals/${approval}`,
    '/holds': `/holds?status=settled&gate_id=${gate}`,
    '/passports': '/passports?status=active&trust_tier=L1',
    '/passports/$id': pass,
    '/gates/$id': `/gates/${gate}`,
    '/attestations': `/attestations?decision=PERMIT&gate_id=${gate}`,
    '/attestations/$id': `/attestations/${record.id}`,
    '/channels/$id': `/channels/${channel.channel_id}`,
    '/mcp-pins/$id': `/mcp-pins/${pins[0].pin_id}`,
    '/wallets/$id': `/wallets/${company}`,
    '/webhooks/$id': `/webhooks/${hook.webhook_id}`,
    '/audit': '/audit?operation=createGate',
    '/discovery': '/discovery?capability=orders&level=L2',
  };
  pages = [
    ['overview', '/'],
    ['overview-hour', '/?span=minute'],
    ['first-request', `/first-request?gate=${gate}`],
    ['first-request-nginx', `/first-request?gate=${gate}&with=nginx`],
    ['approvals', '/approvals'],
    ['approvals-past', '/approvals?status=denied'],
    ['approval', `/approvals/${approval}`],
    ['standing-approvals', '/approvals/standing'],
    ['standing-approvals-ended', '/approvals/standing?status=revoked'],
    ['holds', '/holds'],
    ['holds-settled', '/holds?status=settled'],
    ['passports', '/passports'],
    ['passports-new', '/passports?new=1'],
    ['passport', pass],
    ['passport-chain', `${pass}?tab=chain`],
    ['passport-json', `${pass}?tab=json`],
    ['gates', '/gates'],
    ['gates-new', '/gates?new=1&template=payments-approval'],
    ['gate', `/gates/${gate}`],
    ['gate-policy', `/gates/${gate}?tab=policy`],
    ['gate-dry-run', `/gates/${gate}?tab=dry-run`],
    ['gate-dry-run-none', `/gates/${priced}?tab=dry-run`],
    ['gate-routes', `/gates/${priced}?tab=routes`],
    ['gate-catalog', `/gates/${priced}?tab=catalog`],
    ['gate-try', `/gates/${gate}?tab=try`],
    ['wallets', '/wallets'],
    ['wallets-named', '/wallets?name=alert'],
    ['wallets-new', '/wallets?new=1'],
    ['wallet', `/wallets/${company}`],
    ['wallet-statement', `/wallets/${company}?tab=statement`],
    ['wallet-frozen', `/wallets/${frozen}`],
    ['mcp-pins', '/mcp-pins'],
    ['mcp-pins-pinned', '/mcp-pins?status=pinned'],
    ['mcp-pin', `/mcp-pins/${pins[0].pin_id}`],
    ['log', '/log'],
    ['attestations', '/attestations'],
    ['attestations-period', '/attestations?since=2026-01-01T00%3A00%3A00.000Z'],
    ['attestation', `/attestations/${record.id}`],
    ['verify', '/verify'],
    ['api-keys', '/api-keys'],
    ['api-keys-new', '/api-keys?new=1'],
    ['channels', '/channels'],
    ['channels-new', '/channels?new=1'],
    ['channel', `/channels/${channel.channel_id}`],
    ['webhooks', '/webhooks'],
    ['webhook', `/webhooks/${hook.webhook_id}`],
    ['webhook-delivery', `/webhooks/${hook.webhook_id}?delivery=${delivery.delivery_id}`],
    ['audit', '/audit'],
    ['signing-keys', '/signing-keys'],
    ['issuers', '/issuers'],
    ['templates', '/templates'],
    ['discovery', '/discovery?capability=orders'],
    ['people', '/people'],
    ['people-new', '/people?new=1'],
    ['settings', '/settings'],
    ['missing', '/no-such-page'],
  ];
}

describe('every page', () => {
  it('shows hostile names as text, can be read in light and dark, and fits a phone', async () => {
    const faults: Record<string, readonly string[]> = {};
    for (const [name, path] of pages) {
      await follow(page, path);
      const found = await faultsOf(page, name);
      if (found.length > 0) faults[name] = found;
    }
    expect(faults).toEqual({});
  });

  it('needs less than 200 KB for the first page', async () => {
    const fresh = await world.open({ role: 'owner' });
    let bytes = 0;
    fresh.on('response', (response) => {
      if (new URL(response.url()).pathname.startsWith('/console')) {
        bytes += Number(response.headers()['content-length'] ?? 0);
      }
    });
    await visit(fresh, '/');
    expect(bytes).toBeGreaterThan(50_000);
    expect(bytes).toBeLessThan(200_000);
  });
});

const command = () => page.getByRole('button', { name: 'Copy as curl: this page' });

describe('the tools of a page', () => {
  it.each(Object.keys(pageSources).filter((path) => !ofSession.includes(path)))(
    'copy %s as a command that answers what the page asked for',
    async (path) => {
      await follow(page, places[path] ?? path);
      const copied = await copiedBy(page, command());
      expect(copied).toContain('$AGENT_TRUST_KEY');
      const env = { ...process.env, AGENT_TRUST_KEY: world.api.adminKey };
      const shell = ['-c', `${copied} -w '\\n%{http_code}'`];
      const { stdout } = await promisify(execFile)('sh', shell, { env });
      const [body = '', status] = stdout.split(/\n(?=\d+$)/);
      expect(status, stdout).toBe('200');
      expect(JSON.parse(body)).toEqual(expect.any(Object));
      const wanted = new URL(/'(http[^']+)'/.exec(copied)?.[1] ?? '');
      const isIt = (url: URL) =>
        url.pathname === wanted.pathname &&
        [...wanted.searchParams].every(([name, value]) => url.searchParams.get(name) === value);
      // The keys of an export are fetched with its file.
      if (path !== '/verify') expect([...asked].filter((url) => isIt(new URL(url)))).not.toEqual([]);
    },
  );

  it('lead to its page in the guide, which any browser shows', async () => {
    await follow(page, '/gates');
    const [guide] = await Promise.all([
      page.context().waitForEvent('page'),
      page.getByRole('link', { name: /^Guide/ }).click(),
    ]);
    await guide.getByRole('heading', { name: 'Gates', exact: true }).waitFor();
    expect(guide.url()).toContain('/docs/guide/contract/04-gates#gates');
    await guide.close();
  });

  it('say which pages need a session', async () => {
    await follow(page, '/settings');
    expect(await command().count()).toBe(0);
    await page.getByRole('link', { name: /^Guide/ }).waitFor();
  });
});

describe('the guide', () => {
  it.each([
    '',
    '/contract',
    '/contract/05-enforcement',
    '/integrations/proxies',
    '/operate/hour',
    '/metrics',
  ])('can be read in light and dark, and fits a phone: %s', async (path) => {
    const reader = await world.open();
    await reader.goto(`/docs/guide${path}`);
    await looksGood(reader, `guide${path.replaceAll('/', '-')}`);
    await reader.context().close();
  });
});
