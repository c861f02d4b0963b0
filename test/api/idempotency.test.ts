import { beforeAll, describe, expect, it } from 'vitest';
import { undocumented } from '../support/data/document.ts';
import { type Reply, startOwnApi } from '../support/service/api.ts';
import { goToNoon } from '../support/service/approvals.ts';
import { expectError } from '../support/service/expect-error.ts';
import { askingRules, standingBody } from '../support/service/standing-approvals.ts';
import { useApi } from '../support/service/use-api.ts';

const api = useApi(startOwnApi);
let otherKey: string;
beforeAll(async () => {
  otherKey = (await api.createKey({ scopes: ['admin:*'] })).key;
  shop = (await api.createGate({ catalog: { permissions: [] } })).gate_id;
  ahead = standingBody(api, {
    gate_id: (await api.createGate({ constraints: askingRules })).gate_id,
    passport_id: (await api.issuePassport()).passport_id,
  });
  const request = { permission_key: 'orders:create', amount: 100 };
  const { jwt } = await api.issuePassport({ permissions: ['orders:create'] });
  const gateId = (await api.createGate()).gate_id;
  const checked = await api.call({ url: `/v1/gates/${gateId}/check`, body: { passport: jwt, request } });
  permit = checked.body.attestation_id;
});

let used = 0;
const newKey = () => `key-${used++}`;
const newAgent = () => ({ agent_id: `agent-of-${newKey()}`, permissions: ['orders:create'] });
const urlOf = (path: string) => (path.startsWith('/api/') ? path : `/v1${path}`);
const addressOf = (path: string) => urlOf(path).replace(':id', shop).replace(':permit', permit);
const post = (path: string, body: unknown, idempotencyKey: string, key?: string): Promise<Reply> =>
  api.call({
    method: 'POST',
    url: addressOf(path),
    body,
    headers: { 'idempotency-key': idempotencyKey },
    ...(key === undefined ? {} : { key }),
  });
const isReplayed = (reply: Reply) => reply.headers['idempotent-replayed'] === 'true';
const countOf = async (path: string): Promise<number> => (await api.call({ url: `/v1${path}` })).body.total;

interface Creation {
  readonly path: string;
  readonly body: () => object;
  /** How many there are of what it creates. */
  readonly count: () => Promise<number>;
  /** The answer as it is replayed. */
  readonly withoutSecrets: (answer: Reply['body']) => object;
}
/** `count`: the list that has it, where that is not the path itself. */
const creation = (
  path: string,
  body: () => object,
  { count = path as string | Creation['count'], secret = '' } = {},
): Creation => ({
  path,
  body,
  count: typeof count === 'string' ? () => countOf(count) : count,
  withoutSecrets: ({ [secret]: _, ...rest }) => rest,
});

const offer = { key: 'orders:create', pricing: { model: 'per_call', price_cents: 5, currency: 'USD' } };
let shop: string;
/** A PERMIT of 100 dollars. */
let permit: string;
let ahead: object;
const get = async (path: string) => (await api.call({ url: `/v1${path}` })).body;
const hook = 'https://hooks.example.com/';

const creations: readonly Creation[] = [
  creation('/passports', newAgent, { secret: 'private_key' }),
  creation('/api/passports', () => ({ agent_type: 'custom', permissions: [] }), {
    ...{ count: '/passports', secret: 'private_key' },
  }),
  creation('/gates', () => ({ name: 'Orders', trust_level: 'L1', catalog: { permissions: [offer] } })),
  creation('/gates/:id/catalog', () => ({ permissions: [offer] }), {
    count: async () => (await get(`/gates/${shop}/catalog`)).version,
  }),
  creation('/wallets', () => ({ name: 'a wallet', limits: { daily_usd: 5 } })),
  creation('/approvals/standing', () => ahead),
  creation('/attestations/:permit/refund', () => ({ amount: 1 }), {
    count: async () => (await get(`/attestations/${permit}/outcome`)).refunded_usd,
  }),
  creation('/templates', () => ({ name: 'Mine', constraints: {} })),
  // What only has the name of a secret is kept.
  creation('/issuers', () => ({
    name: 'Acme',
    metadata: { key: 'kept', nested: { secret: 'kept', jwt: 'kept' } },
  })),
  creation('/api-keys', () => ({ name: 'reader', scopes: ['gates:read'] }), { secret: 'key' }),
  creation('/webhooks', () => ({ url: hook, events: ['gate.created'] }), { secret: 'secret' }),
  creation('/channels', () => ({ name: newKey(), kind: 'webhook', target: hook }), { secret: 'secret' }),
  {
    ...creation('/accounts', () => ({ name: 'Other', plan: 'free' })),
    withoutSecrets: ({ api_key: { key, ...api_key }, ...rest }) => ({ ...rest, api_key }),
  },
  creation('/users', () => ({ email: `${newKey()}@example.com`, role: 'auditor' }), {
    secret: 'invitation_url',
  }),
];

