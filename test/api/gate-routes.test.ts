import { describe, expect, it } from 'vitest';
import type { Reply } from '../support/service/api.ts';
import { openAnApproval } from '../support/service/approvals.ts';
import { expectError } from '../support/service/expect-error.ts';
import { useApi } from '../support/service/use-api.ts';

const api = useApi();

const routes = [
  { methods: ['GET', 'HEAD'], path: '/orders/:id', permission_key: 'orders:read' },
  { path: '/orders', permission_key: 'orders:create', amount_usd: 0.1 },
];
const get = async (id: string) => (await api.call({ url: `/v1/gates/${id}` })).body;
const put = (id: string, body: object) => api.call({ method: 'PUT', url: `/v1/gates/${id}`, body });
/** What sidecars were told of a gate last. */
const toldLast = async (gateId: string) => {
  const [told] = await api.deps.sql<{ body: Reply['body'] }[]>`
    SELECT body FROM changes WHERE body->>'gate_id' = ${gateId} ORDER BY revision DESC LIMIT 1`;
  return told?.body;
};

describe('routes of a gate', () => {
  it('are answered as they were written, and told to the sidecars', async () => {
    const gate = await api.createGate({ routes });
    expect(gate.routes).toEqual(routes);
    expect((await get(gate.gate_id)).routes).toEqual(routes);
    expect((await toldLast(gate.gate_id)).routes).toEqual(routes);
    const [listed] = (await api.call({ url: '/v1/gates' })).body.items;
    expect(listed).not.toHaveProperty('routes');
  });

  it('are absent from a gate without any, in every answer', async () => {
    for (const body of [{}, { routes: null }, { routes: [] }]) {
      const gate = await api.createGate(body);
      expect(gate).not.toHaveProperty('routes');
      expect(await get(gate.gate_id)).not.toHaveProperty('routes');
      expect(await toldLast(gate.gate_id)).not.toHaveProperty('routes');
    }
  });

  it('are replaced as a whole, and removed by null', async () => {
    const { gate_id: id } = await api.createGate({ routes, constraints: { allowed_domains: ['a.example'] } });
    const [, second] = routes;
    expect((await put(id, { routes: [second] })).body.routes).toEqual([second]);
    expect((await put(id, { name: 'New' })).body.routes).toEqual([second]);
    const read = await get(id);
    expect((await put(id, read)).body.routes).toEqual([second]);
    const without = (await put(id, { routes: null })).body;
    expect(without).not.toHaveProperty('routes');
    expect(without.constraints).toEqual({ allowed_domains: ['a.example'] });
  });

  it('keep their version where a change leaves them as they are, and are on record where it does not', async () => {
    const { gate_id: id } = await api.createGate({ routes });
    const tag = async () => (await api.call({ url: `/v1/gates/${id}` })).headers['etag'];
    const before = await tag();
    expect((await put(id, { routes })).headers['etag']).toBe(before);
    await put(id, { routes: [] });
    expect(await tag()).not.toBe(before);
    const [entry] = (await api.call({ url: `/v1/audit?target=${id}&operation=updateGate` })).body.entries;
    expect([entry.before.routes, entry.after.routes]).toEqual([routes, undefined]);
  });

  it('are part of the policy: a change of them ends what waits for a person', async () => {
    const { approvalId, gateId } = await openAnApproval(api);
    const status = async () => (await api.call({ url: `/v1/approvals/${approvalId}` })).body.status;
    await put(gateId, { name: 'Another' });
    expect(await status()).toBe('pending');
    await put(gateId, { routes });
    expect(await status()).toBe('expired');
  });

  it('are refused with the member at fault', async () => {
    const [first, second] = routes;
    const wrong: readonly (readonly [routes: unknown, param: string])[] = [
      [[first, { ...second, path: 'orders' }], 'routes.1.path'],
      [[{ ...first, method: 'GET' }], 'routes.0.method'],
      [Array(257).fill(second), 'routes'],
      ['/orders', 'routes'],
    ];
    const { gate_id: id } = await api.createGate({ routes });
    for (const [given, param] of wrong) {
      const body = { name: 'a', trust_level: 'L1', routes: given };
      expectError(await api.call({ url: '/v1/gates', body }), 'invalid_request', param);
      expectError(await put(id, { routes: given }), 'invalid_request', param);
    }
    expect((await get(id)).routes).toEqual(routes);
  });
});
