import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { keyPurposes } from '../../shared/model/signing-key.ts';
import { type Api, startApi } from '../support/api.ts';
import { expectError } from '../support/expect-error.ts';

const url = '/v1/signing-keys/rotate';

let api: Api;
beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.close());

describe('POST /signing-keys/rotate', () => {
  it.each([
    [{}, 'purpose'],
    [{ purpose: 'webhook' }, 'purpose'],
    [{ purpose: null }, 'purpose'],
    [{ purpose: ['passport'] }, 'purpose'],
    [{ purpose: 'passport', compromised: 'true' }, 'compromised'],
    [{ purpose: 'passport', compromised: 'no' }, 'compromised'],
    [{ purpose: 'passport', kid: 'x' }, 'kid'],
  ])('400: refuses %j, naming %s, and rotates nothing', async (body, param) => {
    expectError(await api.call({ url, body }), 'invalid_request', param);
    expect(api.deps.signingKeys.all()).toHaveLength(keyPurposes.length);
  });

  it("403: refuses every key but the operator's live admin keys", async () => {
    const other = await api.createAccount();
    const test = await api.createKey({ scopes: ['admin:*'], mode: 'test' });
    const manager = await api.createKey({ scopes: ['keys:manage', 'gates:manage'] });
    for (const key of [other.key, test.key, manager.key]) {
      expectError(await api.call({ url, key, body: { purpose: 'passport' } }), 'insufficient_scope');
    }
    expectError(await api.call({ url, key: null, body: { purpose: 'passport' } }), 'unauthorized');
    expect(api.deps.signingKeys.all()).toHaveLength(keyPurposes.length);
    const admin = await api.createKey({ scopes: ['admin:*'] });
    expect((await api.call({ url, key: admin.key, body: { purpose: 'passport' } })).status).toBe(201);
  });
});
