import { beforeAll, describe, expect, it } from 'vitest';
import { expectError } from '../support/service/expect-error.ts';
import { useApi } from '../support/service/use-api.ts';

const api = useApi();
let feed: string;
beforeAll(async () => {
  feed = (await api.call({ url: '/v1/whoami' })).body.account_id;
});

const post = (body: unknown) => api.call({ method: 'POST', url: '/v1/gates', body });

describe('POST /gates', () => {
  it('201: takes the reference body and answers the union of both shapes', async () => {
    const constraints = {
      allowed_domains: ['API.example.com:443', '*.Example.org'],
      spend_limits: { per_transaction_usd: 12.34 },
      trusted_issuers: ['*'],
    };
    const reply = await post({ name: 'Orders', description: 'Buys', trust_level: 'L2', constraints });
    expect(reply.status).toBe(201);
    const { gate_id } = reply.body;
    expect(reply.body).toEqual({
      ...{ gate_id: expect.stringMatching(/^gate_[0-9a-z]{26}$/), id: gate_id, name: 'Orders' },
      ...{ description: 'Buys', trust_level: 'L2', trust_profile: 'L2' },
      constraints: { ...constraints, allowed_domains: ['api.example.com', '*.example.org'] },
      ...{ gate_url: `${api.deps.gateHost}/${gate_id}`, status: 'active' },
      ...{ created_at: expect.stringMatching(/\.\d{3}Z$/), updated_at: reply.body.created_at },
      last_changed_by: { type: 'api_key', id: expect.stringMatching(/^key_/), client_id: null },
    });
  });

  it.each<[object, string]>([
    [{ name: '' }, 'name'],
    [{ name: 'a'.repeat(201) }, 'name'],
    [{ description: 'a'.repeat(2_001) }, 'description'],
    [{ trust_level: undefined }, 'trust_level'],
    [{ trust_level: 'L0' }, 'trust_level'],
    [{ trust_level: null }, 'trust_level'],
    [{ catalog: 'none' }, 'catalog'],
    [{ status: 'active' }, 'status'],
    [{ constraints: { spend_limits: { daily_usd: -5 } } }, 'constraints.spend_limits.daily_usd'],
  ])('400: refuses %j, naming %s', async (more, param) => {
    const before = (await api.changes(feed)).length;
    expectError(await post({ name: 'Orders', trust_level: 'L1', ...more }), 'invalid_request', param);
    expect(await api.changes(feed)).toHaveLength(before);
  });
});
