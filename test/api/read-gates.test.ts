import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Api, startApi } from '../support/api.ts';

let api: Api;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.close());

const get = async (path: string) => (await api.call({ url: `/v1/gates${path}` })).body;

describe('GET /gates/:id', () => {
  it('answers the gate with its constraints, and no use at first', async () => {
    const gate = await api.createGate({ constraints: { allowed_domains: ['a.example'] } });
    expect(await get(`/${gate.id}`)).toEqual({
      ...gate,
      stats: { total_requests: 0, permits: 0, blocks: 0, last_request_at: null },
    });
  });

  it('counts what has been decided there', async () => {
    const { id } = await api.createGate();
    const atMs = api.deps.clock.now();
    await api.deps.sql`INSERT INTO gate_use VALUES (${id}, 10, 6, 3, ${atMs})`;
    expect((await get(`/${id}`)).stats).toEqual({
      total_requests: 10,
      permits: 6,
      blocks: 3,
      last_request_at: new Date(atMs).toISOString(),
    });
    const { items } = await get('?limit=200');
    expect(items.find((item: { id: string }) => item.id === id)).toMatchObject({
      request_count: 10,
      permit_count: 6,
      block_count: 3,
    });
  });
});

describe('GET /gates', () => {
  it('lists gates newest first, in pages, without the deleted ones', async () => {
    const { key } = await api.createAccount();
    const list = async (query = '') => (await api.call({ url: `/v1/gates${query}`, key })).body;
    const made: string[] = [];
    for (let i = 0; i < 5; i++) {
      api.advance(1);
      made.unshift((await api.createGate({}, key)).gate_id);
    }
    await api.call({ method: 'DELETE', url: `/v1/gates/${made[2]}`, key });
    const left = made.filter((_, index) => index !== 2);
    const idsOf = (page: { items: { gate_id: string }[] }) => page.items.map((item) => item.gate_id);
    expect(idsOf(await list())).toEqual(left);
    expect(await list('?limit=3&offset=1')).toMatchObject({ total: 4, limit: 3, offset: 1 });
    expect(idsOf(await list('?limit=3&offset=1'))).toEqual(left.slice(1));
  });

  it('shows the members listed in the contract', async () => {
    const { constraints, ...gate } = await api.createGate();
    expect(constraints).toEqual({});
    const { items } = await get('?limit=200');
    expect(items.find((item: { id: string }) => item.id === gate.id)).toEqual({
      ...gate,
      request_count: 0,
      permit_count: 0,
      block_count: 0,
    });
  });
});
