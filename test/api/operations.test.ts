import { once } from 'node:events';
import { type AddressInfo, connect } from 'node:net';
import { setImmediate } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { thumbprint } from '../../shared/crypto/keyset.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { startOwnApi } from '../support/service/api.ts';
import { expectError } from '../support/service/expect-error.ts';
import { useApi } from '../support/service/use-api.ts';

const logged: string[] = [];
const write = (fields: object, message: string) => void logged.push(JSON.stringify({ ...fields, message }));
const recordingLogger: Logger = {
  ...{ debug: write, info: write, warn: write, error: write },
  child: () => recordingLogger,
};

const api = useApi(() => startOwnApi({ logger: recordingLogger }));

describe('without a key', () => {
  it('GET /livez and /readyz answer', async () => {
    expect((await api.call({ url: '/livez', key: null })).body).toEqual({ status: 'live' });
    const readiness = await api.call({ url: '/readyz', key: null });
    expect(readiness.status).toBe(200);
    expect(readiness.body).toMatchObject({
      ...{ status: 'ready', draining: false, database: 'reachable', push: 'connected', appending: 'working' },
      ...{ push_lost: 0, bad_signing_keys: 0, master_key: 'settled', replica: null },
      ...{ database_connections_max: 8, database_connections_refused: 0 },
      ...{ sidecars: { connected: 0, clock_offset_ms_max: 0 }, history: { state: 'whole', missing: null } },
      log: { state: 'working', origin: null, size: 0, witnesses: [] },
    });
  });

  it('GET /readyz shows how far the clocks of connected sidecars are off', async () => {
    const { account_id } = (await api.call({ url: '/v1/accounts' })).body.items[0];
    const nowMs = api.deps.clock.now();
    await api.deps.sql`INSERT INTO sidecars VALUES
      ('side_a', ${account_id}, 'c', ${nowMs}, ${nowMs}, 0, 0, -1500),
      ('side_b', ${account_id}, 'c', ${nowMs}, ${nowMs}, 0, 0, 20),
      ('side_gone', ${account_id}, 'c', 0, 0, 0, 0, 99999)`;
    const { body } = await api.call({ url: '/readyz', key: null });
    expect(body.sidecars).toEqual({ connected: 2, clock_offset_ms_max: 1_500 });
  });

  it('GET /metrics counts requests by route, and never by id', async () => {
    const { id } = await api.createGate();
    await api.call({ url: `/v1/gates/${id}` });
    const { body, headers } = await api.call({ url: '/metrics', key: null });
    expect(headers['content-type']).toContain('text/plain');
    expect(body).toMatch(
      /agent_trust_http_request_duration_seconds_count\{method="GET",route="\/v1\/gates\/:id",status="200"\} 1/,
    );
    expect(body).not.toContain(id);
  });

  it('GET /.well-known/jwks.json shows the public keys that others verify with', async () => {
    const { body, headers } = await api.call({ url: '/.well-known/jwks.json', key: null });
    expect(headers['cache-control']).toBe('public, max-age=30');
    expect(body.keys.map((key: { purpose: string }) => key.purpose).toSorted()).toEqual([
      ...['attestation', 'catalog', 'log', 'passport'],
    ]);
    for (const key of body.keys) {
      expect(Object.keys(key)).not.toContain('d');
      expect(thumbprint(Buffer.from(key.x, 'base64url'))).toBe(key.kid);
    }
  });
});

it('our own faults answer 500 without their message, are logged under the request id, and counted', async () => {
  const { id } = await api.createGate();
  await api.deps.sql`UPDATE gates SET constraints = '{"unknown": 1}' WHERE gate_id = ${id}`;
  const reply = await api.call({ url: `/v1/gates/${id}` });
  expectError(reply, 'internal_error');
  expect(JSON.stringify(reply.body)).not.toContain('constraints');
  const line = logged.find((each) => each.includes(reply.body.error.request_id) && each.includes('failed'));
  expect(line).toContain('the stored constraints of a gate can be read');
  const metrics = await api.call({ url: '/metrics', key: null });
  expect(metrics.body).toContain('agent_trust_internal_errors_total{kind="invariant"} 1');
});

it('a form that its sender breaks off is no failure of ours', async () => {
  const { app } = api;
  await app.listen({ host: '127.0.0.1', port: 0 });
  const begun = once(app.server, 'request');
  const socket = connect({ port: (app.server.address() as AddressInfo).port, host: '127.0.0.1' });
  const form = 'Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 99\r\n\r\na';
  socket.write(`POST /oauth/consent/a HTTP/1.1\r\nHost: a\r\n${form}`);
  const [request] = await begun;
  socket.destroy();
  await new Promise((resolve) => request.once('close', resolve));
  await setImmediate();
  expect(logged.filter((line) => line.includes('/oauth/consent'))).toEqual([]);
});

it('never logs a secret', async () => {
  const { key, keyId } = await api.createKey({ scopes: ['gates:read'] });
  const issued = await api.issuePassport();
  const rolled = await api.call({ method: 'POST', url: `/v1/api-keys/${keyId}/roll` });
  await api.call({ url: '/v1/gates', key });
  await api.call({ url: '/v1/passports', body: { private_key: issued.private_key } });
  await api.call({ url: '/v1/passports', body: `{"jwt": "${issued.jwt}` });
  const secrets = [api.adminKey, key, rolled.body.key, issued.private_key, issued.jwt];
  expect(logged.length).toBeGreaterThan(0);
  for (const secret of secrets) expect(logged.join('\n')).not.toContain(secret);
});
