import { beforeAll, describe, expect, it } from 'vitest';
import { verifyCatalog } from '../../clients/node/src/verify.ts';
import { must } from '../../shared/errors/assert.ts';
import { parseSnapshot } from '../../shared/wire/sync/sync-schema.ts';
import { expectError } from '../support/service/expect-error.ts';
import { useApi } from '../support/service/use-api.ts';

const api = useApi();
let feed: string;
beforeAll(async () => {
  feed = (await api.call({ url: '/v1/whoami' })).body.account_id;
});

const publish = (gateId: string, permissions: unknown, key?: string) =>
  api.call({
    url: `/v1/gates/${gateId}/catalog`,
    body: { permissions },
    ...(key === undefined ? {} : { key }),
  });
const read = (gateId: string, query = '', headers = {}) =>
  api.call({ url: `/v1/gates/${gateId}/catalog${query}`, key: null, headers });

const priced = (cents: number) => ({ model: 'per_call', price_cents: cents, currency: 'USD' });
const complete = {
  ...{ key: 'orders:create', display_name: 'Create an order', description: 'Buys what is in the basket.' },
  ...{ pricing: { ...priced(25), free_calls: 100 }, category: 'commerce', risk_level: 'medium' },
  ...{ sla: { uptime_basis_points: 9_990, response_time_ms: 250 }, platform_fee: { basis_points: 150 } },
  requires_approval: true,
};
const minimal = { key: 'orders:read' };
const minimalAnswered = {
  ...{ key: 'orders:read', display_name: null, description: null, pricing: null, category: null },
  ...{ risk_level: null, sla: null, platform_fee: null, requires_approval: false },
};

