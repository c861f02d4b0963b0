import { describe, expect, it } from 'vitest';
import { apiKeyRandomBytes, makeApiKey } from '../../shared/crypto/api-key.ts';
import { limits } from '../../shared/model/limits.ts';
import { until } from '../support/base/until.ts';
import { startOwnApi } from '../support/service/api.ts';
import { expectError } from '../support/service/expect-error.ts';
import { useApi } from '../support/service/use-api.ts';

const api = useApi(startOwnApi);

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
    ['a key with more after it', () => `Bearer ${api.adminKey};`],
    ['a tab for the space', () => `Bearer\t${api.adminKey}`],
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
    const away = await startOwnApi();
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
