import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { verifyDiscoveryResult } from '../../clients/node/src/verify.ts';
import { discoveryLimits } from '../../control-plane/discovery/limits.ts';
import { type Api, startApi } from '../support/api.ts';
import { expectError } from '../support/expect-error.ts';
import { expectSoundDatabase } from '../support/sound-database.ts';

let api: Api;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.close());

const discover = (query: Readonly<Record<string, string>>) =>
  api.call({ url: `/v1/discover?${new URLSearchParams(query)}`, key: null });
const found = async (query: Readonly<Record<string, string>>): Promise<string[]> => {
  const reply = await discover(query);
  expect(reply.status).toBe(200);
  expect(reply.body.total).toBe(reply.body.results.length);
  return reply.body.results.map((each: { gate_name: string }) => each.gate_name);
};

let areas = 0;
/** An area of the test's own, so that tests do not see each other's gates. */
const newArea = () => `area${areas++}`;
const pricing = (cents: number, model = 'per_call', currency = 'USD') => ({
  model,
  price_cents: cents,
  currency,
});
const sla = (uptime: number, responseMs: number) => ({
  uptime_basis_points: uptime,
  response_time_ms: responseMs,
});

const gateWith = (name: string, entries: readonly object[], more: object = {}, key?: string) =>
  api.createGate({ name, catalog: { permissions: entries }, ...more }, key);

/** Gates that differ in one thing each. */
async function market() {
  const area = newArea();
  const key = `${area}:create`;
  await gateWith('cheap', [{ key, pricing: pricing(1), sla: sla(9_000, 900) }]);
  await gateWith('dear', [{ key, pricing: pricing(100), sla: sla(9_999, 50) }], { trust_level: 'L3' });
  await gateWith('by the minute', [{ key, pricing: pricing(10, 'per_minute'), sla: sla(9_900, 50) }]);
  await gateWith('in euro', [{ key, pricing: pricing(5, 'per_call', 'EUR'), sla: sla(9_900, 100) }]);
  await gateWith('unpriced', [{ key, sla: sla(9_950, 10) }], { trust_level: 'L2' });
  await gateWith('without sla', [{ key, pricing: pricing(10) }]);
  return { area, key };
}

