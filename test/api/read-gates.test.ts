import { describe, expect, it } from 'vitest';
import { useApi } from '../support/service/use-api.ts';

const api = useApi();

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
      ...{ total_requests: 10, permits: 6, blocks: 3, last_request_at: new Date(atMs).toISOString() },
    });
    const { items } = await get('');
    expect(items[0]).toMatchObject({ id, request_count: 10, permit_count: 6, block_count: 3 });
  });
});
