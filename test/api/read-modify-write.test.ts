import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Api, startApi } from '../support/api.ts';
import { expectError } from '../support/expect-error.ts';

let api: Api;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.close());

const get = async (url: string) => (await api.call({ url })).body;
const put = (url: string, body: object) => api.call({ method: 'PUT', url, body });

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
