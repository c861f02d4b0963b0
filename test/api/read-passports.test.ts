import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { hourMs } from '../../shared/model/time.ts';
import { type Api, startApi } from '../support/api.ts';
import { expectError } from '../support/expect-error.ts';

let api: Api;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.close());

const get = async (path: string) => (await api.call({ url: `/v1/passports${path}` })).body;
const act = (id: string, what: string, body?: object) =>
  api.call({ method: 'POST', url: `/v1/passports/${id}/${what}`, body });
const idsOf = (list: { items: { passport_id: string }[] }) => list.items.map((item) => item.passport_id);

describe('GET /passports', () => {
  it('filters by status as of now, by issuer and by tier, and pages', async () => {
    const { issuer_id } = await api.createIssuer();
    const make = async (more: object = {}) => {
      api.advance(1);
      return (await api.issuePassport({ issuer_id, ...more })).passport_id as string;
    };
    const active = await make({ trust_tier: 'L2' });
    const suspended = await make();
    const revoked = await make();
    const expired = await make({ expires_in: '1h' });
    const expiredSuspended = await make({ expires_in: '1h' });
    const expiredRevoked = await make({ expires_in: '1h' });
    const never = await make({ trust_tier: 'L3' });
    await act(suspended, 'suspend');
    await act(revoked, 'revoke');
    await act(expiredSuspended, 'suspend');
    await act(expiredRevoked, 'revoke');
    api.advance(hourMs);

    const all = await get(`?issuer_id=${issuer_id}`);
    expect(idsOf(all)).toEqual([
      never,
      expiredRevoked,
      expiredSuspended,
      expired,
      revoked,
      suspended,
      active,
    ]);
    expect(all).toMatchObject({ total: 7, limit: 50, offset: 0 });
    for (const [status, ids] of [
      ['active', [never, active]],
      ['suspended', [suspended]],
      ['revoked', [expiredRevoked, revoked]],
      ['expired', [expiredSuspended, expired]],
    ] as const) {
      const list = await get(`?issuer_id=${issuer_id}&status=${status}`);
      expect(idsOf(list), status).toEqual(ids);
      expect(list.total).toBe(ids.length);
      for (const item of list.items) expect(item.status).toBe(status);
    }
    expect(idsOf(await get(`?issuer_id=${issuer_id}&trust_tier=L3`))).toEqual([never]);
    expect(idsOf(await get(`?issuer_id=${issuer_id}&status=revoked&trust_tier=L2`))).toEqual([]);
    const page = await get(`?issuer_id=${issuer_id}&limit=2&offset=2`);
    expect(idsOf(page)).toEqual([expiredSuspended, expired]);
    expect(page).toMatchObject({ total: 7, limit: 2, offset: 2 });
    expect(idsOf(await get(`?issuer_id=iss_${'0'.repeat(26)}`))).toEqual([]);
  });

  it('answers what a list shows, and nothing secret or large', async () => {
    const issued = await api.issuePassport();
    const { items } = await get('?limit=1');
    expect(items[0]).toEqual({
      passport_id: issued.id,
      id: issued.id,
      agent_id: issued.agent_id,
      agent_name: issued.agent_name,
      issuer_id: issued.issuer_id,
      permissions: issued.permissions,
      trust_tier: issued.trust_tier,
      owner: null,
      wallet_id: null,
      federated: false,
      status: 'active',
      issued_at: issued.issued_at,
      created_at: issued.created_at,
      expires_at: issued.expires_at,
    });
  });

  it.each([
    ['status', 'status=paused'],
    ['trust_tier', 'trust_tier=L0'],
    ['issuer_id', 'issuer_id=acme'],
    ['limit', 'limit=1000'],
    ['state', 'state=active'],
  ])('400: names %s for ?%s', async (param, query) => {
    expectError(await api.call({ url: `/v1/passports?${query}` }), 'invalid_request', param);
  });
});

