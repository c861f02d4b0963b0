import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { call, type Reply } from '../support/base/http-client.ts';
import { until, untilAnswer } from '../support/base/until.ts';
import { type TestDatabase, testDatabase } from '../support/database/postgres.ts';
import { type Receiver, startReceiver } from '../support/peers/receiver.ts';
import { StreamClient } from '../support/peers/stream-client.ts';
import { type Installation, installation, type Running } from '../support/programs/installation.ts';
import { bundledPrograms } from '../support/programs/programs.ts';
import { isPassing } from '../support/service/sidecar-pair.ts';

const traceOf = (n: number) => String(n).padStart(32, 'a');
const traceparentOf = (n: number) => `00-${traceOf(n)}-00f067aa0ba902b7-01`;

const linesOf = ({ program }: Running) =>
  program
    .output()
    .split('\n')
    // What comes after the last end of a line may be half of one.
    .slice(0, -1)
    .flatMap((line) => (line.startsWith('{') ? [JSON.parse(line)] : []));

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
  const lines = () => linesOf(controlPlane);
  const lineOf = (requestId: string) => lines().find(({ request_id }) => request_id === requestId);
  const hookAbout = (text: string) => receiver.received.find(({ body }) => body.includes(text));

  /** Of the second and third one too many members, and one that is none. */
  const statesOf = (n: number) =>
    [
      { given: 'a=1, b@c=2', passedOn: 'a=1,b@c=2' },
      { given: Array.from({ length: 33 }, (_, k) => `k${k}=v`).join(), passedOn: undefined },
      { given: 'A=1', passedOn: undefined },
    ][n - 1] ?? { given: '', passedOn: undefined };

  it('is in the lines of its request and in the webhooks that it causes, and in no others', async () => {
    const passports = await Promise.all([0, 1, 2, 3].map(() => service.issuePassport()));
    const answers = await Promise.all(
      passports.map(({ id }, n) =>
        post(
          `/passports/${id}/revoke`,
          {},
          n === 0 ? {} : { traceparent: traceparentOf(n), tracestate: statesOf(n).given },
        ),
      ),
    );
    for (const [n, { id }] of passports.entries()) {
      await until(() => hookAbout(id) !== undefined, { what: 'a webhook' });
      expect(hookAbout(id)?.headers['traceparent']).toBe(n === 0 ? undefined : traceparentOf(n));
      expect(hookAbout(id)?.headers['tracestate']).toBe(n === 0 ? undefined : statesOf(n).passedOn);
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

describe('traceparent at the sidecar', () => {
  let database: TestDatabase;
  let service: Installation;
  let receiver: Receiver;
  let controlPlane: Running;
  let sidecar: Running;
  let gate: string;
  let token: string;
  beforeAll(async () => {
    database = await testDatabase();
    receiver = await startReceiver();
    service = await installation(await bundledPrograms(), { databaseUrl: database.url });
    controlPlane = await service.startControlPlane({ WEBHOOK_ALLOW_PRIVATE: '1', LOG_LEVEL: 'debug' });
    await service.api('POST', '/webhooks', { url: receiver.url, events: ['approval.requested'] });
    gate = await service.createGate({ constraints: { approvals: { above_usd: 10 } } });
    ({ token } = await service.issuePassport());
    // After the gate, so that it knows it from the start.
    sidecar = await service.startSidecar({ FORWARD_AUTH_HEADERS: 'x-gate-permission,x-gate-amount' });
  });
  afterAll(async () => {
    await service?.close();
    await receiver?.close();
    await database?.drop();
  });

  const permission = 'orders:create';
  const post = (path: string, body: object, traceparent: string) => {
    const ask = () =>
      call(`${sidecar.origin}${path}`, {
        ...{ method: 'POST', key: service.adminKey, body },
        headers: { traceparent, tracestate: 'vendor=x' },
      });
    return untilAnswer(ask, (answer) => !isPassing(answer), { what: 'an answer that stays' });
  };
  const keyed = (n: number) => ({ permission_key: permission, amount: 1, idempotency_key: `key-${n}` });
  /** Each has to ask the control plane before it is answered. */
  const doors: Readonly<Record<string, (n: number, traceparent: string) => Promise<Reply>>> = {
    check: (n, trace) => post(`/v1/gates/${gate}/check`, { passport: token, request: keyed(n) }, trace),
    batch: (n, trace) =>
      post(`/v1/gates/${gate}/check/batch`, { checks: [{ passport: token, request: keyed(n) }] }, trace),
    AuthZEN: (n, trace) => {
      const { sub: id } = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString());
      return post(
        '/access/v1/evaluation',
        {
          subject: { type: 'agent', id, properties: { passport: token } },
          action: { name: permission },
          resource: { type: 'gate', id: gate },
          context: { amount: 1, idempotency_key: `key-${n}` },
        },
        trace,
      );
    },
    'the per-gate address': (n, traceparent) =>
      call(`${sidecar.origin}/${gate}/orders/${n}`, {
        headers: {
          ...{ 'x-agent-passport': token, 'x-gate-permission': permission, 'x-gate-amount': '11' },
          traceparent,
        },
      }),
  };
  /** Over one connection, whose handshake is in a trace of its own. */
  const overStream = async (frame: object) => {
    const client = await StreamClient.open(sidecar.origin, service.adminKey);
    const ask = () => client.ask({ gate_id: gate, passport: token, ...frame });
    const stays = { what: 'an answer that stays' };
    const answer = await untilAnswer(ask, ({ reason }) => reason !== 'quota_unavailable', stays);
    await client.leave();
    return answer;
  };
  const tracesOfCalls = () =>
    linesOf(controlPlane)
      .filter(({ route }) => route === '/v1/sync/settlements')
      .map(({ trace_id }) => trace_id);

  it.each(Object.entries(doors))('goes on with what %s asks the control plane', async (_door, ask) => {
    const n = 20 + Object.values(doors).indexOf(ask);
    const answer = await ask(n, traceparentOf(n));
    expect([200, 202, 403], JSON.stringify(answer.body)).toContain(answer.status);
    await until(() => tracesOfCalls().includes(traceOf(n)), { what: 'a call in the trace' });
  });

  it('goes on with what a frame of a stream asks, with its tracestate', async () => {
    const trace = { traceparent: traceparentOf(40), tracestate: 'vendor=x' };
    const answer = await overStream({ request: { permission_key: permission, amount: 13 }, ...trace });
    expect(answer.decision).toBe('SUSPEND');
    const hook = () => receiver.received.find(({ body }) => body.includes(answer.approval_id));
    await until(() => hook() !== undefined, { what: 'a webhook' });
    expect(hook()?.headers).toMatchObject(trace);
    await until(() => tracesOfCalls().includes(traceOf(40)), { what: 'a call in the trace' });
  });

  it('is that of the webhook of an approval which a check asks for', async () => {
    const request = { permission_key: permission, amount: 12 };
    const answer = await post(`/v1/gates/${gate}/check`, { passport: token, request }, traceparentOf(30));
    expect(answer.body.decision).toBe('SUSPEND');
    const hook = () => receiver.received.find(({ body }) => body.includes(answer.body.approval_id));
    await until(() => hook() !== undefined, { what: 'a webhook' });
    expect(hook()?.headers['traceparent']).toBe(traceparentOf(30));
    expect(hook()?.headers['tracestate']).toBe('vendor=x');
    await until(() => tracesOfCalls().includes(traceOf(30)), { what: 'a call in the trace' });
  });
});
