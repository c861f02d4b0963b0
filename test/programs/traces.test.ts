import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { call } from '../support/http-client.ts';
import { type Installation, installation, type Running } from '../support/installation.ts';
import { type TestDatabase, testDatabase } from '../support/postgres.ts';
import { bundledPrograms } from '../support/programs.ts';
import { type Receiver, startReceiver } from '../support/receiver.ts';
import { until } from '../support/until.ts';

const traceOf = (n: number) => String(n).padStart(32, 'a');
const traceparentOf = (n: number) => `00-${traceOf(n)}-00f067aa0ba902b7-01`;

describe('traceparent at the control plane', () => {
  let database: TestDatabase;
  let service: Installation;
  let receiver: Receiver;
  let controlPlane: Running;
  beforeAll(async () => {
    database = await testDatabase();
    receiver = await startReceiver();
    service = await installation(await bundledPrograms(), { databaseUrl: database.url });
    controlPlane = await service.startControlPlane({ WEBHOOK_ALLOW_PRIVATE: '1', LOG_LEVEL: 'debug' });
    const made = await service.api('POST', '/webhooks', {
      url: receiver.url,
      events: ['passport.revoked', 'passport.denied'],
    });
    expect(made.status, JSON.stringify(made.body)).toBe(201);
  });
  afterAll(async () => {
    await service?.close();
    await receiver?.close();
    await database?.drop();
  });

  const post = (path: string, body: object, headers: Readonly<Record<string, string>> = {}) =>
    call(`${controlPlane.origin}/v1${path}`, { method: 'POST', key: service.adminKey, body, headers });
  const lines = () =>
    controlPlane.program
      .output()
      .split('\n')
      .flatMap((line) => (line.startsWith('{') ? [JSON.parse(line)] : []));
  const lineOf = (requestId: string) => lines().find(({ request_id }) => request_id === requestId);
  const hookAbout = (text: string) => receiver.received.find(({ body }) => body.includes(text));

  it('is in the lines of its request and in the webhooks that it causes, and in no others', async () => {
    const passports = await Promise.all([0, 1, 2, 3].map(() => service.issuePassport()));
    const answers = await Promise.all(
      passports.map(({ id }, n) =>
        post(`/passports/${id}/revoke`, {}, n === 0 ? {} : { traceparent: traceparentOf(n) }),
      ),
    );
    for (const [n, { id }] of passports.entries()) {
      await until(() => hookAbout(id) !== undefined, { what: 'a webhook' });
      expect(hookAbout(id)?.headers['traceparent']).toBe(n === 0 ? undefined : traceparentOf(n));
      const requestId = answers[n]?.headers.get('x-request-id') ?? '';
      await until(() => lineOf(requestId) !== undefined, { what: 'a line' });
      expect(lineOf(requestId)?.trace_id).toBe(n === 0 ? undefined : traceOf(n));
    }
  });

  it('that is not valid is ignored, and so is that of a batch of decisions', async () => {
    const { id } = await service.issuePassport();
    await post(`/passports/${id}/revoke`, {}, { traceparent: traceparentOf(9).toUpperCase() });
    await until(() => hookAbout(id) !== undefined, { what: 'a webhook' });
    expect(hookAbout(id)?.headers['traceparent']).toBeUndefined();
    const gate = await service.createGate();
    const { token } = await service.issuePassport({ permissions: ['other:thing'] });
    const request = { passport: token, request: { permission_key: 'orders:create' } };
    const [one, two] = await Promise.all(
      [10, 11].map((n) => post(`/gates/${gate}/check`, request, { traceparent: traceparentOf(n) })),
    );
    for (const answer of [one, two]) {
      const record = answer?.body.attestation_id;
      expect(record).toMatch(/^att/);
      await until(() => hookAbout(record) !== undefined, { what: 'a webhook' });
      expect(hookAbout(record)?.headers['traceparent']).toBeUndefined();
    }
  });

  it('is in no line that no request caused', () => {
    const traced = lines().filter(({ trace_id }) => trace_id !== undefined);
    expect(traced.length).toBeGreaterThan(3);
    expect(traced.filter(({ request_id }) => request_id === undefined)).toEqual([]);
  });
});
