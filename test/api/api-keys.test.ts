import { beforeAll, describe, expect, it } from 'vitest';
import { hashApiKey, parseApiKey } from '../../shared/crypto/api-key.ts';
import { hourMs, renderTime, type UnixMillis } from '../../shared/model/time.ts';
import { expectError } from '../support/service/expect-error.ts';
import { useApi } from '../support/service/use-api.ts';

const api = useApi();
let feed: string;
beforeAll(async () => {
  feed = (await api.call({ url: '/v1/whoami' })).body.account_id;
});

const post = (path: string, body: unknown, key = api.adminKey) =>
  api.call({ method: 'POST', url: `/v1/api-keys${path}`, key, body });
const opens = async (key: string) => (await api.call({ url: '/v1/gates', key })).status;
const inMs = (durationMs: number) => renderTime((api.deps.clock.now() + durationMs) as UnixMillis);
const changesSince = async (count: number) => (await api.changes(feed)).slice(count);

describe('GET /whoami', () => {
  const whoAmI = (key: string) => api.call({ url: '/v1/whoami', key });

  it('names the scopes, the mode and the end of the calling key, which sees no other', async () => {
    const expires_at = inMs(hourMs);
    const { body } = await post('', { name: 'x', scopes: ['gates:read', 'sidecars:connect'], expires_at });
    expect((await whoAmI(body.key)).body).toEqual({
      ...{ account_id: feed, mode: 'live', actor: { type: 'api_key', id: body.key_id, client_id: null } },
      ...{ scopes: ['gates:read', 'sidecars:connect'], expires_at },
    });
    await api.call({ method: 'DELETE', url: `/v1/api-keys/${body.key_id}` });
    expectError(await whoAmI(body.key), 'unauthorized');
  });
});

describe('POST /api-keys', () => {
  it('201: shows the key once and stores only its hash', async () => {
    const reply = await post('', {
      name: 'reader',
      scopes: ['gates:read', 'gates:read', 'passports:create'],
    });
    expect(reply.status).toBe(201);
    const { key, ...rest } = reply.body;
    expect(rest).toEqual({
      ...{ key_id: expect.stringMatching(/^key_[0-9a-z]{26}$/), name: 'reader' },
      ...{ scopes: ['gates:read', 'passports:issue'], mode: 'live', prefix: key.slice(0, 12) },
      ...{ last4: key.slice(-4), created_at: expect.any(String), expires_at: null, last_used_at: null },
    });
    expect(parseApiKey(key)).toEqual({ mode: 'live' });
    expect((await api.call({ url: `/v1/api-keys/${rest.key_id}` })).body).toEqual(rest);

    const [dump] = await api.deps.sql<{ text: string }[]>`
      SELECT string_agg(k::text, '') || (SELECT string_agg(c::text, '') FROM changes c) AS text FROM api_keys k`;
    expect(dump?.text).toContain(hashApiKey(key));
    expect(dump?.text).not.toContain(key);
  });

  it('400: makes no test key that connects sidecars, by whichever key', async () => {
    const admin = await api.createKey({ scopes: ['admin:*'], mode: 'test' });
    const wanted = { name: 'sidecar', scopes: ['gates:read', 'sidecars:connect'] };
    expectError(await post('', { ...wanted, mode: 'test' }), 'invalid_request', 'scopes');
    const reply = await api.call({ url: '/v1/api-keys', key: admin.key, body: wanted });
    expectError(reply, 'invalid_request', 'scopes');
  });

  it('outlives no key that makes it: it expires with its maker, or earlier', async () => {
    const makerEnds = inAnHour();
    const maker = await api.createKey({ scopes: ['keys:manage', 'gates:read'], expires_at: makerEnds });
    const wanted = { name: 'a', scopes: ['gates:read'] };
    const endOf = async (body: object) => (await post('', body, maker.key)).body.expires_at;
    expect(await endOf(wanted)).toBe(makerEnds);
    expect(await endOf({ ...wanted, expires_at: null })).toBe(makerEnds);
    const earlier = new Date(Date.parse(makerEnds) - 1_000).toISOString();
    expect(await endOf({ ...wanted, expires_at: earlier })).toBe(earlier);
    const later = new Date(Date.parse(makerEnds) + 1).toISOString();
    expectError(await post('', { ...wanted, expires_at: later }, maker.key), 'invalid_request', 'expires_at');
  });

  it('403: cannot be used to leave test mode', async () => {
    const { key } = await api.createKey({ scopes: ['admin:*'], mode: 'test' });
    const wanted = { name: 'a', scopes: ['gates:read'] };
    expectError(await post('', { ...wanted, mode: 'live' }, key), 'insufficient_scope', 'mode');
    for (const body of [wanted, { ...wanted, mode: 'test' }]) {
      const made = (await post('', body, key)).body;
      expect(parseApiKey(made.key)).toEqual({ mode: 'test' });
      const rolled = (await post(`/${made.key_id}/roll`, {}, key)).body;
      expect(parseApiKey(rolled.key)).toEqual({ mode: 'test' });
    }
  });

  it('403: grants nothing that the creating key lacks, and no other mode', async () => {
    const { key } = await api.createKey({ scopes: ['keys:manage', 'gates:manage'] });
    expect((await post('', { name: 'a', scopes: ['gates:read', 'enforcement:check'] }, key)).status).toBe(
      201,
    );
    for (const scope of ['admin:*', 'passports:create', 'osgate:read']) {
      const refused = await post('', { name: 'a', scopes: ['gates:read', scope] }, key);
      expectError(refused, 'insufficient_scope', 'scopes');
    }
    const otherMode = { name: 'a', scopes: ['gates:read'], mode: 'test' };
    expectError(await post('', otherMode, key), 'insufficient_scope', 'mode');
    expect((await post('', { ...otherMode, mode: 'live' }, key)).status).toBe(201);
  });

  it.each([
    [{ scopes: ['gates:read'] }, 'name'],
    [{ name: 'a', scopes: [] }, 'scopes'],
    [{ name: 'a', scopes: ['gates:read', 'gates:*'] }, 'scopes.1'],
    [{ name: 'a', scopes: ['constructor'] }, 'scopes.0'],
    [{ name: 'a', scopes: ['gates:read'], mode: 'prod' }, 'mode'],
    [{ name: 'a', scopes: ['gates:read'], expires_at: '2020-01-01T00:00:00Z' }, 'expires_at'],
    [{ name: 'a', scopes: ['gates:read'], key: 'at_live_mine' }, 'key'],
  ])('400: refuses %j, naming %s', async (body, param) => {
    expectError(await post('', body), 'invalid_request', param);
  });
});

