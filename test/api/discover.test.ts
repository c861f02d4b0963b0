import { describe, expect, it } from 'vitest';
import { verifyDiscoveryResult } from '../../clients/node/src/verify.ts';
import { discoveryLimits } from '../../control-plane/discovery/limits.ts';
import { startOwnApi } from '../support/service/api.ts';
import { expectError } from '../support/service/expect-error.ts';
import { expectSoundDatabase } from '../support/service/sound-database.ts';
import { useApi } from '../support/service/use-api.ts';

const api = useApi(startOwnApi);

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
const pricing = { model: 'per_call', price_cents: 25, currency: 'USD' };
const sla = { uptime_basis_points: 9_990, response_time_ms: 250 };

const gateWith = (name: string, entries: readonly object[], more: object = {}, key?: string) =>
  api.createGate({ name, catalog: { permissions: entries }, ...more }, key);

describe('GET /discover', () => {
  it('answers all that there is to say about an offer, and it verifies', async () => {
    const area = newArea();
    const entry = {
      key: `${area}:create`,
      display_name: 'Create',
      description: 'Creates.',
      pricing: { ...pricing, free_calls: 100 },
      category: 'commerce',
      risk_level: 'low',
      sla,
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
          pricing,
          sla,
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

  it.each<[string, string]>([
    ['', 'capability'],
    [`capability=${'a'.repeat(129)}`, 'capability'],
    ['capability=a&capability=b', 'capability'],
    ['capability=a&max_price_cents=-1', 'max_price_cents'],
    ['capability=a&max_price_cents=99999999999999999', 'max_price_cents'],
    ['capability=a&min_uptime_bp=10001', 'min_uptime_bp'],
    ['capability=a&currency=usd', 'currency'],
    ['capability=a&sort=price', 'sort'],
    ['capability=a&limit=201', 'limit'],
    ['capability=a&offset=1001', 'offset'],
    ['capability=a&max_price=5', 'max_price'],
  ])('400: refuses ?%s, naming %s', async (query, param) => {
    expectError(await api.call({ url: `/v1/discover?${query}`, key: null }), 'invalid_request', param);
  });
});

describe('discovery', () => {
  it('goes with the name and the level of the gate', async () => {
    const area = newArea();
    const gate = await gateWith('old', [{ key: `${area}:a` }]);
    const body = { name: 'new', trust_level: 'L3' };
    await api.call({ method: 'PUT', url: `/v1/gates/${gate.gate_id}`, body });
    expect(await found({ capability: area, min_security_profile: 'L3' })).toEqual(['new']);
    expect((await discover({ capability: area })).body.results[0].security_profile).toBe('L3');
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
