import { describe, expect, it } from 'vitest';
import { parseApiKey } from '../../shared/crypto/api-key.ts';
import { idDigest } from '../../shared/crypto/id-digest.ts';
import { startOwnApi } from '../support/service/api.ts';
import { expectError } from '../support/service/expect-error.ts';
import { useApi } from '../support/service/use-api.ts';

const api = useApi(startOwnApi);

const create = (body: unknown) => api.call({ method: 'POST', url: '/v1/accounts', body });
const put = (id: string, body: unknown) => api.call({ method: 'PUT', url: `/v1/accounts/${id}`, body });

describe('POST /accounts', () => {
  it('201: answers the account with its first key, which is live and admin', async () => {
    const reply = await create({ name: 'Acme', plan: 'pro' });
    expect(reply.status).toBe(201);
    expect(reply.body).toEqual({
      ...{ account_id: expect.stringMatching(/^acct_[0-9a-z]{26}$/), name: 'Acme', plan: 'pro' },
      ...{ status: 'active', limits: { requests_per_minute: 120, requests_per_day: 10_000 } },
      created_at: expect.stringMatching(/^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$/),
      api_key: {
        ...{ key_id: expect.stringMatching(/^key_/), name: 'First key', scopes: ['admin:*'], mode: 'live' },
        ...{ prefix: reply.body.api_key.key.slice(0, 12), last4: reply.body.api_key.key.slice(-4) },
        ...{ created_at: expect.any(String), expires_at: null, last_used_at: null },
        key: expect.stringMatching(/^at_live_/),
      },
    });
    expect(parseApiKey(reply.body.api_key.key)).toEqual({ mode: 'live' });
    expect(reply.headers['cache-control']).toBe('no-store');
  });

  it('gives the account a feed, in which its key is the first change', async () => {
    const { body } = await create({ name: 'Acme', plan: 'pro' });
    const changes = await api.changes(body.account_id);
    expect(changes).toMatchObject([{ kind: 'api_key.put', body: { key_id: body.api_key.key_id } }]);
    expect(JSON.stringify(changes)).not.toContain(body.api_key.key);
  });

  it.each([
    [{ name: 'a'.repeat(201), plan: 'pro' }, 'name'],
    [{ name: 'a', plan: 'gold' }, 'plan'],
    [{ name: 'a', plan: 'pro', limits: { requests_per_minute: 5 } }, 'limits'],
    [{ name: 'a', plan: 'enterprise', limits: { requests_per_minute: 0 } }, 'limits.requests_per_minute'],
    [{ name: 'a', plan: 'enterprise', limits: { per_hour: 1 } }, 'limits.per_hour'],
    [{ name: 'a', plan: 'pro', status: 'active' }, 'status'],
  ])('400: refuses %j, naming %s', async (body, param) => {
    expectError(await create(body), 'invalid_request', param);
  });
});

describe('PUT /accounts/:id', () => {
  it('changes members that are present and leaves the rest', async () => {
    const { accountId } = await api.createAccount({ limits: { requests_per_day: 9 } });
    const renamed = await put(accountId, { name: 'New name' });
    expect(renamed.body).toMatchObject({
      ...{ name: 'New name', plan: 'enterprise', limits: { requests_per_day: 9 } },
    });
    expect((await put(accountId, {})).body).toEqual(renamed.body);
    expect((await api.call({ url: `/v1/accounts/${accountId}` })).body).toEqual(renamed.body);
  });

  it('takes the limits away with null, and with the enterprise plan', async () => {
    const { accountId } = await api.createAccount({ limits: { requests_per_day: 9 } });
    expect((await put(accountId, { limits: null })).body.limits).toBe(null);
    await put(accountId, { limits: { requests_per_day: 9 } });
    const free = { requests_per_minute: 30, requests_per_day: 1_000 };
    expect((await put(accountId, { plan: 'free' })).body.limits).toEqual(free);
    expect((await put(accountId, { plan: 'enterprise' })).body.limits).toBe(null);
  });

  it('sends suspensions of accounts and their ends to every sidecar, and no other change of an account', async () => {
    const { accountId } = await api.createAccount();
    const before = (await api.changes('global')).length;
    await put(accountId, { status: 'suspended' });
    await put(accountId, { status: 'suspended', name: 'still' });
    await put(accountId, { status: 'active' });
    expect((await api.changes('global')).slice(before)).toEqual([
      { kind: 'account.standing', body: { account: idDigest(accountId), standing: 'suspended' } },
      { kind: 'account.standing', body: { account: idDigest(accountId), standing: 'active' } },
    ]);
  });

  it('400: refuses to suspend the operator', async () => {
    const { body } = await api.call({ url: '/v1/accounts?limit=200' });
    const operator = body.items.at(-1);
    expect(operator.name).toBe('Operator');
    expectError(await put(operator.account_id, { status: 'suspended' }), 'invalid_request', 'status');
  });

  it.each([
    [{ status: 'closed' }, 'status'],
    [{ limits: { requests_per_day: 1.5 } }, 'limits.requests_per_day'],
    [{ account_id: 'x' }, 'account_id'],
  ])('400: refuses %j, naming %s', async (body, param) => {
    const { accountId } = await api.createAccount();
    expectError(await put(accountId, body), 'invalid_request', param);
  });
});