describe('GET /passports/:id', () => {
  it('answers the issued passport, with its issuer and its use', async () => {
    const { issuer_id } = await api.createIssuer({ domain: 'acme.example' });
    const { jwt, private_key, ...issued } = await api.issuePassport({ issuer_id });
    expect([jwt, private_key]).not.toContain(undefined);
    expect(await get(`/${issued.id}`)).toEqual({
      ...issued,
      federated: false,
      issuer_domain: 'acme.example',
      use_count: 0,
      last_used_at: null,
      revoked_at: null,
      revocation_reason: null,
      revoked_by: null,
    });
    const lastUsedAtMs = api.deps.clock.now();
    await api.deps.sql`INSERT INTO passport_use VALUES (${issued.id}, 7, ${lastUsedAtMs})`;
    expect(await get(`/${issued.id}`)).toMatchObject({
      use_count: 7,
      last_used_at: new Date(lastUsedAtMs).toISOString(),
    });
  });
});

describe('GET /passports/:id/verify', () => {
  const verdict = (more: object) => expect.objectContaining(more);

  it('answers the union of both variants for a valid one', async () => {
    const issued = await api.issuePassport({ trust_tier: 'L2' });
    expect(await get(`/${issued.id}/verify`)).toEqual({
      valid: true,
      passport_id: issued.id,
      agent_id: issued.agent_id,
      trust_tier: 'L2',
      status: 'active',
      expires_at: issued.expires_at,
      is_expired: false,
      expired: false,
      is_revoked: false,
      revoked: false,
      reason: null,
      revoked_at: null,
      revocation_reason: null,
    });
  });

  it('calls a passport of a compromised key not valid, and one of the next key valid', async () => {
    const before = await api.issuePassport();
    await api.call({
      method: 'POST',
      url: '/v1/signing-keys/rotate',
      body: { purpose: 'passport', compromised: true },
    });
    expect(await get(`/${before.id}/verify`)).toEqual(verdict({ valid: false, reason: 'key_compromised' }));
    const after = await api.issuePassport();
    expect(await get(`/${after.id}/verify`)).toEqual(verdict({ valid: true, reason: null }));
  });

  it('names the most severe fault', async () => {
    const { issuer_id } = await api.createIssuer();
    const { id } = await api.issuePassport({ issuer_id, expires_in: '1h' });
    const setIssuer = (status: string) =>
      api.call({ method: 'PUT', url: `/v1/issuers/${issuer_id}`, body: { status } });
    await setIssuer('suspended');
    expect(await get(`/${id}/verify`)).toEqual(verdict({ valid: false, reason: 'issuer_suspended' }));
    await act(id, 'suspend');
    expect(await get(`/${id}/verify`)).toEqual(
      verdict({ valid: false, reason: 'suspended', is_expired: false, is_revoked: false }),
    );
    api.advance(hourMs);
    expect(await get(`/${id}/verify`)).toEqual(
      verdict({ valid: false, reason: 'expired', is_expired: true, is_revoked: false }),
    );
    const { body } = await act(id, 'revoke', { reason: 'leaked' });
    expect(await get(`/${id}/verify`)).toEqual(
      verdict({
        valid: false,
        status: 'revoked',
        reason: 'revoked',
        is_expired: true,
        is_revoked: true,
        revoked_at: body.revoked_at,
        revocation_reason: 'leaked',
      }),
    );
  });

  it('turns at the second of expiry, not before', async () => {
    const { id, expires_at } = await api.issuePassport({ expires_in: '1h' });
    const leftMs = () => Date.parse(expires_at) - api.deps.clock.now();
    api.advance(leftMs() - 30_000);
    expect(await get(`/${id}/verify`)).toEqual(verdict({ valid: true, is_expired: false }));
    api.advance(leftMs());
    expect(await get(`/${id}/verify`)).toEqual(verdict({ valid: false, is_expired: true }));
  });
});
