import { beforeAll, describe, expect, it } from 'vitest';
import { limits } from '../../shared/model/limits.ts';
import { expectError } from '../support/service/expect-error.ts';
import { useApi } from '../support/service/use-api.ts';

const api = useApi();
let gateId: string;
let jwt: string;
beforeAll(async () => {
  gateId = (await api.createGate()).gate_id;
  jwt = (await api.issuePassport()).jwt;
});

const order = { permission_key: 'orders:create' };
const addresses = () => [`/v1/gates/${gateId}/check`, '/v1/enforce', `/v1/gates/${gateId}/test`];
const recordCount = async () => {
  const [row] = await api.deps.sql<{ count: number }[]>`SELECT count(*) AS count FROM attestations`;
  return row?.count;
};

it('401 and 403 come before the body is looked at', async () => {
  const { key } = await api.createKey({ scopes: ['passports:read'] });
  for (const url of addresses()) {
    expectError(await api.call({ url, key: null, body: '{' }), 'unauthorized');
    expectError(await api.call({ url, key, body: '{' }), 'insufficient_scope');
  }
  // Nor at a gate that does not exist.
  expectError(await api.call({ url: '/v1/gates/gate_1/check', key, body: {} }), 'insufficient_scope');
});

it('404 is the answer for a gate that the caller cannot see', async () => {
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

describe('400', () => {
  const text = (request: string) => `{"passport":"x","request":${request}}`;

  it.each([
    ['invalid_json', undefined, '{'],
    ['invalid_request', 'passport', '{"request":{}}'],
    ['invalid_request', 'request', text('[]')],
    ['invalid_request', 'gate', '{"passport":"x","request":{},"gate":"y"}'],
    ['invalid_request', 'request', text('{"__proto__":{"amount":1}}')],
    ['invalid_request', 'request.amount', text('{"amount":-1}')],
    ['body_too_large', undefined, text(`{"note":"${'a'.repeat(limits.bodyBytesMax)}"}`)],
  ] as const)('%s, %s', async (code, param, body) => {
    const before = await recordCount();
    for (const url of addresses().slice(0, 2)) expectError(await api.call({ url, body }), code, param);
    expect(await recordCount()).toBe(before);
  });

  it('is not the answer for a token that is nonsense, which is a BLOCK', async () => {
    const reply = await api.call({ url: '/v1/enforce', body: { passport: '', request: {} } });
    expect(reply).toMatchObject({ status: 200, body: { reason: 'passport_malformed' } });
  });
});
