import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Api, startApi } from '../support/api.ts';
import { expectError } from '../support/expect-error.ts';

let api: Api;
let feed: string;
beforeAll(async () => {
  api = await startApi();
  feed = (await api.call({ url: '/v1/accounts' })).body.items[0].account_id;
});
afterAll(() => api.close());

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
      gate_id: expect.stringMatching(/^gate_[0-9a-z]{26}$/),
      id: gate_id,
      name: 'Orders',
      description: 'Buys',
      trust_level: 'L2',
      trust_profile: 'L2',
      constraints: { ...constraints, allowed_domains: ['api.example.com', '*.example.org'] },
      gate_url: `${api.deps.gateHost}/${gate_id}`,
      status: 'active',
      created_at: expect.stringMatching(/\.\d{3}Z$/),
      updated_at: reply.body.created_at,
      last_changed_by: { type: 'api_key', id: expect.stringMatching(/^key_/), client_id: null },
    });
  });

  it('201: takes the body of the machine description', async () => {
    const { status, body } = await post({ name: 'Orders', description: null, trust_profile: 'L3' });
    expect(status).toBe(201);
    expect(body).toMatchObject({
      trust_level: 'L3',
      trust_profile: 'L3',
      description: null,
      constraints: {},
    });
  });

  it('tells the sidecars of the account, in the public shape', async () => {
    const before = (await api.changes(feed)).length;
    const constraints = { spend_limits: { per_transaction_usd: 5 } };
    const { gate_id } = await api.createGate({ trust_level: 'L2', constraints });
    expect((await api.changes(feed)).slice(before)).toEqual([
      {
        kind: 'gate.put',
        body: {
          gate_id,
          account_id: feed,
          mode: 'live',
          version: 1,
          policy_version: 1,
          policy_hash: expect.stringMatching(/^sha256:/),
          trust_level: 'L2',
          constraints,
        },
      },
    ]);
  });

  it('takes a level under both names if they agree', async () => {
    const agreeing = { name: 'a', trust_level: 'L1', trust_profile: 'L1' };
    expect((await post(agreeing)).status).toBe(201);
    expectError(await post({ ...agreeing, trust_profile: 'L2' }), 'invalid_request', 'trust_profile');
  });

  it.each<[object, string]>([
    [{ name: undefined }, 'name'],
    [{ name: '' }, 'name'],
    [{ name: 'a'.repeat(201) }, 'name'],
    [{ description: 'a'.repeat(2_001) }, 'description'],
    [{ trust_level: undefined }, 'trust_level'],
    [{ trust_level: 'L0' }, 'trust_level'],
    [{ trust_level: 2 }, 'trust_level'],
    [{ trust_level: null }, 'trust_level'],
    [{ catalog: {} }, 'catalog.permissions'],
    [{ catalog: { permissions: [], version: 2 } }, 'catalog.version'],
    [{ catalog: 'none' }, 'catalog'],
    [{ status: 'active' }, 'status'],
    [{ constraints: [] }, 'constraints'],
    [{ constraints: { allowed_domain: ['a.example'] } }, 'constraints.allowed_domain'],
    [{ constraints: { allowed_domains: ['https://a.example'] } }, 'constraints.allowed_domains.0'],
    [
      { constraints: { spend_limits: { per_transaction_usd: '5' } } },
      'constraints.spend_limits.per_transaction_usd',
    ],
    [
      { constraints: { spend_limits: { per_transaction_usd: -1 } } },
      'constraints.spend_limits.per_transaction_usd',
    ],
    [
      { constraints: { spend_limits: { per_transaction_usd: 0.1234567 } } },
      'constraints.spend_limits.per_transaction_usd',
    ],
    [{ constraints: { spend_limits: { daily_usd: -5 } } }, 'constraints.spend_limits.daily_usd'],
    [{ constraints: { rate_limits: { requests_per_day: 0.5 } } }, 'constraints.rate_limits.requests_per_day'],
    [{ constraints: { pii_controls: { mode: 'warn' } } }, 'constraints.pii_controls.mode'],
    [{ constraints: { proof_of_possession: 'on' } }, 'constraints.proof_of_possession'],
    [{ constraints: { trusted_issuers: ['acme'] } }, 'constraints.trusted_issuers.0'],
  ])('400: refuses %j, naming %s', async (more, param) => {
    const before = (await api.changes(feed)).length;
    expectError(await post({ name: 'Orders', trust_level: 'L1', ...more }), 'invalid_request', param);
    expect(await api.changes(feed)).toHaveLength(before);
  });

  it('201: null in the constraints is the same as leaving out', async () => {
    const { body } = await post({ name: 'a', trust_level: 'L1', constraints: { spend_limits: null } });
    expect(body.constraints).toEqual({});
  });
});
