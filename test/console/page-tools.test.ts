import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { pageSources } from '../../console/src/page-sources.ts';
import {
  copiedBy,
  follow,
  screenshot,
  show,
  startConsole,
  type TestConsole,
  violations,
  visit,
} from '../support/console.ts';

/** Pages whose request needs the session of the person: no command can make it. */
const ofSession = ['/settings'];

let world: TestConsole;
let page: Page;
/** An address of each page, with filters where it has some. */
let places: Readonly<Record<string, string>>;
/** What the console has asked for: a page may show what another one has read. */
const asked = new Set<string>();

beforeAll(async () => {
  world = await startConsole({ outbound: { allowPrivate: true } });
  const { api } = world;
  const post = async (url: string, body: object) => (await api.call({ url: `/v1${url}`, body })).body;
  const { gate_id: gate } = await api.createGate({ constraints: { approvals: { above_usd: 20 } } });
  const { passport_id, jwt } = await api.issuePassport({ permissions: ['orders:create'] });
  const check = (amount: number) =>
    post(`/gates/${gate}/check`, { passport: jwt, request: { permission_key: 'orders:create', amount } });
  const { attestation_id } = await check(5);
  const { approval_id } = await check(30);
  const hook = { url: 'http://127.0.0.1:9/hook', events: ['approval.requested'] };
  const { webhook_id } = await post('/webhooks', hook);
  const { wallet_id } = await post('/wallets', { name: 'Company', limits: { daily_usd: 100 } });
  const { channel_id } = await post('/channels', { name: 'desk', kind: 'webhook', target: hook.url });
  const tools = [{ definition: JSON.stringify({ description: 'Searches.', name: 'search' }) }];
  const { pins } = await post('/mcp-pins', {
    gate_id: gate,
    upstream: 'http://127.0.0.1:9/mcp',
    tools,
    is_whole: true,
  });
  places = {
    '/approvals': '/approvals?status=denied',
    '/approvals/$id': `/approvals/${approval_id}`,
    '/holds': `/holds?status=settled&gate_id=${gate}`,
    '/passports': '/passports?status=active&trust_tier=L1',
    '/passports/$id': `/passports/${passport_id}`,
    '/gates/$id': `/gates/${gate}`,
    '/attestations': `/attestations?decision=PERMIT&gate_id=${gate}`,
    '/attestations/$id': `/attestations/${attestation_id}`,
    '/channels/$id': `/channels/${channel_id}`,
    '/mcp-pins/$id': `/mcp-pins/${pins[0].pin_id}`,
    '/wallets/$id': `/wallets/${wallet_id}`,
    '/webhooks/$id': `/webhooks/${webhook_id}`,
    '/audit': '/audit?operation=createGate',
    '/discovery': '/discovery?capability=orders&level=L2',
  };
  page = await world.open({ role: 'owner' });
  page.on('request', (request) => asked.add(request.url()));
  await visit(page, '/settings');
});
afterAll(() => world?.close());

const command = () => page.getByRole('button', { name: 'Copy as curl: this page' });

describe('each page', () => {
  it.each(Object.keys(pageSources).filter((path) => !ofSession.includes(path)))(
    '%s can be copied as a command that answers what the page asked for',
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

  it('leads to its page in the guide, which any browser shows', async () => {
    await follow(page, '/gates');
    const [guide] = await Promise.all([
      page.context().waitForEvent('page'),
      page.getByRole('link', { name: /^Guide/ }).click(),
    ]);
    await guide.getByRole('heading', { name: 'Gates', exact: true }).waitFor();
    expect(guide.url()).toContain('/docs/guide/contract#gates');
    await guide.close();
  });

  it('says which pages need a session', async () => {
    await follow(page, '/settings');
    expect(await command().count()).toBe(0);
    await page.getByRole('link', { name: /^Guide/ }).waitFor();
  });
});

/** What can differ on a phone. */
const phoneRules = ['target-size', 'scrollable-region-focusable'];

describe('the guide', () => {
  it.each(['', '/contract', '/integrations/proxies', '/operate/hour', '/metrics'])(
    'can be read in light and dark, and fits a phone: %s',
    async (path) => {
      const reader = await world.open();
      await reader.goto(`/docs/guide${path}`);
      const faults: string[] = [];
      for (const isDark of [false, true]) {
        for (const isPhone of [false, true]) {
          await show(reader, { isDark, isPhone });
          // The contract is longer than a picture can be.
          if (path !== '/contract')
            await screenshot(reader, `guide${path.replaceAll('/', '-')}-${isDark}-${isPhone}`);
          // The elements are the same in each look.
          const rules = isDark ? ['color-contrast'] : isPhone ? phoneRules : undefined;
          faults.push(...(await violations(reader, rules)));
        }
      }
      expect(faults).toEqual([]);
      await reader.context().close();
    },
  );
});
