import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { ErrorCode } from '../../shared/errors/catalogue.ts';
import { limits } from '../../shared/model/limits.ts';
import { type Api, startApi } from '../support/api.ts';
import { expectError } from '../support/expect-error.ts';
import { RawConnection } from '../support/raw-http.ts';
import { adapters } from '../support/server-under-test.ts';
import { startTestSidecar, type TestSidecar } from '../support/sidecar.ts';

const order = { permission_key: 'orders:create' };

/** What a caller can do wrong, answered by the sidecar word for word as by the control plane. */
describe.each(adapters)('a sidecar behind $name', (adapter) => {
  let api: Api;
  let sidecar: TestSidecar;
  let gateId: string;
  let jwt: string;
  beforeAll(async () => {
    api = await startApi();
    sidecar = await startTestSidecar({ api, adapter });
    gateId = (await api.createGate()).gate_id;
    jwt = (await api.issuePassport()).jwt;
    await sidecar.caughtUp();
  });
  afterAll(async () => {
    await sidecar?.close();
    sidecar?.removeFolder();
    await api?.close();
  });

  /** Sends the same to both, and returns the sidecar's answer after it was found equal. */
  async function ask(path: string, options: { readonly key?: string | null; readonly body?: unknown } = {}) {
    const ours = await sidecar.call({ method: 'POST', path, ...options });
    const theirs = await api.call({ method: 'POST', url: path, ...options });
    const withoutId = ({ status, body, headers }: typeof ours) => ({
      status,
      error: { ...body.error, request_id: null },
      type: headers['content-type'],
      challenge: headers['www-authenticate'] ?? null,
    });
    expect(withoutId(ours)).toEqual(withoutId(theirs));
    return ours;
  }

  const decisionCount = async () => {
    const text: string = (await sidecar.call({ path: '/metrics', key: null })).body;
    return [...text.matchAll(/^agent_trust_sidecar_decisions_total\{.*\} (\d+)$/gm)].map(([, count]) =>
      Number(count),
    );
  };

  describe('401 and 403', () => {
    const wrongKeys = (adminKey: string) => [
      null,
      '',
      'nonsense',
      `at_live_${'a'.repeat(36)}`,
      `at_test_${'0'.repeat(36)}`,
      adminKey.toUpperCase(),
      adminKey.slice(0, -1),
      `${adminKey}x`,
      jwt,
    ];

    it('refuses a request without credentials', async () => {
      for (const key of wrongKeys(api.adminKey)) {
        expectError(
          await ask(`/v1/gates/${gateId}/check`, { key, body: { passport: jwt, request: order } }),
          'unauthorized',
        );
      }
    });

    it('refuses a key of another account, which is no key here', async () => {
      const other = await api.createAccount();
      const body = { passport: jwt, request: order };
      expectError(await sidecar.check(gateId, jwt, order, other.key), 'unauthorized');
      expect((await api.call({ url: `/v1/gates/${gateId}/check`, key: other.key, body })).status).toBe(404);
    });

    it('come before the body, and before a gate that does not exist', async () => {
      const { key } = await api.createKey({ scopes: ['passports:read', 'gates:read'] });
      await sidecar.caughtUp();
      for (const path of [`/v1/gates/${gateId}/check`, '/v1/gates/gate_1/check', '/v1/enforce']) {
        expectError(await ask(path, { key: null, body: '{' }), 'unauthorized');
        expectError(await ask(path, { key, body: '{' }), 'insufficient_scope');
      }
    });

    it('accepts every key with scopes that imply the needed one', async () => {
      for (const scope of ['enforcement:check', 'gates:manage', 'admin:*']) {
        const { key } = await api.createKey({ scopes: [scope] });
        await sidecar.caughtUp();
        expect((await sidecar.check(gateId, jwt, order, key)).status).toBe(200);
      }
    });

    it('refuses a key once it is deleted or expired', async () => {
      const deleted = await api.createKey({ scopes: ['admin:*'] });
      const expiresAt = Date.now() + 60_000;
      const expiring = await api.createKey({
        scopes: ['admin:*'],
        expires_at: new Date(expiresAt).toISOString(),
      });
      await sidecar.caughtUp();
      expect((await sidecar.check(gateId, jwt, order, deleted.key)).status).toBe(200);
      await api.call({ method: 'DELETE', url: `/v1/api-keys/${deleted.keyId}` });
      await sidecar.caughtUp();
      expectError(await sidecar.check(gateId, jwt, order, deleted.key), 'unauthorized');
      sidecar.stopClockAt(expiresAt - 1);
      expect((await sidecar.check(gateId, jwt, order, expiring.key)).status).toBe(200);
      sidecar.stopClockAt(expiresAt);
      expectError(await sidecar.check(gateId, jwt, order, expiring.key), 'unauthorized');
      sidecar.resume();
    });
  });

  it('refuses a key that is deleted between head and body, and leaves no record', async () => {
    const { key, keyId } = await api.createKey({ scopes: ['enforcement:check'] });
    await sidecar.caughtUp();
    const before = await decisionCount();
    const body = JSON.stringify({ passport: jwt, request: order });
    const connection = await RawConnection.open(Number(new URL(sidecar.origin).port));
    await connection.send(
      `POST /v1/gates/${gateId}/check HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${key}\r\n` +
        `Content-Length: ${body.length}\r\n\r\n${body.slice(0, 10)}`,
    );
    // Another request is answered, so this one's head has been read.
    expect((await sidecar.check(gateId, 'x', order, key)).status).toBe(200);
    const afterProbe = await decisionCount();
    await api.call({ method: 'DELETE', url: `/v1/api-keys/${keyId}` });
    await sidecar.caughtUp();
    await connection.send(body.slice(10));
    expect((await connection.next())?.status).toBe(401);
    expect(await decisionCount()).toEqual(afterProbe);
    expect(before).not.toEqual(afterProbe);
    await connection.leave();
  });

  describe('404', () => {
    it('is the answer for a gate that the caller cannot see, and leaves no record', async () => {
      const other = await api.createAccount();
      const testKey = await api.createKey({ scopes: ['admin:*'], mode: 'test' });
      const ids = [
        'gate_00000000000000000000000000',
        'gate_1',
        '',
        'toString',
        '__proto__',
        (await api.createGate({}, other.key)).gate_id,
        (await api.createGate({}, testKey.key)).gate_id,
      ];
      await sidecar.caughtUp();
      const before = await decisionCount();
      for (const id of ids) {
        expectError(
          await ask(`/v1/gates/${id}/check`, { body: { passport: jwt, request: order } }),
          'gate_not_found',
        );
        const chosen = { passport: jwt, request: { ...order, gate_id: id } };
        expect((await ask('/v1/enforce', { body: chosen })).body.error.code).toBe('gate_not_found');
        // A body that cannot be read is told first, at both.
        expectError(
          await ask(`/v1/gates/${id}/check`, { body: { passport: jwt } }),
          'invalid_request',
          'request',
        );
      }
      expect(await decisionCount()).toEqual(before);
    });

    it('is the answer for addresses and methods that do not exist, with and without a key', async () => {
      for (const key of [api.adminKey, null]) {
        for (const path of [
          '/',
          '/v1',
          '/v1/enforce/',
          '/v1/gates',
          `/v1/gates/${gateId}/check/x`,
          '/nowhere',
        ]) {
          expectError(await sidecar.call({ method: 'POST', path, key }), 'route_not_found');
        }
        for (const method of ['GET', 'PUT', 'DELETE', 'PATCH', 'OPTIONS']) {
          expectError(await sidecar.call({ method, path: '/v1/enforce', key }), 'route_not_found');
        }
      }
    });

    it('is the answer for a gate of the account’s own from the sight of its other mode', async () => {
      const { key } = await api.createKey({ scopes: ['admin:*'], mode: 'test' });
      await sidecar.caughtUp();
      expectError(
        await ask(`/v1/gates/${gateId}/check`, { key, body: { passport: jwt, request: order } }),
        'gate_not_found',
      );
    });
  });

  describe('400', () => {
    const text = (request: string) => `{"passport":"x","request":${request}}`;
    const deep = (levels: number) => `${'['.repeat(levels)}${']'.repeat(levels)}`;

    const wrongBodies: readonly (readonly [ErrorCode, string | Uint8Array])[] = [
      ['invalid_json', '{'],
      ['invalid_json', 'null x'],
      ['invalid_json', text('{"amount":01}')],
      ['invalid_json', text('{"amount":NaN}')],
      ['invalid_json', `\u{feff}${text('{}')}`],
      ['invalid_json', Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d])],
      ['invalid_request', ''],
      ['invalid_request', '[]'],
      ['invalid_request', '7'],
      ['invalid_request', '{}'],
      ['invalid_request', '{"request":{}}'],
      ['invalid_request', '{"passport":"x"}'],
      ['invalid_request', '{"passport":7,"request":{}}'],
      ['invalid_request', '{"passport":null,"request":{}}'],
      ['invalid_request', text('[]')],
      ['invalid_request', text('"x"')],
      ['invalid_request', text('null')],
      ['invalid_request', '{"passport":"x","request":{},"gate":"y"}'],
      ['invalid_request', '{"passport":"x","request":{},"__proto__":{}}'],
      ['invalid_request', text('{"__proto__":{"amount":1}}')],
      ['invalid_request', text('{"a":[{"__proto__":1}]}')],
      ['invalid_request', text('{"note":"\\ud800"}')],
      ['invalid_request', text('{"\\udfff":1}')],
      ['invalid_request', text(`{"a":${deep(31)}}`)],
      ['invalid_request', text(`{"a":${deep(1_000)}}`)],
      ['invalid_request', text('{"permission_key":"orders:*"}')],
      ['invalid_request', text('{"permission_key":7}')],
      ['invalid_request', text('{"permission_key":"orders:create","action":"orders:delete"}')],
      ['invalid_request', text('{"url":"/orders"}')],
      ['invalid_request', text('{"domain":"a b"}')],
      ['body_too_large', text(`{"note":"${'a'.repeat(limits.bodyBytesMax)}"}`)],
      ['body_too_large', text(`{"note":"${'a'.repeat(1_000_000)}"}`)],
    ];
    it.each(wrongBodies.map(([code, body]) => [code, String(body).slice(0, 60), body] as const))(
      '%s: %s',
      async (code, _start, body) => {
        const reply = await ask(`/v1/gates/${gateId}/check`, { body });
        expect([reply.status, reply.body.error.code]).toEqual([400, code]);
        expect((await ask('/v1/enforce', { body })).body.error.code).toBe(code);
      },
    );

    it.each([
      '-1',
      '-0.000001',
      '1e-7',
      '0.1234567',
      '1e400',
      '-1e400',
      '1000000000.000001',
      '1e10',
      '"5"',
      'true',
      '[]',
      '{}',
    ])('is the answer for the amount %s', async (amount) => {
      for (const name of ['amount', 'amount_usd', 'estimated_cost_usd']) {
        expectError(
          await ask('/v1/enforce', { body: text(`{"${name}":${amount}}`) }),
          'invalid_request',
          `request.${name}`,
        );
      }
    });

    it.each(['0', '-0', '0.000001', '12.5', '999999999.999999', '1e9', '1E3', '5.0'])(
      'is not the answer for the amount %s',
      async (amount) => {
        expect((await sidecar.call({ path: '/v1/enforce', body: text(`{"amount":${amount}}`) })).status).toBe(
          200,
        );
      },
    );

    it('is the answer for two names of the amount that differ, and not for two that agree', async () => {
      const differ = text('{"amount":1,"amount_usd":2}');
      expectError(await ask('/v1/enforce', { body: differ }), 'invalid_request', 'request.amount_usd');
      expect(
        (await sidecar.call({ path: '/v1/enforce', body: text('{"amount":1,"amount_usd":1.0}') })).status,
      ).toBe(200);
    });

    it('is the answer for a request that names another gate than its address', async () => {
      const check = (request: object) =>
        ask(`/v1/gates/${gateId}/check`, { body: { passport: 'x', request } });
      for (const other of ['gate_1', `gate_${'0'.repeat(26)}`, '', 7, {}]) {
        expectError(await check({ ...order, gate_id: other }), 'invalid_request', 'request.gate_id');
      }
      const test = { passport_token: 'x', context: { gate_id: 'gate_1' } };
      expectError(
        await api.call({ url: `/v1/gates/${gateId}/test`, body: test }),
        'invalid_request',
        'context.gate_id',
      );
      for (const same of [gateId, null]) {
        const body = { passport: jwt, request: { ...order, gate_id: same } };
        const replies = [
          await sidecar.call({ path: `/v1/gates/${gateId}/check`, body }),
          await api.call({ url: `/v1/gates/${gateId}/check`, body }),
        ];
        expect(replies.map((reply) => reply.body.decision)).toEqual(['PERMIT', 'PERMIT']);
      }
    });

    it.each([
      '/v1/gates/%ZZ/check',
      '/v1/gates/%E0%A4%A/check',
      '/v1/gates/%/check',
      '/%FF',
      `/v1/gates/${'a'.repeat(513)}/check`,
    ])('is the answer for the address %s', async (path) => {
      expectError(await ask(path, { body: {} }), 'invalid_request');
      expectError(await ask(path, { key: null, body: {} }), 'invalid_request');
    });
  });

  it('refuses U+0000 in the address', async () => {
    const path = '/v1/gates/gate_%00/check';
    expectError(await ask(path, { body: { passport: jwt, request: order } }), 'invalid_request', 'id');
  });

  it('ignores the query string', async () => {
    const body = { passport: jwt, request: order };
    for (const path of ['/v1/enforce?x=%zz', `/v1/gates/${gateId}/check?%`]) {
      expect((await sidecar.call({ path, body })).body.decision).toBe('PERMIT');
    }
    expectError(await ask('/nowhere?x=%zz', { body }), 'route_not_found');
  });

  it('answers a decision, not an error, for any fault of the passport', async () => {
    for (const token of [
      '',
      ' ',
      'a.b.c',
      '...',
      '\u0000',
      'é',
      '🎫',
      jwt.repeat(20),
      `${jwt}\n`,
      jwt.replaceAll('.', '..'),
    ]) {
      const reply = await sidecar.check(gateId, token, order);
      expect([reply.status, reply.body.reason]).toEqual([200, 'passport_malformed']);
    }
  });

  it('never repeats a token or a key in an error', async () => {
    const replies = [
      await sidecar.call({ path: '/v1/enforce', body: `{"passport":"${jwt}","request":{}` }),
      await sidecar.call({ path: '/v1/enforce', body: { passport: { token: jwt }, request: {} } }),
      await sidecar.call({ path: `/v1/gates/${api.adminKey}/check`, body: {} }),
    ];
    for (const { body } of replies) {
      expect(body.error.code).toMatch(/^invalid_|not_found$/);
      expect(JSON.stringify(body)).not.toContain(jwt.slice(0, 20));
      expect(JSON.stringify(body)).not.toContain(api.adminKey.slice(8));
    }
  });
});
