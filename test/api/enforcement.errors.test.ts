import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { limits } from '../../shared/model/limits.ts';
import { type Api, startApi } from '../support/api.ts';
import { expectError } from '../support/expect-error.ts';

let api: Api;
let gateId: string;
let jwt: string;
beforeAll(async () => {
  api = await startApi();
  gateId = (await api.createGate()).gate_id;
  jwt = (await api.issuePassport()).jwt;
});
afterAll(() => api.close());

const order = { permission_key: 'orders:create' };
const addresses = () => [`/v1/gates/${gateId}/check`, '/v1/enforce', `/v1/gates/${gateId}/test`];
const recordCount = async () => {
  const [row] = await api.deps.sql<{ count: number }[]>`SELECT count(*) AS count FROM attestations`;
  return row?.count;
};

describe('401 and 403', () => {
  it('come before the body is looked at', async () => {
    const { key } = await api.createKey({ scopes: ['passports:read'] });
    for (const url of addresses()) {
      expectError(await api.call({ url, key: null, body: '{' }), 'unauthorized');
      expectError(await api.call({ url, key, body: '{' }), 'insufficient_scope');
    }
  });

  it('come before a gate that does not exist', async () => {
    const { key } = await api.createKey({ scopes: ['passports:read'] });
    expectError(await api.call({ url: '/v1/gates/gate_1/check', key, body: {} }), 'insufficient_scope');
  });

  it('do not stand in the way of the scope that each operation needs', async () => {
    const enforcement = await api.createKey({ scopes: ['enforcement:check'] });
    const reader = await api.createKey({ scopes: ['gates:read'] });
    const asked = { passport: jwt, request: order };
    const tested = { passport_token: jwt };
    const statusOf = async (url: string, key: string, body: object) =>
      (await api.call({ url, key, body })).status;
    expect(await statusOf(`/v1/gates/${gateId}/check`, enforcement.key, asked)).toBe(200);
    expect(await statusOf('/v1/enforce', enforcement.key, asked)).toBe(200);
    expect(await statusOf(`/v1/gates/${gateId}/test`, reader.key, tested)).toBe(200);
    expect(await statusOf(`/v1/gates/${gateId}/check`, reader.key, asked)).toBe(403);
    expect(await statusOf(`/v1/gates/${gateId}/test`, enforcement.key, tested)).toBe(403);
  });
});

describe('404', () => {
  it('is the answer for a gate that the caller cannot see', async () => {
    const other = await api.createAccount();
    const testKey = await api.createKey({ scopes: ['admin:*'], mode: 'test' });
    const deleted = await api.createGate();
    await api.call({ method: 'DELETE', url: `/v1/gates/${deleted.gate_id}` });
    const ids = {
      unknown: 'gate_00000000000000000000000000',
      'no id': 'gate_1',
      'of another account': (await api.createGate({}, other.key)).gate_id,
      'of the other mode': (await api.createGate({}, testKey.key)).gate_id,
      deleted: deleted.gate_id,
    };
    const before = await recordCount();
    for (const id of Object.values(ids)) {
      const asked = { passport: jwt, request: order };
      expectError(await api.call({ url: `/v1/gates/${id}/check`, body: asked }), 'gate_not_found');
      expectError(
        await api.call({ url: `/v1/gates/${id}/test`, body: { passport_token: jwt } }),
        'gate_not_found',
      );
    }
    expect(await recordCount()).toBe(before);
  });
});

describe('400', () => {
  const text = (request: string) => `{"passport":"x","request":${request}}`;
  const nested = `${'['.repeat(1_000)}${']'.repeat(1_000)}`;

  it.each([
    ['invalid_json', undefined, '{'],
    ['invalid_json', undefined, text('{"amount":01}')],
    ['invalid_request', 'passport', '{"request":{}}'],
    ['invalid_request', 'request', '{"passport":"x"}'],
    ['invalid_request', 'passport', '{"passport":7,"request":{}}'],
    ['invalid_request', 'request', text('[]')],
    ['invalid_request', 'request', text('null')],
    ['invalid_request', 'gate', '{"passport":"x","request":{},"gate":"y"}'],
    ['invalid_request', 'request', text('{"__proto__":{"amount":1}}')],
    ['invalid_request', 'request.note', text('{"note":"\\ud800"}')],
    ['invalid_request', 'request.amount', text('{"amount":-1}')],
    ['invalid_request', 'request.amount', text('{"amount":1e-7}')],
    ['invalid_request', 'request.amount', text('{"amount":0.1234567}')],
    ['invalid_request', 'request.amount', text('{"amount":1e400}')],
    ['invalid_request', 'request.amount', text('{"amount":"5"}')],
    ['invalid_request', 'request.amount_usd', text('{"amount":1,"amount_usd":2}')],
    ['invalid_request', 'request.permission_key', text('{"permission_key":"orders:*"}')],
    ['invalid_request', 'request.url', text('{"url":"/orders"}')],
    ['body_too_large', undefined, text(`{"note":"${'a'.repeat(limits.bodyBytesMax)}"}`)],
  ] as const)('%s, %s', async (code, param, body) => {
    const before = await recordCount();
    for (const url of addresses().slice(0, 2)) expectError(await api.call({ url, body }), code, param);
    expect(await recordCount()).toBe(before);
  });

  it('is the answer for nesting of 1,000 levels', async () => {
    const reply = await api.call({ url: '/v1/enforce', body: text(`{"a":${nested}}`) });
    expect(reply).toMatchObject({ status: 400, body: { error: { code: 'invalid_request' } } });
  });

  it('is not the answer for a token that is nonsense, which is a BLOCK', async () => {
    const reply = await api.call({ url: '/v1/enforce', body: { passport: '', request: {} } });
    expect(reply).toMatchObject({ status: 200, body: { reason: 'passport_malformed' } });
  });
});