/**
 * The other operations. Of these, a roll and a rotation replace a key; asked again, they replace it again. So
 * does an invitation, and what is sent to become a session or to change one's own login has no API key.
 */
const createNothing = `
  attestations/:id/hold/extend attestations/:id/outcome
  passports/:id/revoke passports/:id/suspend passports/:id/reactivate passports/:id/wallet
  wallets/:id/freeze wallets/:id/unfreeze owners/:owner/suspend owners/:owner/reactivate
  issuers/:id/revoke-subject issuers/:id/try-token issuers/:id/events
  gates/:id/test gates/:id/check gates/:id/check/batch enforce receipts
  conditions/check gates/:id/backtest gates/:id/shadow/promote
  api-keys/:id/roll signing-keys/rotate signing-keys/revoke-sidecar-key
  approvals/:id/approve approvals/:id/deny approvals/:id/undo
  mcp-pins mcp-pins/:id/accept mcp-pins/:id/reject channels/:id/test
  webhooks/:id/roll-secret webhooks/:id/test webhooks/:id/deliveries/:delivery_id/resend webhooks/:id/recover
  users/:id/invitation users/:id/confirm invitations/accept invitations/read session session/oidc session/oidc/begin
  session/passkey session/passkey/begin users/me/password
  users/me/totp users/me/totp/confirm users/me/passkeys users/me/passkeys/begin`
  .trim()
  .split(/\s+/)
  .map((path) => `/v1/${path}`);

describe.each(creations)('POST $path', ({ path, body, count, withoutSecrets }) => {
  it('creates once, replays the answer without one-time secrets, and refuses the key for another body', async () => {
    const idempotencyKey = newKey();
    const sent = body();
    const before = await count();
    const first = await post(path, sent, idempotencyKey);
    expect(first.status).toBe(201);
    expect(isReplayed(first)).toBe(false);
    const again = await post(path, sent, idempotencyKey);
    expect(again.status).toBe(201);
    expect(isReplayed(again)).toBe(true);
    expect(again.body).toEqual(withoutSecrets(first.body));
    expect(again.headers['content-type']).toBe(first.headers['content-type']);
    expect(again.headers['x-request-id']).not.toBe(first.headers['x-request-id']);
    expectError(await post(path, { ...sent, name: 'another' }, idempotencyKey), 'idempotency_conflict');
    expect(await count()).toBe(before + 1);
  });
});

it('is taken by every creating operation', () => {
  const posts = api.app.routeScopes.filter(({ method, url }) => method === 'POST' && !undocumented.test(url));
  const listed = [...creations.map(({ path }) => urlOf(path).replace(':permit', ':id')), ...createNothing];
  expect(posts.map(({ url }) => url).toSorted()).toEqual(listed.toSorted());
});