/** With the milliseconds that answers show. */
const inAnHour = () => new Date(api.deps.clock.now() + 3_600_000).toISOString();

describe('POST /api-keys/:id/roll', () => {
  it('replaces the key at once without an overlap', async () => {
    const old = await api.createKey({ name: 'rolled', scopes: ['gates:read'] });
    const before = (await api.changes(feed)).length;
    const { status, body } = await api.call({ method: 'POST', url: `/v1/api-keys/${old.keyId}/roll` });
    expect(status).toBe(200);
    expect(body).toMatchObject({ name: 'rolled', scopes: ['gates:read'], mode: 'live' });
    expect(body.key_id).not.toBe(old.keyId);
    expect(await opens(body.key)).toBe(200);
    expect(await opens(old.key)).toBe(401);
    expect(await changesSince(before)).toMatchObject([
      { kind: 'api_key.put', body: { key_id: body.key_id } },
      { kind: 'api_key.delete', body: { key_id: old.keyId } },
    ]);
    expectError(await post(`/${old.keyId}/roll`, {}), 'api_key_not_found');
  });

  it('lets the old key work until the overlap is over', async () => {
    const old = await api.createKey({ scopes: ['gates:read'] });
    const before = (await api.changes(feed)).length;
    const rolled = await post(`/${old.keyId}/roll`, { overlap_s: 60 });
    expect(rolled.body.expires_at).toBe(null);
    const overlapEnd = Date.parse((await api.call({ url: `/v1/api-keys/${old.keyId}` })).body.expires_at);
    expect(await changesSince(before)).toMatchObject([
      { kind: 'api_key.put', body: { key_id: rolled.body.key_id, expires_at_ms: null } },
      { kind: 'api_key.put', body: { key_id: old.keyId, expires_at_ms: overlapEnd } },
    ]);
    expect(await opens(old.key)).toBe(200);
    api.advance(60_000);
    expect(await opens(old.key)).toBe(401);
    expect(await opens(rolled.body.key)).toBe(200);
  });

  it('never prolongs a key', async () => {
    const expires_at = inMs(hourMs);
    const old = await api.createKey({ scopes: ['gates:read'], expires_at });
    const rolled = await post(`/${old.keyId}/roll`, { overlap_s: 7_200 });
    expect(rolled.body.expires_at).toBe(expires_at);
    expect((await api.call({ url: `/v1/api-keys/${old.keyId}` })).body.expires_at).toBe(expires_at);
    api.advance(hourMs);
    expectError(await post(`/${old.keyId}/roll`, {}), 'api_key_not_found');
  });

  it.each([null, 2 * hourMs])(
    'asked again after a lost answer, gives a key that outlives the overlap (expiry after %j ms)',
    async (lifeMs) => {
      const expires_at = lifeMs === null ? null : inMs(lifeMs);
      const old = await api.createKey({ scopes: ['gates:read'], expires_at });
      await post(`/${old.keyId}/roll`, { overlap_s: 60 });
      const overlapEnd = (await api.call({ url: `/v1/api-keys/${old.keyId}` })).body.expires_at;
      const again = await post(`/${old.keyId}/roll`, { overlap_s: 3_600 });
      expect(again.body.expires_at).toBe(expires_at);
      expect((await api.call({ url: `/v1/api-keys/${old.keyId}` })).body.expires_at).toBe(overlapEnd);
      api.advance(60_000);
      expect(await opens(old.key)).toBe(401);
      expect(await opens(again.body.key)).toBe(200);
      expectError(await post(`/${old.keyId}/roll`, {}), 'api_key_not_found');
    },
  );

  it('403: for a key that can do more than the caller', async () => {
    const strong = await api.createKey({ scopes: ['passports:issue'] });
    const { key } = await api.createKey({ scopes: ['keys:manage'] });
    expectError(await post(`/${strong.keyId}/roll`, {}, key), 'insufficient_scope', 'scopes');
    expect((await api.call({ url: `/v1/api-keys/${strong.keyId}` })).status).toBe(200);
  });

  it('403: gives a key that ends no key that lasts longer', async () => {
    const scopes = ['keys:manage', 'gates:read'];
    const lasting = await api.createKey({ scopes });
    const ending = await api.createKey({ scopes, expires_at: inAnHour() });
    expectError(await post(`/${lasting.keyId}/roll`, {}, ending.key), 'insufficient_scope');
    expect(await opens(lasting.key)).toBe(200);
    expect((await post(`/${ending.keyId}/roll`, {}, ending.key)).status).toBe(200);
  });

  it.each([-1, 0.5, '60', 604_801])('400: refuses an overlap of %j', async (overlap_s) => {
    const { keyId } = await api.createKey({ scopes: ['gates:read'] });
    expectError(await post(`/${keyId}/roll`, { overlap_s }), 'invalid_request', 'overlap_s');
  });
});

describe('DELETE /api-keys/:id', () => {
  it('403: ends no key that can do more than the caller', async () => {
    const admin = await api.createKey({ scopes: ['admin:*'] });
    const { key } = await api.createKey({ scopes: ['keys:manage'] });
    const reply = await api.call({ method: 'DELETE', url: `/v1/api-keys/${admin.keyId}`, key });
    expectError(reply, 'insufficient_scope', 'scopes');
    expect(await opens(admin.key)).toBe(200);
  });

  it('deletes the key permanently and notifies the sidecars', async () => {
    const { keyId } = await api.createKey({ scopes: ['gates:read'] });
    const before = (await api.changes(feed)).length;
    const remove = () => api.call({ method: 'DELETE', url: `/v1/api-keys/${keyId}` });
    expect((await remove()).body).toEqual({
      ...{ key_id: keyId, deleted: true, deleted_at: expect.stringMatching(/Z$/) },
    });
    expect(await changesSince(before)).toEqual([{ kind: 'api_key.delete', body: { key_id: keyId } }]);
    expectError(await remove(), 'api_key_not_found');
    expectError(await api.call({ url: `/v1/api-keys/${keyId}` }), 'api_key_not_found');
  });
});
