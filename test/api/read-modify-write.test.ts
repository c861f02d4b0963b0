import { describe, expect, it } from 'vitest';
import { expectError } from '../support/service/expect-error.ts';
import { useApi } from '../support/service/use-api.ts';
import { makeWallet } from '../support/service/wallets.ts';

const api = useApi();

const keyFor = (url: string) => (url.startsWith('/v1/accounts') ? api.operatorKey : api.adminKey);
const get = async (url: string) => (await api.call({ url, key: keyFor(url) })).body;
const put = (url: string, body: object) => api.call({ method: 'PUT', url, key: keyFor(url), body });

const webhook = { url: 'https://hooks.example.com/', events: ['gate.created'] };
/** Something that can be changed, and what nobody may change of it. */
const things: readonly (readonly [what: string, make: () => Promise<string>, fixed: readonly string[]])[] = [
  [
    'a gate',
    async () => `/v1/gates/${(await api.createGate({ description: 'a', constraints: {} })).gate_id}`,
    ['gate_id', 'id', 'gate_url', 'created_at', 'updated_at'],
  ],
  [
    'an issuer',
    async () => `/v1/issuers/${(await api.createIssuer({ domain: 'acme.example' })).issuer_id}`,
    ['issuer_id', 'domain', 'created_at'],
  ],
  [
    'a webhook',
    async () => `/v1/webhooks/${(await api.call({ url: '/v1/webhooks', body: webhook })).body.webhook_id}`,
    ['webhook_id', 'created_at', 'updated_at'],
  ],
  [
    'a wallet',
    async () => {
      const parent = await makeWallet(api, { limits: { daily_usd: 10 } });
      const { wallet_id } = await makeWallet(api, {
        parent_wallet_id: parent.wallet_id,
        limits: { daily_usd: 5, requests_per_day: 3 },
      });
      await makeWallet(api, { parent_wallet_id: wallet_id });
      return `/v1/wallets/${wallet_id}`;
    },
    ['wallet_id', 'path', 'status', 'created_at'],
  ],
  [
    'an account',
    async () => `/v1/accounts/${(await api.createAccount({ plan: 'pro' })).accountId}`,
    ['account_id', 'created_at'],
  ],
];

describe.each(things)('PUT of %s', (_what, make, fixed) => {
  it('takes back what GET answers, with a change or without', async () => {
    const url = await make();
    const before = await get(url);
    expect((await put(url, before)).status).toBe(200);
    const read = await get(url);
    const change = 'name' in before ? { name: 'Another' } : { description: 'Another' };
    expect((await put(url, { ...read, ...change })).status).toBe(200);
    const { updated_at: _is, ...after } = await get(url);
    const { updated_at: _was, ...rest } = before;
    expect(after).toEqual({ ...rest, ...change });
  });

  it.each(fixed)('refuses another %s, and changes nothing', async (name) => {
    const url = await make();
    const before = await get(url);
    const change = 'name' in before ? { name: 'Another' } : { description: 'Another' };
    expectError(await put(url, { ...before, ...change, [name]: 'another' }), 'invalid_request', name);
    expect(await get(url)).toEqual(before);
  });
});

it('takes back counts that have moved since, of a gate and of an issuer', async () => {
  const gate = await api.createGate();
  const issuer = await api.createIssuer();
  const urls = [`/v1/gates/${gate.gate_id}`, `/v1/issuers/${issuer.issuer_id}`];
  const read = await Promise.all(urls.map(get));
  const { jwt } = await api.issuePassport({ issuer_id: issuer.issuer_id });
  const request = { permission_key: 'orders:create' };
  await api.call({ url: `${urls[0]}/check`, body: { passport: jwt, request } });
  for (const [index, url] of urls.entries()) {
    expect((await put(url, { ...read[index], name: 'Another' })).status).toBe(200);
  }
  expectError(await put(urls[0] ?? '', { stats: 'none' }), 'invalid_request', 'stats');
});

it('takes back what a wallet and the retention answer that moves by itself', async () => {
  const { wallet_id } = await makeWallet(api, { limits: { daily_usd: 10 } });
  const read = await get(`/v1/wallets/${wallet_id}`);
  const { jwt } = await api.issuePassport({ wallet_id });
  const { gate_id } = await api.createGate();
  const request = { permission_key: 'orders:create', amount: 1 };
  await api.call({ url: `/v1/gates/${gate_id}/check`, body: { passport: jwt, request } });
  expect((await put(`/v1/wallets/${wallet_id}`, { ...read, name: 'Another' })).body).toMatchObject({
    ...{ name: 'Another', limits: { daily_usd: 10 } },
  });
  expectError(await put(`/v1/wallets/${wallet_id}`, { usage: 'none' }), 'invalid_request', 'usage');
  const retention = await get('/v1/attestations/retention');
  expect(await put('/v1/attestations/retention', retention)).toMatchObject({ status: 200, body: retention });
});

it('a null in the patch of a wallet removes: the default counts, and a name stays', async () => {
  const above = await makeWallet(api, { limits: { daily_usd: 10, total_usd: 20 } });
  const { wallet_id } = await makeWallet(api, {
    ...{ parent_wallet_id: above.wallet_id, limits: { daily_usd: 5, total_usd: 5 } },
    ...{ share: 'reserved', alert_at: 0.5, labels: { team: 'a', run: 'b' } },
  });
  const url = `/v1/wallets/${wallet_id}`;
  expectError(await put(url, { name: null, share: null }), 'invalid_request', 'name');
  const some = { share: null, alert_at: null, limits: { total_usd: null }, labels: { run: null } };
  expect((await put(url, some)).body).toMatchObject({
    ...{ share: 'pot', alert_at: 0.8, limits: { daily_usd: 5 }, labels: { team: 'a' } },
  });
  const { body } = await put(url, { parent_wallet_id: null, limits: null, labels: null });
  expect(body).toMatchObject({ name: 'a wallet', parent_wallet_id: null, limits: {}, path: [wallet_id] });
  expect(body).not.toHaveProperty('labels');
});

it('takes the limits of a plan as GET answers them, and no other ones', async () => {
  const { accountId } = await api.createAccount({ plan: 'pro' });
  const url = `/v1/accounts/${accountId}`;
  const read = await get(url);
  const teams = await put(url, { ...read, plan: 'teams' });
  expect(teams.body.limits).toEqual({ requests_per_minute: 300, requests_per_day: 50_000 });
  expectError(await put(url, { ...read, plan: 'teams' }), 'invalid_request', 'limits');
  const enterprise = await put(url, { ...teams.body, plan: 'enterprise' });
  expect(enterprise.body.limits).toEqual(teams.body.limits);
  expect((await put(url, { ...enterprise.body, plan: 'free' })).body.limits.requests_per_minute).toBe(30);
});
