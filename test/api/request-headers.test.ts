import type { AddressInfo } from 'node:net';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { RawConnection } from '../support/base/raw-http.ts';
import { adapters } from '../support/peers/server-under-test.ts';
import { startOwnApi } from '../support/service/api.ts';
import { startTestSidecar, type TestSidecar } from '../support/service/sidecar.ts';
import { useApi } from '../support/service/use-api.ts';

const api = useApi(startOwnApi);
let gateId: string;
let jwt: string;
const ports = new Map<string, number>();
const sidecars: TestSidecar[] = [];
beforeAll(async () => {
  await api.app.listen({ host: '127.0.0.1', port: 0 });
  ports.set('the control plane', (api.app.server.address() as AddressInfo).port);
  for (const adapter of adapters) {
    const sidecar = await startTestSidecar({ api, adapter });
    sidecars.push(sidecar);
    ports.set(`a sidecar on ${adapter.name}`, Number(new URL(sidecar.origin).port));
  }
  gateId = (await api.createGate()).gate_id;
  jwt = (await api.issuePassport()).jwt;
  for (const sidecar of sidecars) await sidecar.caughtUp();
});
afterAll(async () => {
  for (const sidecar of sidecars) {
    await sidecar.close();
    sidecar.removeFolder();
  }
});

const programs = ['the control plane', ...adapters.map(({ name }) => `a sidecar on ${name}`)];

async function send(program: string, path: string, headers: readonly string[], body: string | Uint8Array) {
  const connection = await RawConnection.open(ports.get(program) ?? 0);
  const lines = [`POST ${path} HTTP/1.1`, 'Host: x', ...headers, `Content-Length: ${body.length}`];
  await connection.send(`${lines.join('\r\n')}\r\n\r\n`);
  await connection.send(body);
  const answer = await connection.next();
  await connection.leave();
  const read = JSON.parse(String(answer?.body ?? '{}'));
  return { status: answer?.status, body: read, error: read.error };
}