describe('a key', () => {
  it('belongs to the API key that sent it', async () => {
    const idempotencyKey = newKey();
    const one = await post('/issuers', { name: 'one' }, idempotencyKey);
    const other = await post('/issuers', { name: 'other' }, idempotencyKey, otherKey);
    expect([one.status, other.status]).toEqual([201, 201]);
    expect(other.body.issuer_id).not.toBe(one.body.issuer_id);
    expect(isReplayed(await post('/issuers', { name: 'other' }, idempotencyKey, otherKey))).toBe(true);
    expectError(await post('/issuers', { name: 'one' }, idempotencyKey, otherKey), 'idempotency_conflict');
  });

  it('409: belongs to one path', async () => {
    const idempotencyKey = newKey();
    const body = { name: 'Orders', trust_level: 'L1' };
    await post('/gates', body, idempotencyKey);
    expectError(await post('/issuers', body, idempotencyKey), 'idempotency_conflict');
    const unattended = { agent_type: 'custom', permissions: [] };
    const another = newKey();
    await post('/passports', unattended, another);
    expectError(await post('/api/passports', unattended, another), 'idempotency_conflict');
  });

  it('compares the meaning of a body, not its formatting', async () => {
    const idempotencyKey = newKey();
    await post('/issuers', '{"name":"Acme","metadata":{"a":1.0,"b":[2]}}', idempotencyKey);
    const again = await post(
      '/issuers',
      ' {"metadata": {"b": [2e0], "a": 1}, "name": "\\u0041cme"}',
      idempotencyKey,
    );
    expect(isReplayed(again)).toBe(true);
    const other = await post('/issuers', '{"name":"Acme","metadata":{"a":1,"b":[3]}}', idempotencyKey);
    expectError(other, 'idempotency_conflict');
  });

  it('may have 1 to 128 visible characters', async () => {
    for (const idempotencyKey of ['!', '"quoted"', '~'.repeat(128)]) {
      expect((await post('/issuers', { name: 'a' }, idempotencyKey)).status).toBe(201);
      expect(isReplayed(await post('/issuers', { name: 'a' }, idempotencyKey))).toBe(true);
    }
  });

  it.each([
    ['an empty one', ''],
    ['one with a space', 'a b'],
    ['letters beyond ASCII', 'schl\u00fcssel'],
    ['129 characters', 'a'.repeat(129)],
  ])('400: is refused as %s, and nothing is created', async (_what, idempotencyKey) => {
    const before = await countOf('/issuers');
    expectError(await post('/issuers', { name: 'a' }, idempotencyKey), 'invalid_request', 'Idempotency-Key');
    expect(await countOf('/issuers')).toBe(before);
  });

  it('400: is refused before the body is read, and given twice', async () => {
    const headers = { 'idempotency-key': 'a b' };
    expectError(
      await api.call({ url: '/v1/issuers', body: '{"broken', headers }),
      'invalid_request',
      'Idempotency-Key',
    );
    const twice = await api.app.inject({
      method: 'POST',
      url: '/v1/issuers',
      headers: {
        authorization: `Bearer ${api.adminKey}`,
        'idempotency-key': ['a', 'b'] as unknown as string,
      },
      payload: { name: 'a' },
    });
    expect(twice.json().error).toMatchObject({ code: 'invalid_request', param: 'idempotency-key' });
  });

  it('means nothing to operations that create nothing', async () => {
    const { id } = await api.issuePassport();
    const headers = { 'idempotency-key': 'not a valid one' };
    for (const what of ['suspend', 'reactivate', 'revoke']) {
      const reply = await api.call({ method: 'POST', url: `/v1/passports/${id}/${what}`, headers });
      expect(reply.status).toBe(200);
      expect(isReplayed(reply)).toBe(false);
    }
    expect((await api.call({ url: '/v1/gates', headers })).status).toBe(200);
  });
});

describe('a refusal', () => {
  it.each<[string, string, () => object, number]>([
    ['by the schema', '/issuers', () => ({ name: 5 }), 400],
    ['by the reader of the body', '/passports', () => ({ ...newAgent(), expires_in: '1w' }), 400],
    ['of an agent that has a passport', '/passports', () => ({ agent_id: 'taken', permissions: [] }), 409],
  ])('%s is replayed, with the id of the request that was refused', async (_what, path, body, status) => {
    if (status === 409) await api.call({ url: '/v1/passports', body: body() });
    const idempotencyKey = newKey();
    const sent = body();
    const first = await post(path, sent, idempotencyKey);
    expect(first.status).toBe(status);
    expect(isReplayed(first)).toBe(false);
    const again = await post(path, sent, idempotencyKey);
    expect(again.status).toBe(status);
    expect(isReplayed(again)).toBe(true);
    expect(again.body).toEqual(first.body);
    expect(again.body.error.request_id).toBe(first.headers['x-request-id']);
    expect(again.headers['x-request-id']).not.toBe(first.headers['x-request-id']);
    expectError(await post('/issuers', { name: 'a' }, idempotencyKey), 'idempotency_conflict');
  });

  it('stays, also where the same request would now succeed', async () => {
    const idempotencyKey = newKey();
    const sent = { agent_id: 'freed', permissions: [] };
    const { id } = await api.issuePassport({ agent_id: 'freed' });
    expectError(await post('/passports', sent, idempotencyKey), 'agent_id_conflict', 'agent_id');
    await api.call({ method: 'POST', url: `/v1/passports/${id}/revoke` });
    expect((await post('/passports', sent, idempotencyKey)).body.error.code).toBe('agent_id_conflict');
    expect((await post('/passports', sent, newKey())).status).toBe(201);
  });

  it('of a body that cannot be read keeps nothing', async () => {
    const idempotencyKey = newKey();
    expectError(await post('/issuers', '{"name":', idempotencyKey), 'invalid_json');
    expectError(await post('/issuers', `{"name":"${'a'.repeat(70_000)}"}`, idempotencyKey), 'body_too_large');
    expect((await post('/issuers', { name: 'a' }, idempotencyKey)).status).toBe(201);
  });

  it('for want of a right (401, 403) keeps nothing', async () => {
    const idempotencyKey = newKey();
    const weak = await api.createKey({ scopes: ['keys:manage'] });
    const wanted = { name: 'a', scopes: ['gates:read'] };
    // Refused by the operation itself, where the body is known: the key holds the scope of the route.
    for (let i = 0; i < 2; i++) {
      const reply = await post('/api-keys', wanted, idempotencyKey, weak.key);
      expectError(reply, 'insufficient_scope', 'scopes');
      expect(isReplayed(reply)).toBe(false);
    }
    expectError(await post('/issuers', { name: 'a' }, idempotencyKey, weak.key), 'insufficient_scope');
    await api.call({ method: 'DELETE', url: `/v1/api-keys/${weak.keyId}` });
    expectError(await post('/issuers', { name: 'a' }, idempotencyKey, weak.key), 'unauthorized');
    const rows = await api.deps.sql`SELECT 1 FROM idempotent_answers WHERE key_id = ${weak.keyId}`;
    expect(rows).toHaveLength(0);
  });

  it('for want of requests in the plan (429) keeps nothing, and takes no place of an answer', async () => {
    // In one minute, of one day, until the clock is moved.
    goToNoon(api);
    api.stopClock();
    const limits = { requests_per_minute: 2, requests_per_day: 4 };
    const { key } = await api.createAccount({ limits });
    const idempotencyKey = newKey();
    const first = await post('/issuers', { name: 'a' }, idempotencyKey, key);
    expect(first.status).toBe(201);
    await api.call({ url: '/v1/issuers', key });
    const refused = await post('/issuers', { name: 'a' }, idempotencyKey, key);
    expectError(refused, 'rate_limited');
    api.advance(60_000);
    const replayed = await post('/issuers', { name: 'a' }, idempotencyKey, key);
    expect(isReplayed(replayed)).toBe(true);
    expect(replayed.body).toEqual(first.body);
  });
});

