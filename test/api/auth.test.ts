import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { apiKeyRandomBytes, makeApiKey } from '../../shared/crypto/api-key.ts';
import { limits } from '../../shared/model/limits.ts';
import { hourMs, renderTime, type UnixMillis } from '../../shared/model/time.ts';
import { type Api, startApi } from '../support/api.ts';
import { expectError } from '../support/expect-error.ts';
import { until } from '../support/until.ts';

let api: Api;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.close());

const newKey = () => makeApiKey('live', api.deps.random.bytes(apiKeyRandomBytes));
const flipLast = (key: string) => key.slice(0, -1) + (key.endsWith('0') ? '1' : '0');

describe('authentication', () => {
  it('refuses a request without a key, and names the authentication scheme', async () => {
    const reply = await api.call({ url: '/v1/gates', key: null });
    expectError(reply, 'unauthorized');
    expect(reply.headers['www-authenticate']).toMatch(/^Bearer/);
  });

  it.each([
    ['an unknown key', () => `Bearer ${newKey()}`],
    ['a key with a bad checksum', () => `Bearer ${flipLast(api.adminKey)}`],
    ['a key of the other mode by name', () => `Bearer ${api.adminKey.replace('live', 'test')}`],
    ['an empty bearer', () => 'Bearer '],
    ['another scheme', () => `Basic ${api.adminKey}`],
    ['a key without a scheme', () => api.adminKey],
    ['two keys', () => `Bearer ${api.adminKey} ${api.adminKey}`],
    ['two schemes', () => `Bearer ${api.adminKey}, Bearer ${api.adminKey}`],
    ['a key with more behind it', () => `Bearer ${api.adminKey};`],
    ['a tab for the space', () => `Bearer\t${api.adminKey}`],
    ['a passport', () => 'Passport eyJ'],
    ['a very long key', () => `Bearer at_live_${'a'.repeat(5_000)}`],
  ])('refuses %s', async (_what, authorization) => {
    const headers = { authorization: authorization() };
    expectError(await api.call({ url: '/v1/gates', key: null, headers }), 'unauthorized');
  });

  it.each([
    ['in any case', (key: string) => `bEARER ${key}`],
    ['with several spaces', (key: string) => `Bearer   ${key}`],
  ])('takes the scheme %s', async (_what, authorization) => {
    const headers = { authorization: authorization(api.adminKey) };
    expect((await api.call({ url: '/v1/gates', key: null, headers })).status).toBe(200);
  });

  it('takes no key from anywhere else', async () => {
    const headers = { 'x-api-key': api.adminKey, cookie: `key=${api.adminKey}` };
    for (const query of ['', `?access_token=${api.adminKey}`]) {
      expectError(await api.call({ url: `/v1/gates${query}`, key: null, headers }), 'unauthorized');
    }
  });

  it('refuses an expired key from the millisecond of its expiry on', async () => {
    const expires_at = renderTime((api.deps.clock.now() + hourMs) as UnixMillis);
    const { key } = await api.createKey({ scopes: ['gates:read'], expires_at });
    expect((await api.call({ url: '/v1/gates', key })).status).toBe(200);
    api.advance(hourMs);
    expectError(await api.call({ url: '/v1/gates', key }), 'unauthorized');
  });

  it('refuses a deleted key at once', async () => {
    const { key, keyId } = await api.createKey({ scopes: ['gates:read'] });
    await api.call({ method: 'DELETE', url: `/v1/api-keys/${keyId}` });
    expectError(await api.call({ url: '/v1/gates', key }), 'unauthorized');
  });

  it('answers 403 to the keys of a suspended account, and takes them again afterwards', async () => {
    const { accountId, key } = await api.createAccount();
    const put = (status: string) =>
      api.call({ method: 'PUT', url: `/v1/accounts/${accountId}`, body: { status } });
    await put('suspended');
    expectError(await api.call({ url: '/v1/gates', key }), 'account_suspended');
    await put('active');
    expect((await api.call({ url: '/v1/gates', key })).status).toBe(200);
  });
});

describe('before the body', () => {
  const body = '{"broken';

  it('answers 401 and 403 without having looked at it', async () => {
    const { key } = await api.createKey({ scopes: ['gates:read'] });
    const headers = { 'content-type': 'text/plain' };
    for (const extra of [{}, { headers }]) {
      expectError(await api.call({ url: '/v1/gates', key: null, body, ...extra }), 'unauthorized');
      expectError(await api.call({ url: '/v1/gates', key, body, ...extra }), 'insufficient_scope');
    }
    expectError(await api.call({ url: '/v1/gates', body }), 'invalid_json');
  });
});

describe('last_used_at', () => {
  it('is written beside the call, and again only after a minute', async () => {
    const { key, keyId } = await api.createKey({ scopes: ['gates:read'] });
    const lastUsed = async () => (await api.call({ url: `/v1/api-keys/${keyId}` })).body.last_used_at;
    expect(await lastUsed()).toBe(null);

    await api.call({ url: '/v1/gates', key });
    await until(async () => (await lastUsed()) !== null, { what: 'the first use is written' });
    const first = await lastUsed();

    api.advance(limits.keyUseWriteIntervalMs / 2);
    await api.call({ url: '/v1/gates', key });
    api.advance(limits.keyUseWriteIntervalMs / 2);
    await api.call({ url: '/v1/gates', key });
    await until(async () => (await lastUsed()) !== first, { what: 'the later use is written' });
    expect(Date.parse(await lastUsed()) - Date.parse(first)).toBeGreaterThanOrEqual(
      limits.keyUseWriteIntervalMs,
    );
  });
});

describe('without the database', () => {
  it('still refuses a bad checksum and an unknown address, and answers 503 to what needs a look-up', async () => {
    const away = await startApi();
    await away.deps.sql.end();
    expectError(await away.call({ url: '/v1/gates', key: flipLast(away.adminKey) }), 'unauthorized');
    expectError(await away.call({ url: '/v1/gates', key: null }), 'unauthorized');
    expectError(await away.call({ url: '/v1/nothing' }), 'route_not_found');
    expectError(await away.call({ url: '/v1/gates' }), 'service_unavailable');
    expect((await away.call({ url: '/livez', key: null })).status).toBe(200);
    const readiness = await away.call({ url: '/readyz', key: null });
    expect(readiness.status).toBe(503);
    expect(readiness.body).toMatchObject({ status: 'not_ready', database: 'unreachable' });
    await away.close();
  });
});
