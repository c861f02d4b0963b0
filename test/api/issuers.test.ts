import { describe, expect, it } from 'vitest';
import { idDigest } from '../../shared/crypto/id-digest.ts';
import { limits } from '../../shared/model/limits.ts';
import { dayMs } from '../../shared/model/time.ts';
import { startOwnApi } from '../support/service/api.ts';
import { expectError } from '../support/service/expect-error.ts';
import { useApi } from '../support/service/use-api.ts';

const api = useApi(startOwnApi);

const post = (body: unknown) => api.call({ method: 'POST', url: '/v1/issuers', body });
const put = (id: string, body: unknown) => api.call({ method: 'PUT', url: `/v1/issuers/${id}`, body });
const get = async (id: string) => (await api.call({ url: `/v1/issuers/${id}` })).body;

describe('POST /issuers', () => {
  it('201: answers the whole issuer', async () => {
    const metadata = { team: 'payments', nested: { list: [1, 'two', null] } };
    const reply = await post({ name: 'Acme', domain: 'Bücher.Example.', trust_tier: 'L2', metadata });
    expect(reply.status).toBe(201);
    expect(reply.body).toEqual({
      issuer_id: expect.stringMatching(/^iss_[0-9a-z]{26}$/),
      name: 'Acme',
      domain: 'xn--bcher-kva.example',
      trust_tier: 'L2',
      metadata,
      federation: null,
      status: 'active',
      wallet_id: null,
      passport_count: 0,
      active_passports: 0,
      revoked_passports: 0,
      last_passport_issued_at: null,
      created_at: expect.stringMatching(/\.\d{3}Z$/),
    });
    expect(await get(reply.body.issuer_id)).toEqual(reply.body);
  });

  it('needs a name only: no domain, tier L3, no metadata', async () => {
    const { body } = await post({ name: 'Acme' });
    expect(body).toMatchObject({ domain: null, trust_tier: 'L3', metadata: {} });
  });

  it.each([
    [{ name: 'a', domain: 'not a host' }, 'domain'],
    [{ name: 'a', metadata: [] }, 'metadata'],
    [{ name: 'a', status: 'suspended' }, 'status'],
    [{ name: 'a', is_default: true }, 'is_default'],
  ])('400: refuses %j', async (body, param) => {
    expectError(await post(body), 'invalid_request', param);
  });

  it('bounds metadata by its bytes, not by its characters', async () => {
    const ofBytes = (bytes: number) => ({ t: 'é'.repeat((bytes - '{"t":""}'.length) / 2) });
    expect((await post({ name: 'a', metadata: ofBytes(limits.freeFormBytesMax) })).status).toBe(201);
    expectError(
      await post({ name: 'a', metadata: ofBytes(limits.freeFormBytesMax + 2) }),
      'invalid_request',
      'metadata',
    );
  });
});

it('the counts of an issuer count its passports at the moment of reading', async () => {
  const { issuer_id } = await api.createIssuer();
  const short = await api.issuePassport({ issuer_id, expires_in: '1d' });
  await api.issuePassport({ issuer_id });
  const last = await api.issuePassport({ issuer_id });
  await api.call({ method: 'POST', url: `/v1/passports/${last.id}/revoke` });
  const counts = {
    passport_count: 3,
    active_passports: 2,
    revoked_passports: 1,
    last_passport_issued_at: last.issued_at,
  };
  expect(await get(issuer_id)).toMatchObject(counts);
  const list = await api.call({ url: '/v1/issuers' });
  expect(list.body.items.find((each: { issuer_id: string }) => each.issuer_id === issuer_id)).toMatchObject(
    counts,
  );

  await api.call({ method: 'POST', url: `/v1/passports/${short.id}/suspend` });
  expect((await get(issuer_id)).active_passports).toBe(1);
  await api.call({ method: 'POST', url: `/v1/passports/${short.id}/reactivate` });
  api.advance(dayMs);
  expect((await get(issuer_id)).active_passports).toBe(1);
});

describe('PUT /issuers/:id', () => {
  it('changes name and metadata, the latter as a whole', async () => {
    const { issuer_id } = await api.createIssuer({ metadata: { a: 1, b: 2 } });
    const { body } = await put(issuer_id, { name: 'New', metadata: { b: 3 } });
    expect(body).toMatchObject({ name: 'New', metadata: { b: 3 }, status: 'active' });
    expect((await put(issuer_id, {})).body).toEqual(body);
    expect(await get(issuer_id)).toEqual(body);
  });

  it('notifies every sidecar when an issuer is suspended, and when it is active again', async () => {
    const { issuer_id } = await api.createIssuer();
    const before = (await api.changes('global')).length;
    expect((await put(issuer_id, { status: 'suspended' })).body.status).toBe('suspended');
    await put(issuer_id, { status: 'suspended' });
    await put(issuer_id, { status: 'active' });
    expect((await api.changes('global')).slice(before)).toEqual([
      { kind: 'issuer.standing', body: { issuer: idDigest(issuer_id), standing: 'suspended' } },
      { kind: 'issuer.standing', body: { issuer: idDigest(issuer_id), standing: 'active' } },
    ]);
  });

  it('400: leaves domain and tier as they are', async () => {
    const { issuer_id } = await api.createIssuer();
    expectError(await put(issuer_id, { domain: 'b.example' }), 'invalid_request', 'domain');
    expectError(await put(issuer_id, { trust_tier: 'L1' }), 'invalid_request', 'trust_tier');
    expectError(await put(issuer_id, { status: 'revoked' }), 'invalid_request', 'status');
  });
});