describe('GET /discover', () => {
  it('answers all that there is to say about an offer, and it verifies', async () => {
    const area = newArea();
    const entry = {
      key: `${area}:create`,
      display_name: 'Create',
      description: 'Creates.',
      pricing: { ...pricing(25), free_calls: 100 },
      category: 'commerce',
      risk_level: 'low',
      sla: sla(9_990, 250),
      platform_fee: { basis_points: 150 },
    };
    const gate = await gateWith('Orders', [entry], { trust_level: 'L2' });
    const { status, body } = await discover({ capability: entry.key });
    expect(status).toBe(200);
    expect(body).toEqual({
      results: [
        {
          gate_id: gate.gate_id,
          gate_name: 'Orders',
          permission_key: entry.key,
          display_name: 'Create',
          description: 'Creates.',
          category: 'commerce',
          risk_level: 'low',
          security_profile: 'L2',
          pricing: pricing(25),
          sla: sla(9_990, 250),
          platform_fee: { basis_points: 150 },
          catalog_version: 1,
          catalog_content_hash: gate.catalog.content_hash,
          catalog_signature: gate.catalog.signature,
          signing_key_id: gate.catalog.signing_key_id,
        },
      ],
      total: 1,
      next_cursor: null,
      query: { capability: entry.key, currency: 'USD', sort: 'price_asc', limit: 50, offset: 0 },
    });
    const jwks = await api.call({ url: '/.well-known/jwks.json', key: null });
    const catalog = (await api.call({ url: `/v1/gates/${gate.gate_id}/catalog?version=1`, key: null })).body;
    const verdict = await verifyDiscoveryResult(body.results[0], catalog, jwks.body);
    expect(verdict).toMatchObject({ valid: true });
  });

  it('answers null for what an entry does not say', async () => {
    const area = newArea();
    await gateWith('Orders', [{ key: `${area}:create` }]);
    expect((await discover({ capability: area })).body.results[0]).toMatchObject({
      display_name: null,
      description: null,
      category: null,
      risk_level: null,
      pricing: null,
      sla: null,
      platform_fee: null,
    });
  });

  it('matches a permission key, a bare area or a category, and no part of them', async () => {
    const area = newArea();
    const category = `${area}-category`;
    await gateWith('a', [{ key: `${area}:create`, category }]);
    await gateWith('b', [{ key: `${area}:read` }]);
    await gateWith('c', [{ key: `other-${area}:create`, category }]);
    await gateWith('d', [{ key: `${area}:delete`, category: area }]);
    expect(await found({ capability: `${area}:create` })).toEqual(['a']);
    expect(await found({ capability: area })).toEqual(['a', 'b', 'd']);
    expect(await found({ capability: category })).toEqual(['a', 'c']);
    for (const capability of [`${area}:`, `${area}:*`, ':create', 'create', `${area}:create `, '%', 'no']) {
      expect(await found({ capability })).toEqual([]);
    }
    expect((await discover({ capability: area })).body.results[2].category).toBe(area);
  });

  it.each<[Record<string, string>, string[]]>([
    [{}, ['cheap', 'by the minute', 'without sla', 'dear', 'unpriced']],
    [{ sort: 'price_asc' }, ['cheap', 'by the minute', 'without sla', 'dear', 'unpriced']],
    [{ sort: 'price_desc' }, ['dear', 'by the minute', 'without sla', 'cheap', 'unpriced']],
    [{ sort: 'uptime_desc' }, ['dear', 'unpriced', 'by the minute', 'cheap', 'without sla']],
    [{ sort: 'response_asc' }, ['unpriced', 'dear', 'by the minute', 'cheap', 'without sla']],
    [{ currency: 'EUR' }, ['in euro', 'unpriced']],
    [{ currency: 'EUR', max_price_cents: '5' }, ['in euro']],
    [{ currency: 'JPY' }, ['unpriced']],
    [{ max_price_cents: '10' }, ['cheap', 'by the minute', 'without sla']],
    [{ max_price_cents: '9' }, ['cheap']],
    [{ max_price_cents: '10', sort: 'price_desc' }, ['by the minute', 'without sla', 'cheap']],
    [{ max_price_cents: '0' }, []],
    [{ max_price_cents: '9007199254740991' }, ['cheap', 'by the minute', 'without sla', 'dear']],
    [{ pricing_model: 'per_minute' }, ['by the minute']],
    [{ pricing_model: 'per_call' }, ['cheap', 'without sla', 'dear']],
    [{ pricing_model: 'per_call', currency: 'EUR' }, ['in euro']],
    [{ pricing_model: 'subscription' }, []],
    [{ min_uptime_bp: '9950' }, ['dear', 'unpriced']],
    [{ min_uptime_bp: '0' }, ['cheap', 'by the minute', 'dear', 'unpriced']],
    [{ min_uptime_bp: '10000' }, []],
    [{ max_response_time_ms: '50' }, ['by the minute', 'dear', 'unpriced']],
    [{ max_response_time_ms: '49' }, ['unpriced']],
    [{ max_response_time_ms: '9007199254740991' }, ['cheap', 'by the minute', 'dear', 'unpriced']],
    [{ min_security_profile: 'L1' }, ['cheap', 'by the minute', 'without sla', 'dear', 'unpriced']],
    [{ min_security_profile: 'L2' }, ['dear', 'unpriced']],
    [{ min_security_profile: 'L3' }, ['dear']],
    [{ min_security_profile: 'L2', max_price_cents: '100', min_uptime_bp: '9999' }, ['dear']],
  ])('%j finds %j', async (filters, names) => {
    const { area, key } = await market();
    expect(await found({ capability: key, ...filters })).toEqual(names);
    expect(await found({ capability: area, ...filters })).toEqual(names);
  });

  it('breaks ties by the gate, and within a gate by the key, in every order', async () => {
    const area = newArea();
    const gates = [];
    for (const name of ['1', '2', '3']) {
      const entries = ['b', 'a'].map((action) => ({
        key: `${area}:${action}`,
        pricing: pricing(5),
        sla: sla(9_000, 100),
      }));
      gates.push((await gateWith(name, entries)).gate_id);
    }
    const wanted = gates.sort().flatMap((gateId) => [`${gateId} ${area}:a`, `${gateId} ${area}:b`]);
    for (const sort of ['price_asc', 'price_desc', 'uptime_desc', 'response_asc']) {
      const { results } = (await discover({ capability: area, sort })).body;
      expect(
        results.map((each: Record<string, string>) => `${each['gate_id']} ${each['permission_key']}`),
      ).toEqual(wanted);
    }
  });

  it.each(['price_asc', 'price_desc', 'uptime_desc', 'response_asc'])(
    'pages through %s without a gap or a repeat, and counts all',
    async (sort) => {
      const { area } = await market();
      const whole = (await discover({ capability: area, sort })).body.results;
      const pages = [];
      for (const offset of [0, 2, 4, 6]) {
        const { body } = await discover({ capability: area, sort, limit: '2', offset: String(offset) });
        expect(body.total).toBe(5);
        expect(body.query).toMatchObject({ limit: 2, offset });
        pages.push(...body.results);
      }
      expect(pages).toEqual(whole);
    },
  );

  it.each(['price_asc', 'price_desc', 'uptime_desc', 'response_asc'])(
    'walks %s by cursor without a gap or a repeat, whatever the length of each page',
    async (sort) => {
      const { area } = await market();
      const whole = (await discover({ capability: area, sort })).body;
      expect(whole.next_cursor).toBeNull();
      for (const limits of [[1], [2], [1, 3], [5]]) {
        const pages = [];
        let more: { cursor?: string } = {};
        for (let turn = 0; ; turn++) {
          const limit = String(limits[turn % limits.length]);
          const { body } = await discover({ capability: area, sort, limit, ...more });
          expect(body.total).toBe(5);
          pages.push(...body.results);
          if (body.next_cursor === null) break;
          more = { cursor: body.next_cursor };
        }
        expect(pages).toEqual(whole.results);
      }
    },
  );

  it('400: takes a cursor of the same query only, as it was given, and without an offset', async () => {
    const { area } = await market();
    const asked = { capability: area, limit: '2' };
    const cursor: string = (await discover(asked)).body.next_cursor;
    expect((await discover({ ...asked, cursor })).status).toBe(200);
    expectError(await discover({ ...asked, cursor, offset: '1' }), 'invalid_request', 'offset');
    const place = JSON.parse(Buffer.from(cursor, 'base64url').toString());
    const moved = Buffer.from(JSON.stringify([0, ...place.slice(1)])).toString('base64url');
    for (const wrong of [moved, cursor.slice(1), `${cursor}=`, 'AAAA', '']) {
      expectError(await discover({ ...asked, cursor: wrong }), 'invalid_request', 'cursor');
    }
    for (const other of [{ sort: 'price_desc' }, { currency: 'EUR' }, { capability: 'elsewhere' }]) {
      expectError(await discover({ ...asked, ...other, cursor }), 'invalid_request', 'cursor');
    }
  });

  it('echoes the query', async () => {
    const query = {
      capability: 'nothing',
      max_price_cents: '5',
      min_uptime_bp: '9000',
      max_response_time_ms: '100',
      pricing_model: 'per_call',
      currency: 'EUR',
      min_security_profile: 'L2',
      sort: 'uptime_desc',
      limit: '7',
      offset: '3',
    };
    const numbers = {
      max_price_cents: 5,
      min_uptime_bp: 9_000,
      max_response_time_ms: 100,
      limit: 7,
      offset: 3,
    };
    expect((await discover(query)).body).toEqual({
      results: [],
      total: 0,
      next_cursor: null,
      query: { ...query, ...numbers },
    });
  });

  it.each<[string, string]>([
    ['', 'capability'],
    ['capability=', 'capability'],
    [`capability=${'a'.repeat(129)}`, 'capability'],
    ['capability=a&capability=b', 'capability'],
    ['capability=a&max_price_cents=x', 'max_price_cents'],
    ['capability=a&max_price_cents=-1', 'max_price_cents'],
    ['capability=a&max_price_cents=1.5', 'max_price_cents'],
    ['capability=a&max_price_cents=', 'max_price_cents'],
    ['capability=a&max_price_cents=99999999999999999', 'max_price_cents'],
    ['capability=a&min_uptime_bp=10001', 'min_uptime_bp'],
    ['capability=a&min_uptime_bp=99.9', 'min_uptime_bp'],
    ['capability=a&max_response_time_ms=-5', 'max_response_time_ms'],
    ['capability=a&pricing_model=free', 'pricing_model'],
    ['capability=a&currency=usd', 'currency'],
    ['capability=a&currency=', 'currency'],
    ['capability=a&min_security_profile=L4', 'min_security_profile'],
    ['capability=a&sort=price', 'sort'],
    ['capability=a&limit=0', 'limit'],
    ['capability=a&limit=201', 'limit'],
    ['capability=a&offset=-1', 'offset'],
    ['capability=a&offset=1001', 'offset'],
    ['capability=a&max_price=5', 'max_price'],
    ['capability=a%00', 'capability'],
  ])('400: refuses ?%s, naming %s', async (query, param) => {
    expectError(await api.call({ url: `/v1/discover?${query}`, key: null }), 'invalid_request', param);
  });
});