describe('POST /gates/:id/catalog', () => {
  it('201: answers the signed catalog, and all readers get the same', async () => {
    const { gate_id } = await api.createGate();
    const reply = await publish(gate_id, [complete, minimal]);
    expect(reply.status).toBe(201);
    expect(reply.body).toEqual({
      ...{ gate_id, version: 1, permissions: [complete, minimalAnswered] },
      published_at: expect.stringMatching(/\.\d{3}Z$/),
      content_hash: expect.stringMatching(/^sha256:[0-9a-f]{64}$/),
      signature: expect.stringMatching(/^[\w-]{86}$/),
      signing_key_id: expect.stringMatching(/^[\w-]{43}$/),
    });
    const answer = await read(gate_id);
    expect(answer.status).toBe(200);
    expect(answer.body).toEqual(reply.body);
    const jwks = await api.call({ url: '/.well-known/jwks.json', key: null });
    expect(await verifyCatalog(answer.body, jwks.body, { gateId: gate_id })).toMatchObject({ valid: true });
  });

  it('keeps every version, and answers the newest', async () => {
    const { gate_id } = await api.createGate();
    const first = (await publish(gate_id, [complete])).body;
    const second = (await publish(gate_id, [minimal])).body;
    expect([first.version, second.version]).toEqual([1, 2]);
    expect((await read(gate_id)).body).toEqual(second);
    expect((await read(gate_id, '?version=1')).body).toEqual(first);
    expect((await read(gate_id, '?version=2')).body).toEqual(second);
    expectError(await read(gate_id, '?version=3'), 'catalog_not_found');
  });

  it('numbers versions without holes when many publish at once', async () => {
    const { gate_id } = await api.createGate();
    const replies = await Promise.all(
      [1, 2, 3, 4, 5, 6].map((cents) => publish(gate_id, [{ key: 'orders:create', pricing: priced(cents) }])),
    );
    expect(replies.map(({ body }) => body.version).sort()).toEqual([1, 2, 3, 4, 5, 6]);
    const newest = must(
      replies.find(({ body }) => body.version === 6),
      'there is a sixth version',
    );
    expect((await read(gate_id)).body).toEqual(newest.body);
    // The gate began at 1 and rose with each.
    expect((await api.call({ url: `/v1/gates/${gate_id}` })).headers['etag']).toBe('"7"');
  });

  it('sends the sidecars each permission with its price per call in USD, and which require an approval', async () => {
    const { gate_id } = await api.createGate();
    const before = (await api.changes(feed)).length;
    await publish(gate_id, [complete, minimal]);
    await api.call({ method: 'PUT', url: `/v1/gates/${gate_id}`, body: { name: 'New' } });
    const catalog = { 'orders:create': 250_000, 'orders:read': null };
    const common = {
      ...{ gate_id, account_id: feed, mode: 'live', trust_level: 'L1', constraints: {}, catalog },
      catalog_approvals: ['orders:create'],
    };
    const policy = { policy_version: 2, policy_hash: expect.stringMatching(/^sha256:/) };
    const putAt = (version: number) => ({ kind: 'gate.put', body: { ...common, version, ...policy } });
    expect((await api.changes(feed)).slice(before)).toEqual([putAt(2), putAt(3)]);
  });

  it('is in the snapshot that a new sidecar starts from', async () => {
    const { gate_id } = await api.createGate({ catalog: { permissions: [complete, minimal] } });
    const bare = await api.createGate();
    const { key } = await api.createKey({ scopes: ['sidecars:connect'] });
    const { body } = await api.call({ url: '/v1/sync/snapshot', key });
    const snapshot = must(parseSnapshot(body.snapshot), 'a snapshot has its shape');
    const catalogOf = (id: string) => snapshot.gates.find((gate) => gate.gate_id === id)?.catalog;
    expect(catalogOf(gate_id)).toEqual({ 'orders:create': 250_000, 'orders:read': null });
    expect(catalogOf(bare.gate_id)).toBe(null);
  });

  it('fills in the currency of a price', async () => {
    const { gate_id } = await api.createGate();
    const { body } = await publish(gate_id, [{ key: 'a:b', pricing: { model: 'per_call', price_cents: 1 } }]);
    expect(body.permissions[0].pricing).toEqual(priced(1));
  });

  it('keeps and signs unknown members of a catalog; a price of an unknown kind counts as none', async () => {
    const own = { model: 'per_word', price_cents: 'on request', tiers: [{ upTo: 1e21, each: 0.1 }, null] };
    const catalog = {
      pricing: { plan: 'gold', monthly_usd: 9.5, note: null },
      terms: 'https://shop.example/terms',
      permissions: [{ key: 'a:own', pricing: own }, { key: 'a:empty', pricing: {} }, minimal],
    };
    const constraints = { spend_limits: { per_transaction_usd: 10 } };
    const gate = await api.createGate({ catalog, constraints });
    const published = await api.call({ url: `/v1/gates/${gate.gate_id}/catalog`, body: catalog });
    expect(published.status).toBe(201);
    expect(published.body).toMatchObject({
      ...catalog,
      permissions: [
        { ...minimalAnswered, key: 'a:own', pricing: own },
        { ...minimalAnswered, key: 'a:empty', pricing: {} },
        minimalAnswered,
      ],
    });
    const jwks = await api.call({ url: '/.well-known/jwks.json', key: null });
    for (const version of [1, 2]) {
      const { body } = await read(gate.gate_id, `?version=${version}`);
      expect(body).toEqual(version === 1 ? gate.catalog : published.body);
      const expected = { gateId: gate.gate_id };
      expect(await verifyCatalog(body, jwks.body, expected)).toMatchObject({ valid: true });
      const changed = { ...body, terms: 'https://shop.example/other' };
      expect(await verifyCatalog(changed, jwks.body, expected)).toMatchObject({ fault: 'hash_mismatch' });
    }
    const found = await api.call({ url: '/v1/discover?capability=a:own', key: null });
    expect(found.body.results).toMatchObject([{ permission_key: 'a:own', pricing: null }]);
    const ranged = await api.call({ url: '/v1/discover?capability=a:own&max_price_cents=9', key: null });
    expect(ranged.body).toMatchObject({ results: [], total: 0 });
    const { jwt } = await api.issuePassport({ permissions: ['a:own'] });
    const decided = await api.call({
      url: `/v1/gates/${gate.gate_id}/check`,
      body: { passport: jwt, request: { permission_key: 'a:own' } },
    });
    expect(decided.body).toMatchObject({ decision: 'BLOCK', reason: 'amount_missing' });
  });

  it.each(['version', 'signature'])('400: takes no %s, which the service sets', async (name) => {
    const { gate_id } = await api.createGate();
    const body = { permissions: [minimal], [name]: 'x' };
    expectError(await api.call({ url: `/v1/gates/${gate_id}/catalog`, body }), 'invalid_request', name);
    const gate = { name: 'Orders', trust_level: 'L1', catalog: body };
    expectError(await api.call({ url: '/v1/gates', body: gate }), 'invalid_request', `catalog.${name}`);
  });

  it('400: bounds the unknown members of a catalog', async () => {
    const { gate_id } = await api.createGate();
    const body = { permissions: [minimal], note: 'a'.repeat(20_000) };
    expectError(await api.call({ url: `/v1/gates/${gate_id}/catalog`, body }), 'invalid_request', 'body');
  });

  it.each<[unknown, string]>([
    [undefined, 'permissions'],
    [Array(257).fill(minimal), 'permissions'],
    [[{ key: 'orders' }], 'permissions.0.key'],
    [[{ key: 'orders:*' }], 'permissions.0.key'],
    [[{ key: `orders:${'a'.repeat(122)}` }], 'permissions.0.key'],
    [[minimal, complete, minimal], 'permissions.2.key'],
    [[{ ...minimal, requires_approval: 'yes' }], 'permissions.0.requires_approval'],
    [[{ ...minimal, price: 5 }], 'permissions.0.price'],
    [[{ ...minimal, pricing: { model: 'per_call' } }], 'permissions.0.pricing.price_cents'],
    [[{ ...minimal, pricing: { model: 'free', price_cents: 1 } }], 'permissions.0.pricing.price_cents'],
    [[{ ...minimal, pricing: priced(-1) }], 'permissions.0.pricing.price_cents'],
    [[{ ...minimal, pricing: priced(1e11 + 1) }], 'permissions.0.pricing.price_cents'],
    [[{ ...minimal, pricing: { ...priced(1), currency: 'usd' } }], 'permissions.0.pricing.currency'],
    [[{ ...minimal, category: 'orders:create' }], 'permissions.0.category'],
    [
      [{ ...minimal, sla: { uptime_basis_points: 10_001, response_time_ms: 1 } }],
      'permissions.0.sla.uptime_basis_points',
    ],
    [[{ ...minimal, platform_fee: { basis_points: -1 } }], 'permissions.0.platform_fee.basis_points'],
  ])('400: refuses %j, naming %s, and publishes nothing', async (permissions, param) => {
    const { gate_id } = await api.createGate();
    expectError(await publish(gate_id, permissions), 'invalid_request', param);
    expectError(await read(gate_id), 'catalog_not_found');
  });

  it("404: for a gate that is another account's, of the other world, or deleted", async () => {
    const { gate_id } = await api.createGate();
    const other = await api.createAccount();
    const test = await api.createKey({ scopes: ['admin:*'], mode: 'test' });
    expectError(await publish(gate_id, [minimal], other.key), 'gate_not_found');
    expectError(await publish(gate_id, [minimal], test.key), 'gate_not_found');
    await api.call({ method: 'DELETE', url: `/v1/gates/${gate_id}` });
    expectError(await publish(gate_id, [minimal]), 'gate_not_found');
    expectError(await publish('gate_x', [minimal]), 'gate_not_found');
  });
});

