import { expect, it } from 'vitest';
import { expectError } from '../support/service/expect-error.ts';
import { useApi } from '../support/service/use-api.ts';

const api = useApi();

/**
 * The same body with every optional field null must be answered as the body without them, but for ids, keys
 * and times.
 */
const creations: readonly (readonly [url: string, body: object, optional: readonly string[]])[] = [
  ['/v1/issuers', { name: 'a' }, ['domain', 'trust_tier', 'metadata']],
  [
    '/v1/gates',
    { name: 'a', trust_level: 'L1' },
    ['description', 'trust_profile', 'constraints', 'template_id', 'catalog'],
  ],
  ['/v1/templates', { name: 'a' }, ['description', 'trust_level', 'constraints']],
  ['/v1/api-keys', { name: 'a', scopes: ['gates:read'] }, ['expires_at', 'mode']],
  ['/v1/accounts', { name: 'a', plan: 'pro' }, ['limits']],
  ['/v1/webhooks', { url: 'https://hooks.example.com/', events: ['gate.created'] }, ['description']],
  ['/v1/channels', { name: 'a', kind: 'webhook', target: 'https://hooks.example.com/' }, ['gate_id']],
  [
    '/v1/passports',
    { agent_id: 'a', permissions: [] },
    [
      ...['issuer_id', 'agent_name', 'expires_in_days', 'expires_in', 'trust_tier', 'metadata'],
      ...['public_key', 'constraints'],
    ],
  ],
  ['/api/passports', { agent_type: 'custom', permissions: [] }, ['agent_name', 'expires_in', 'trust_tier']],
];

it.each(creations)('POST %s takes null for absent', async (url, body, optional) => {
  const { key } = await api.createAccount();
  const asked = { key: url === '/v1/accounts' ? api.operatorKey : key };
  const nulls = Object.fromEntries(optional.map((name) => [name, null]));
  const given = await api.call({ url, body: { ...body, ...nulls }, ...asked });
  expect(given.status).toBe(201);
  if ('agent_id' in body) await api.call({ method: 'POST', url: `${url}/${given.body.id}/revoke`, key });
  const another = url === '/v1/channels' ? { name: 'b' } : {};
  const without = await api.call({ url, body: { ...body, ...another }, ...asked });
  const shape = (answer: object) =>
    Object.fromEntries(
      Object.entries(answer).map(([name, value]) => [name, isOwn.test(name) ? typeof value : value]),
    );
  expect(shape(given.body)).toEqual(shape(without.body));
});

/** What differs between two things that were made of the same body. */
const isOwn = /^name$|id$|key$|last4|prefix|secret|jwt|_at$|agent_name|subject|gate_url/;

it('takes null for absent within constraints', async () => {
  const constraints = { rate_limits: { requests_per_minute: 5, requests_per_day: null }, spend_limits: null };
  const kept = { rate_limits: { requests_per_minute: 5 } };
  expect((await api.issuePassport({ constraints })).constraints).toEqual(kept);
  expect((await api.createGate({ constraints })).constraints).toEqual(kept);
  const template = await api.call({ url: '/v1/templates', body: { name: 'a', constraints } });
  expect(template.body.constraints).toEqual(kept);
  expectError(
    await api.call({ url: '/v1/templates', body: { name: 'a', constraints: { rate_limit: null } } }),
    'invalid_request',
    'constraints.rate_limit',
  );
});

it('takes null for absent in actions on a resource', async () => {
  const { passport_id } = await api.issuePassport();
  const post = (path: string, body: object) => api.call({ url: `/v1${path}`, body });
  const revoked = await post(`/passports/${passport_id}/revoke`, { reason: null });
  expect(revoked.body.reason).toBe('unspecified');
  const { keyId } = await api.createKey({ scopes: ['gates:read'] });
  expect((await post(`/api-keys/${keyId}/roll`, { overlap_s: null })).status).toBe(200);
  const { issuer_id } = await api.createIssuer({ metadata: { a: null } });
  const nothing = { name: null, metadata: null, status: null };
  const issuer = await api.call({ method: 'PUT', url: `/v1/issuers/${issuer_id}`, body: nothing });
  expect(issuer).toMatchObject({ status: 200, body: { name: expect.any(String), metadata: { a: null } } });
  const { accountId } = await api.createAccount({ limits: { requests_per_day: 9 } });
  const [url, body] = [`/v1/accounts/${accountId}`, { name: null, plan: null, status: null }];
  const changed = await api.call({ method: 'PUT', url, key: api.operatorKey, body });
  expect(changed.body.limits.requests_per_day).toBe(9);
});

it('keeps null that means something of its own', async () => {
  const { issuer_id } = await api.createIssuer();
  const subject = { model: null };
  const machine = { issuer_id, subject, permissions: [], expires_at: null, public_key: null };
  const { body } = await api.call({ url: '/v1/passports', body: machine });
  expect(body).toMatchObject({ expires_at: null, subject: { model: null } });
});

it('refuses null in required fields', async () => {
  const refused = await api.call({ url: '/v1/issuers', body: { name: null } });
  expectError(refused, 'invalid_request', 'name');
});