describe('discovery', () => {
  it('is the newest catalog only', async () => {
    const area = newArea();
    const gate = await gateWith('a', [
      { key: `${area}:old`, category: `${area}-old` },
      { key: `${area}:both`, pricing: pricing(1) },
    ]);
    await api.call({
      url: `/v1/gates/${gate.gate_id}/catalog`,
      body: { permissions: [{ key: `${area}:both`, pricing: pricing(2) }, { key: `${area}:new` }] },
    });
    const { results } = (await discover({ capability: area })).body;
    expect(
      results.map((each: { permission_key: string; catalog_version: number }) => [
        each.permission_key,
        each.catalog_version,
      ]),
    ).toEqual([
      [`${area}:both`, 2],
      [`${area}:new`, 2],
    ]);
    expect(await found({ capability: `${area}:old` })).toEqual([]);
    expect(await found({ capability: `${area}-old` })).toEqual([]);
  });

  it('goes with the name and the level of the gate', async () => {
    const area = newArea();
    const gate = await gateWith('old', [{ key: `${area}:a` }]);
    const body = { name: 'new', trust_level: 'L3' };
    await api.call({ method: 'PUT', url: `/v1/gates/${gate.gate_id}`, body });
    expect(await found({ capability: area, min_security_profile: 'L3' })).toEqual(['new']);
    expect((await discover({ capability: area })).body.results[0].security_profile).toBe('L3');
  });

  it('is no gate that is deleted, of the test world, or without a catalog', async () => {
    const area = newArea();
    const test = await api.createKey({ scopes: ['admin:*'], mode: 'test' });
    await gateWith('test', [{ key: `${area}:a` }], {}, test.key);
    await api.createGate({ name: 'bare' });
    const gone = await gateWith('gone', [{ key: `${area}:a` }]);
    expect(await found({ capability: area })).toEqual(['gone']);
    await api.call({ method: 'DELETE', url: `/v1/gates/${gone.gate_id}` });
    expect(await found({ capability: area })).toEqual([]);
  });

  it("is every account's", async () => {
    const area = newArea();
    const other = await api.createAccount();
    await gateWith('ours', [{ key: `${area}:a` }]);
    await gateWith('theirs', [{ key: `${area}:a` }], {}, other.key);
    expect(await found({ capability: area })).toEqual(['ours', 'theirs']);
  });

  it('is no gate of a suspended account, also of one that is made or publishes at that moment, until it is active again', async () => {
    const area = newArea();
    const entries = { permissions: [{ key: `${area}:a`, category: area }, { key: `${area}:b` }] };
    const { accountId, key } = await api.createAccount();
    const gate = await gateWith('old', [{ key: `${area}:a` }], {}, key);
    for (let more = 0; more < discoveryLimits.discoveryGatesPerStepMax; more++)
      await gateWith('more', [], {}, key);
    const last = await gateWith('last', [{ key: `${area}:a` }], {}, key);
    await gateWith('ours', [{ key: `${area}:a` }]);
    const setStatus = (status: string) =>
      api.call({ method: 'PUT', url: `/v1/accounts/${accountId}`, body: { status } });
    const meanwhile = [
      api.call({ url: '/v1/gates', body: { name: 'new', trust_level: 'L1', catalog: entries }, key }),
      ...[gate, last].map(({ gate_id }) =>
        api.call({ url: `/v1/gates/${gate_id}/catalog`, body: entries, key }),
      ),
    ];
    expect((await setStatus('suspended')).status).toBe(200);
    await Promise.all(meanwhile);
    expect(await found({ capability: area })).toEqual(['ours']);
    expect((await setStatus('active')).status).toBe(200);
    expect(await found({ capability: `${area}:a` })).toEqual(expect.arrayContaining(['old', 'last', 'ours']));
    // As a crash right after the suspension leaves it: saying it once more mends it.
    await api.deps.sql`UPDATE accounts SET status = 'suspended' WHERE account_id = ${accountId}`;
    await setStatus('suspended');
    expect(await found({ capability: area })).toEqual(['ours']);
    await setStatus('active');
    await expectSoundDatabase(api);
  });

  it('is right when many gates publish the same things at once, in any order', async () => {
    const area = newArea();
    const entries = ['a', 'b', 'c', 'd'].map((action) => ({
      key: `${area}:${action}`,
      category: `${area}-${action}`,
    }));
    const gates = await Promise.all([1, 2, 3, 4].map((each) => gateWith(String(each), [])));
    const publications = gates.flatMap(({ gate_id }, index) =>
      [entries, entries.toReversed(), entries.slice(index), []].map((permissions) =>
        api.call({ url: `/v1/gates/${gate_id}/catalog`, body: { permissions } }),
      ),
    );
    for (const { status } of await Promise.all(publications)) expect(status).toBe(201);
    const newest = await Promise.all(
      gates.map(async ({ gate_id }) => (await api.call({ url: `/v1/gates/${gate_id}/catalog` })).body),
    );
    const offered = newest.flatMap(({ permissions }) => permissions);
    expect((await discover({ capability: area })).body.total).toBe(offered.length);
    for (const { key, category } of entries) {
      const offers = offered.filter((each) => each.key === key).length;
      expect((await discover({ capability: key })).body.total).toBe(offers);
      expect((await discover({ capability: category })).body.total).toBe(offers);
    }
  });
});