describe('POST /gates with a catalog', () => {
  it('201: publishes it with the gate', async () => {
    const gate = await api.createGate({ catalog: { permissions: [complete] } });
    expect(gate.catalog).toMatchObject({ gate_id: gate.gate_id, version: 1, permissions: [complete] });
    expect((await read(gate.gate_id)).body).toEqual(gate.catalog);
    expect(gate.updated_at).toBe(gate.created_at);
    expect((await publish(gate.gate_id, [minimal])).body.version).toBe(2);
  });

  it('400: makes no gate when the catalog is wrong', async () => {
    const before = (await api.call({ url: '/v1/gates' })).body.total;
    const body = {
      ...{ name: 'Orders', trust_level: 'L1', catalog: { permissions: [minimal, { key: 'orders:*' }] } },
    };
    expectError(await api.call({ url: '/v1/gates', body }), 'invalid_request', 'catalog.permissions.1.key');
    expect((await api.call({ url: '/v1/gates' })).body.total).toBe(before);
  });
});

describe('GET /gates/:id/catalog', () => {
  it('is public and cacheable, with the hash as its tag', async () => {
    const { gate_id, catalog } = await api.createGate({ catalog: { permissions: [minimal] } });
    const { headers } = await read(gate_id);
    expect(headers['etag']).toBe(`"${catalog.content_hash}"`);
    expect(headers['cache-control']).toBe('public, max-age=60');
  });

  it.each([
    ['a weak one', (tag: string) => `W/${tag}`, 304],
    ['one of several', (tag: string) => `"a,b", ${tag}`, 304],
    ['another', () => '"sha256:0"', 200],
    ['what is none', (tag: string) => tag.slice(1), 200],
  ])('answers If-None-Match with %s', async (_name, headerOf, status) => {
    const { gate_id, catalog } = await api.createGate({ catalog: { permissions: [minimal] } });
    const tag = `"${catalog.content_hash}"`;
    const reply = await read(gate_id, '', { 'if-none-match': headerOf(tag) });
    expect(reply.status).toBe(status);
    expect(reply.headers['etag']).toBe(tag);
    if (status === 304) expect(reply.body).toBe('');
  });

  it('serves gates of the test world too', async () => {
    const test = await api.createKey({ scopes: ['admin:*'], mode: 'test' });
    const gate = await api.createGate({ catalog: { permissions: [minimal] } }, test.key);
    expect((await read(gate.gate_id)).status).toBe(200);
  });

  it('404: says whether the gate or its catalog is missing', async () => {
    const bare = await api.createGate();
    expectError(await read(bare.gate_id), 'catalog_not_found');
    const gone = await api.createGate({ catalog: { permissions: [minimal] } });
    await api.call({ method: 'DELETE', url: `/v1/gates/${gone.gate_id}` });
    expectError(await read(gone.gate_id), 'gate_not_found');
    expectError(await read(gone.gate_id, '?version=1'), 'gate_not_found');
    expectError(await read('gate_x'), 'gate_not_found');
  });

  it.each(['0', '1.5', ''])('400: refuses the version %j', async (version) => {
    const { gate_id } = await api.createGate({ catalog: { permissions: [minimal] } });
    expectError(await read(gate_id, `?version=${version}`), 'invalid_request', 'version');
  });
});
