import type { AddressInfo } from 'node:net';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Api, startApi } from '../support/api.ts';
import { RawConnection } from '../support/raw-http.ts';
import { adapters } from '../support/server-under-test.ts';
import { startTestSidecar, type TestSidecar } from '../support/sidecar.ts';

let api: Api;
let gateId: string;
let jwt: string;
const ports = new Map<string, number>();
const sidecars: TestSidecar[] = [];
beforeAll(async () => {
  api = await startApi();
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
  await api?.close();
});

const programs = ['the control plane', ...adapters.map(({ name }) => `a sidecar on ${name}`)];

async function send(program: string, path: string, headers: readonly string[], body: string | Uint8Array) {
  const connection = await RawConnection.open(ports.get(program) ?? 0);
  const lines = [`POST ${path} HTTP/1.1`, 'Host: x', ...headers, `Content-Length: ${body.length}`];
  await connection.send(`${lines.join('\r\n')}\r\n\r\n`);
  await connection.send(body);
  const answer = await connection.next();
  await connection.leave();
  return { status: answer?.status, error: JSON.parse(answer?.body ?? '{}').error };
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
  ])('refuses a second %s', async (param, headers) => {
    for (const path of paths()) {
      const { status, error } = await send(program, path, headers(), check());
      expect(status, path).toBe(400);
      expect(error).toMatchObject({ code: 'invalid_request', param });
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
  for (const path of [
    '/v1/issuers',
    '/v1/gates',
    '/v1/passports',
    '/mcp',
    '/oauth/token',
    '/oauth/register',
  ]) {
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