describe.each(programs)('%s', (program) => {
  const bearer = () => `Authorization: Bearer ${api.adminKey}`;
  const json = 'Content-Type: application/json';
  const check = () => JSON.stringify({ passport: jwt, request: { permission_key: 'orders:create' } });
  const paths = () => [`/v1/gates/${gateId}/check`, '/v1/enforce', `/v1/gates/${gateId}/check/batch`];

  it('takes each header once', async () => {
    expect(
      (await send(program, paths()[0] ?? '', [bearer(), json, 'Idempotency-Key: a'], check())).status,
    ).toBe(200);
  });

  it.each([
    ['authorization', () => [bearer(), bearer(), json]],
    ['authorization', () => ['Authorization: Basic eDp5', json, bearer()]],
    ['authorization', () => [bearer(), json, 'authorization:']],
    ['content-type', () => [bearer(), json, json]],
    ['content-type', () => [bearer(), 'Content-Type: text/plain', json]],
    ['idempotency-key', () => [bearer(), json, 'Idempotency-Key: a', 'Idempotency-Key: b']],
    ['host', () => [bearer(), json, 'Host: x']],
    ['host', () => [bearer(), json, 'hOST: evil.example']],
    ['host', () => [bearer(), 'Host:', json]],
  ])('refuses a second %s', async (param, headers) => {
    for (const path of paths()) {
      const { status, error } = await send(program, path, headers(), check());
      expect(status, path).toBe(400);
      expect(error).toMatchObject({ code: 'invalid_request', param });
    }
  });

  it.each([
    '/livez',
    '/nowhere',
    '/v1/nowhere',
    '/access/v1/evaluation',
    '/gate_01hzzzzzzzzzzzzzzzzzzzzzzz/any',
  ])('refuses a second host at %s, too', async (path) => {
    const { status, error } = await send(program, path, ['Host: evil.example'], '');
    expect(status).toBe(400);
    expect(error).toMatchObject({ code: 'invalid_request', param: 'host' });
  });

  it.each(['text/plain', 'application/x-www-form-urlencoded', ';;'])(
    'reads an outcome that is sent as %s',
    async (type) => {
      const headers = [bearer(), json];
      const hold = { passport: jwt, request: { permission_key: 'orders:create', amount: 1, hold: true } };
      const permit = await send(program, paths()[0] ?? '', headers, JSON.stringify(hold));
      expect(permit.status).toBe(200);
      const path = `/v1/attestations/${permit.body.attestation_id}/outcome`;
      const sent = await send(program, path, [bearer(), `Content-Type: ${type}`], '{"outcome":"served"}');
      expect([200, 202]).toContain(sent.status);
    },
  );

  it.each<[string, readonly string[], string]>([
    ['a body that is said to be text', ['Content-Type: text/plain'], 'content-type'],
    ['a body that is said to be a form', ['Content-Type: application/x-www-form-urlencoded'], 'content-type'],
    ['a request id of two words', [json, 'X-Request-Id: two words'], 'x-request-id'],
    ['a request id that is too long', [json, `X-Request-Id: ${'x'.repeat(129)}`], 'x-request-id'],
    ['two request ids', [json, 'X-Request-Id: a', 'X-Request-Id: b'], 'x-request-id'],
  ])('refuses an evaluation with %s', async (_what, headers, param) => {
    for (const path of ['/access/v1/evaluation', '/access/v1/evaluations']) {
      const { status, error } = await send(program, path, [bearer(), ...headers], '{}');
      expect(status, path).toBe(400);
      expect(error, path).toMatchObject({ code: 'invalid_request', param });
    }
  });

  it.each(['gzip', 'br', 'identity, gzip', 'x'])('refuses a body that is %s', async (coding) => {
    for (const path of paths()) {
      const headers = [bearer(), json, `Content-Encoding: ${coding}`];
      for (const body of [check(), gzipSync(check())]) {
        const { status, error } = await send(program, path, headers, body);
        expect(status, path).toBe(415);
        expect(error).toMatchObject({ code: 'unsupported_media_type', status: 415 });
      }
    }
  });

  it('accepts a body with the encoding identity', async () => {
    const headers = [bearer(), json, 'Content-Encoding: identity'];
    expect((await send(program, paths()[0] ?? '', headers, check())).status).toBe(200);
  });

  it('authenticates first', async () => {
    const headers = [json, 'Content-Encoding: gzip'];
    expect((await send(program, paths()[0] ?? '', headers, check())).status).toBe(401);
  });
});

it('the control plane refuses them at every operation', async () => {
  const bearer = `Authorization: Bearer ${api.adminKey}`;
  const paths = ['/v1/issuers', '/v1/gates', '/v1/passports', '/mcp', '/oauth/token', '/oauth/register'];
  for (const path of paths) {
    const twice = await send('the control plane', path, [bearer, bearer], '{}');
    expect(twice.status, path).toBe(400);
    const packed = await send('the control plane', path, [bearer, 'Content-Encoding: gzip'], '{}');
    // An API key opens no tools.
    expect(packed.status, path).toBe(path === '/mcp' ? 401 : 415);
  }
});

it('evaluations of AuthZEN are refused alike', async () => {
  for (const program of programs.slice(1)) {
    for (const path of ['/access/v1/evaluation', '/access/v1/evaluations']) {
      const bearer = `Authorization: Bearer ${api.adminKey}`;
      expect((await send(program, path, [bearer, bearer], '{}')).status).toBe(400);
      expect((await send(program, path, [bearer, 'Content-Encoding: gzip'], '{}')).status).toBe(415);
    }
  }
});

it('the per-gate address reads no body: a proxy passes the header of the agent on', async () => {
  for (const program of programs.slice(1)) {
    const { status } = await send(
      program,
      `/${gateId}`,
      [`X-Agent-Passport: ${jwt}`, 'Content-Encoding: gzip'],
      'x',
    );
    expect(status).toBe(403);
  }
});
