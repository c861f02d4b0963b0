import { describe, expect, it } from 'vitest';
import { hourMs } from '../../shared/model/time.ts';
import { startOwnApi } from '../support/service/api.ts';
import { expectError } from '../support/service/expect-error.ts';
import { useApi } from '../support/service/use-api.ts';

const api = useApi(startOwnApi);

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
    const others = [expiredRevoked, expiredSuspended, expired, revoked, suspended];
    expect(idsOf(all)).toEqual([never, ...others, active]);
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

  it.each([
    ['status', 'status=paused'],
    ['state', 'state=active'],
  ])('400: names %s for ?%s', async (param, query) => {
    expectError(await api.call({ url: `/v1/passports?${query}` }), 'invalid_request', param);
  });
});

it('GET /passports/:id answers the issued passport, with its issuer and its use', async () => {
  const { issuer_id } = await api.createIssuer({ domain: 'acme.example' });
  const { jwt, private_key, ...issued } = await api.issuePassport({ issuer_id });
  expect([jwt, private_key]).not.toContain(undefined);
  expect(await get(`/${issued.id}`)).toEqual({
    ...issued,
    ...{ federated: false, issuer_domain: 'acme.example', use_count: 0, last_used_at: null },
    ...{ revoked_at: null, revocation_reason: null, revoked_by: null },
  });
  const lastUsedAtMs = api.deps.clock.now();
  await api.deps.sql`INSERT INTO passport_use VALUES (${issued.id}, 7, ${lastUsedAtMs})`;
  expect(await get(`/${issued.id}`)).toMatchObject({
    use_count: 7,
    last_used_at: new Date(lastUsedAtMs).toISOString(),
  });
});

describe('GET /passports/:id/verify', () => {
  const verdict = (more: object) => expect.objectContaining(more);

  it('names the most severe fault', async () => {
    const { issuer_id } = await api.createIssuer();
    const { id } = await api.issuePassport({ issuer_id, expires_in: '1h' });
    const setIssuer = (status: string) =>
      api.call({ method: 'PUT', url: `/v1/issuers/${issuer_id}`, body: { status } });
    expect(await get(`/${id}/verify`)).toEqual(
      verdict({
        ...{ valid: true, passport_id: id, status: 'active', reason: null, is_expired: false },
        ...{ expired: false, is_revoked: false, revoked: false, revoked_at: null, revocation_reason: null },
      }),
    );
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
        ...{ valid: false, status: 'revoked', reason: 'revoked', is_expired: true, is_revoked: true },
        ...{ revoked_at: body.revoked_at, revocation_reason: 'leaked' },
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
