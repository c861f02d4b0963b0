import { beforeAll, describe, expect, it } from 'vitest';
import type { ErrorCode } from '../../shared/errors/catalogue.ts';
import { limits } from '../../shared/model/limits.ts';
import { RawConnection } from '../support/base/raw-http.ts';
import { adapters } from '../support/peers/server-under-test.ts';
import { expectError } from '../support/service/expect-error.ts';
import { useApi, useSidecar } from '../support/service/use-api.ts';

const order = { permission_key: 'orders:create' };

/** What a caller can do wrong, answered by the sidecar word for word as by the control plane. */
describe.each(adapters)('a sidecar behind $name', (adapter) => {
  const api = useApi();
  let gateId: string;
  let jwt: string;
  const sidecar = useSidecar(() => ({ api, adapter }));
  beforeAll(async () => {
    gateId = (await api.createGate()).gate_id;
    jwt = (await api.issuePassport()).jwt;
    await sidecar.caughtUp();
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
  });

  describe('400', () => {
    const text = (request: string) => `{"passport":"x","request":${request}}`;
    const deep = (levels: number) => `${'['.repeat(levels)}${']'.repeat(levels)}`;

    const wrongBodies: readonly (readonly [ErrorCode, string | Uint8Array])[] = [
      ['invalid_json', '{'],
      ['invalid_json', `\u{feff}${text('{}')}`],
      ['invalid_json', Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x3a, 0x31, 0x7d])],
      ['invalid_request', ''],
      ['invalid_request', '[]'],
      ['invalid_request', '{"passport":7,"request":{}}'],
      ['invalid_request', text('{"__proto__":{"amount":1}}')],
      ['invalid_request', text('{"note":"\\ud800"}')],
      ['invalid_request', text(`{"a":${deep(1_000)}}`)],
      ['invalid_request', text('{"permission_key":"orders:*"}')],
      ['invalid_request', text('{"amount":1e-7}')],
      ['body_too_large', text(`{"note":"${'a'.repeat(limits.bodyBytesMax)}"}`)],
    ];
    it.each(wrongBodies.map(([code, body]) => [code, String(body).slice(0, 60), body] as const))(
      '%s: %s',
      async (code, _start, body) => {
        const reply = await ask(`/v1/gates/${gateId}/check`, { body });
        expect([reply.status, reply.body.error.code]).toEqual([400, code]);
        expect((await ask('/v1/enforce', { body })).body.error.code).toBe(code);
      },
    );

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
  });

  it('ignores the query string', async () => {
    const body = { passport: jwt, request: order };
    for (const path of ['/v1/enforce?x=%zz', `/v1/gates/${gateId}/check?%`]) {
      expect((await sidecar.call({ path, body })).body.decision).toBe('PERMIT');
    }
    expectError(await ask('/nowhere?x=%zz', { body }), 'route_not_found');
  });

  it('answers a decision, not an error, for any fault of the passport', async () => {
    for (const token of ['', 'a.b.c', '\u0000', '🎫', jwt.repeat(20), `${jwt}\n`]) {
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