describe('after 24 hours', () => {
  const dayMs = 24 * 60 * 60 * 1_000;

  it('a key is unknown again, not before', async () => {
    const idempotencyKey = newKey();
    const first = await post('/issuers', { name: 'a' }, idempotencyKey);
    api.advance(dayMs - 60_000);
    expect((await post('/issuers', { name: 'a' }, idempotencyKey)).body).toEqual(first.body);
    api.advance(60_000);
    const later = await post('/issuers', { name: 'another' }, idempotencyKey);
    expect(later.status).toBe(201);
    expect(isReplayed(later)).toBe(false);
    expect(isReplayed(await post('/issuers', { name: 'another' }, idempotencyKey))).toBe(true);
  });

  it('answers are removed, a few with each new one', async () => {
    for (let i = 0; i < 12; i++) await post('/issuers', { name: 'a' }, newKey());
    api.advance(dayMs);
    const expired = async () =>
      (
        await api.deps
          .sql`SELECT 1 FROM idempotent_answers WHERE created_at_ms <= ${api.deps.clock.now() - dayMs}`
      ).length;
    const before = await expired();
    expect(before).toBeGreaterThan(10);
    await post('/issuers', { name: 'a' }, newKey());
    expect(await expired()).toBe(before - 10);
    while ((await expired()) > 0) await post('/issuers', { name: 'a' }, newKey());
  });
});

describe('the stored answer', () => {
  it('holds no secret, and the token only sealed', async () => {
    const answers = [
      await post('/passports', newAgent(), 'stored-passport'),
      await post('/api-keys', { name: 'a', scopes: ['gates:read'] }, 'stored-api-key'),
      await post('/accounts', { name: 'a', plan: 'pro' }, 'stored-account'),
    ];
    const rows = await api.deps.sql<{ text: string }[]>`
      SELECT a::text AS text FROM idempotent_answers a WHERE idempotency_key LIKE 'stored-%'`;
    const stored = rows.map(({ text }) => text).join('\n');
    const [passport, apiKey, account] = answers.map(({ body }) => body);
    expect(stored).toContain(passport.passport_id);
    expect(stored).toContain(apiKey.key_id);
    expect(stored).toContain(account.api_key.key_id);
    for (const secret of [
      passport.private_key.slice('ed25519_private:'.length),
      ...passport.jwt.split('.'),
      apiKey.key.slice('at_live_'.length + 4),
      account.api_key.key.slice('at_live_'.length + 4),
    ]) {
      expect(secret.length).toBeGreaterThan(20);
      expect(stored).not.toContain(secret);
    }
  });

  it('opens in its own row only', async () => {
    const sent = newAgent();
    await post('/passports', sent, 'sealed-here');
    const stranger = await post('/passports', newAgent(), 'sealed-there');
    await api.deps.sql`
      UPDATE idempotent_answers SET body = (SELECT body FROM idempotent_answers WHERE idempotency_key = 'sealed-there')
      WHERE idempotency_key = 'sealed-here'`;
    const reply = await post('/passports', sent, 'sealed-here');
    expectError(reply, 'internal_error');
    expect(JSON.stringify(reply.body)).not.toContain(stranger.body.jwt);
  });
});
