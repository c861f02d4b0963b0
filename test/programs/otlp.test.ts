import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { httpGuard } from '../../clients/node/src/http.ts';
import { Sidecar } from '../../clients/node/src/index.ts';
import { freePort } from '../support/base/free-port.ts';
import { call } from '../support/base/http-client.ts';
import { until } from '../support/base/until.ts';
import { type TestDatabase, testDatabase } from '../support/database/postgres.ts';
import {
  type ExportedSpan,
  type OtlpCollector,
  startOtlpCollector,
} from '../support/peers/otlp-collector.ts';
import { type Receiver, startReceiver } from '../support/peers/receiver.ts';
import { StreamClient } from '../support/peers/stream-client.ts';
import { type Installation, installation, type Running } from '../support/programs/installation.ts';
import { bundledPrograms } from '../support/programs/programs.ts';

const headerSecret = 'header-secret-of-the-collector';
const permission = 'orders:create';
const callersSpan = '00f067aa0ba902b7';
const traceOf = (n: number) => String(n).padStart(32, 'b');
const traceparentOf = (n: number, flags = '01') => `00-${traceOf(n)}-${callersSpan}-${flags}`;

describe.each(['http/protobuf', 'http/json'])('OTLP of both programs over %s', (protocol) => {
  let database: TestDatabase;
  let collector: OtlpCollector;
  let receiver: Receiver;
  let service: Installation;
  let controlPlane: Running;
  let sidecar: Running;
  let guarded: Server;
  let client: Sidecar;
  let gate: string;
  let token: string;
  beforeAll(async () => {
    collector = await startOtlpCollector();
    database = await testDatabase();
    receiver = await startReceiver();
    service = await installation(await bundledPrograms(), {
      databaseUrl: database.url,
      env: {
        OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
        OTEL_EXPORTER_OTLP_PROTOCOL: protocol,
        OTEL_EXPORTER_OTLP_HEADERS: `x-collector-key=${headerSecret}`,
        OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=test',
        OTEL_METRIC_EXPORT_INTERVAL: '1000',
        LOG_LEVEL: 'debug',
      },
    });
    controlPlane = await service.startControlPlane({ WEBHOOK_ALLOW_PRIVATE: '1' });
    await service.api('POST', '/webhooks', { url: receiver.url, events: ['approval.requested'] });
    gate = await service.createGate({ constraints: { approvals: { above_usd: 10 } } });
    ({ token } = await service.issuePassport());
    // After the gate, so that each of its threads knows it from the start.
    sidecar = await service.startSidecar({ SIDECAR_THREADS: protocol === 'http/json' ? '2' : '1' });
    client = new Sidecar({ url: sidecar.origin, apiKey: service.adminKey, deadlineMs: 30_000 });
    const guard = httpGuard({ sidecar: client, controlPlaneUrl: controlPlane.origin });
    const query = (url: string | undefined) => new URL(url ?? '', 'http://host').searchParams;
    guarded = createServer(
      guard(
        {
          ...{ gate, permission },
          amount: ({ url }) => Number(query(url).get('amount')),
          idempotencyKey: ({ url }) => query(url).get('key') ?? undefined,
        },
        (_request, response) => response.end('served'),
      ),
    );
    await new Promise<void>((resolve) => guarded.listen(0, '127.0.0.1', resolve));
  });
  afterAll(async () => {
    client?.close();
    guarded?.close();
    await service?.close();
    await receiver?.close();
    await database?.drop();
    await collector?.close();
  });

  const order = (query: string, traceparent: string) =>
    call(`http://127.0.0.1:${(guarded.address() as AddressInfo).port}/orders?${query}`, {
      headers: { 'x-agent-passport': token, traceparent },
    });
  const spansOf = (n: number) => collector.spans.filter(({ traceId }) => traceId === traceOf(n));
  const spanOf = (n: number, name: string) => spansOf(n).find((span) => span.name === name);
  const linesOf = ({ program }: Running) =>
    program
      .output()
      .split('\n')
      // What comes after the last end of a line may be half of one.
      .slice(0, -1)
      .flatMap((line) => (line.startsWith('{') ? [JSON.parse(line)] : []));

  it('has one trace from a guard over the sidecar to the control plane and its database', async () => {
    expect((await order('amount=1&key=a', traceparentOf(1))).status).toBe(200);
    const settled = 'POST /v1/sync/settlements';
    // On a busy machine an attempt of the client may have been answered 503 before.
    const permitted = () =>
      spansOf(1).find(({ attributes }) => attributes['agent_trust.decision'] === 'PERMIT');
    const childOf = (parent: ExportedSpan | undefined, name: string) =>
      spansOf(1).find((span) => span.name === name && span.parentSpanId === parent?.spanId);
    const takenOf = () => childOf(childOf(permitted(), 'settlements'), settled);
    await until(() => takenOf() !== undefined, { what: 'the spans of both programs' });
    const [check, sent, taken] = [permitted(), childOf(permitted(), 'settlements'), takenOf()];
    expect(check).toMatchObject({
      ...{ service: 'agent-trust-sidecar', kind: 2, parentSpanId: callersSpan, isError: false },
      attributes: { 'agent_trust.gate_id': gate, 'agent_trust.decision': 'PERMIT' },
    });
    expect(check?.attributes['agent_trust.attestation_id']).toMatch(/^att_/);
    expect(sent).toMatchObject({ service: 'agent-trust-sidecar', kind: 3, parentSpanId: check?.spanId });
    expect(taken).toMatchObject({
      ...{ service: 'agent-trust-control-plane', kind: 2, parentSpanId: sent?.spanId },
      attributes: { 'http.route': '/v1/sync/settlements', 'http.response.status_code': 200 },
    });
    const calls = () => spansOf(1).filter(({ name }) => name === settled);
    const transactions = () => spansOf(1).filter(({ name }) => name === 'transaction');
    const isOfCall = ({ parentSpanId }: ExportedSpan) =>
      calls().some(({ spanId }) => spanId === parentSpanId);
    // Those of an attempt that was repeated may be sent apart from its own.
    await until(() => transactions().length > 0 && transactions().every(isOfCall), {
      what: 'transactions, each of a call',
    });
    for (const { startNs, endNs } of spansOf(1)) expect(endNs).toBeGreaterThanOrEqual(startNs);
    const line = () =>
      linesOf(controlPlane).find(
        ({ route, trace_id }) => route === '/v1/sync/settlements' && trace_id === traceOf(1),
      );
    await until(() => line() !== undefined, { what: 'the line of the call' });
  });

  it('goes on to the webhook of an approval', async () => {
    expect((await order('amount=12', traceparentOf(2))).status).toBe(202);
    const names = ['check', 'POST /v1/sync/settlements', 'webhook'];
    await until(() => names.every((name) => spanOf(2, name) !== undefined), { what: 'the spans' });
    const webhook = spanOf(2, 'webhook');
    const calls = () => spansOf(2).filter(({ name }) => name === 'POST /v1/sync/settlements');
    const isOfCall = () => calls().some(({ spanId }) => spanId === webhook?.parentSpanId);
    await until(isOfCall, { what: 'the call that caused the webhook' });
    const decided = () => spansOf(2).some(({ attributes }) => 'agent_trust.decision' in attributes);
    await until(decided, { what: 'the span of the decision' });
    const check = spansOf(2).find(({ attributes }) => 'agent_trust.decision' in attributes);
    expect(check?.attributes).toMatchObject({
      ...{ 'agent_trust.decision': 'SUSPEND', 'agent_trust.reason': 'approval_required' },
      'agent_trust.approval_id': expect.stringMatching(/^appr_/),
    });
    expect(webhook?.attributes).toMatchObject({ 'http.response.status_code': 204, 'agent_trust.attempt': 1 });
    const headers = receiver.received.map((hook) => hook.headers['traceparent']);
    expect(headers).toContain(`00-${traceOf(2)}-${webhook?.spanId}-01`);
  });

  it('has a BLOCK with its reason, and an error with its code', async () => {
    const path = `${sidecar.origin}/v1/gates/${gate}/check`;
    const ask = (body: object, traceparent: string) =>
      call(path, { key: service.adminKey, body, headers: { traceparent } });
    await ask({ passport: token, request: { permission_key: 'other:thing' } }, traceparentOf(3));
    await ask({ passport: token }, traceparentOf(4));
    const stream = await StreamClient.open(sidecar.origin, service.adminKey);
    const request = { permission_key: 'other:thing' };
    await stream.ask({ gate_id: gate, passport: token, request, traceparent: traceparentOf(8) });
    await stream.leave();
    await until(() => spansOf(3).length > 0 && spansOf(4).length > 0, { what: 'two spans' });
    expect(spanOf(3, 'check')?.attributes).toMatchObject({
      'agent_trust.decision': 'BLOCK',
      'agent_trust.reason': expect.stringMatching(/permission/),
    });
    await until(() => spansOf(8).length > 0, { what: 'the span of a frame' });
    expect(spanOf(8, 'check')).toMatchObject({
      parentSpanId: callersSpan,
      attributes: { 'agent_trust.decision': 'BLOCK' },
    });
    expect(spanOf(4, 'check')).toMatchObject({
      isError: false,
      attributes: { 'error.type': 'invalid_request' },
    });
  });

  it('has the metrics that /metrics shows, of both programs', async () => {
    for (const [running, name] of [
      [controlPlane, 'agent-trust-control-plane'],
      [sidecar, 'agent-trust-sidecar'],
    ] as const) {
      const text = String((await call(`${running.origin}/metrics`)).body);
      const shown = [...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].flatMap(([, metric = '', type]) => {
        const samples = [...text.matchAll(new RegExp(`^${metric}\\S* (\\S+)$`, 'gm'))];
        const isKnown = samples.some(([, value]) => Number.isFinite(Number(value)));
        return isKnown ? [`${metric} ${type === 'counter' ? 'sum' : type}`] : [];
      });
      const exported = () => collector.metrics.filter(({ service: of }) => of === name);
      const names = () => new Set(exported().map((metric) => `${metric.name} ${metric.kind}`));
      expect(shown.length).toBeGreaterThan(20);
      await until(() => shown.every((each) => names().has(each)), { what: `the metrics of ${name}` });
    }
    const decided = () =>
      collector.metrics
        .filter(({ name }) => name === 'agent_trust_sidecar_decisions_total')
        .flatMap(({ points }) => points)
        .filter(({ attributes }) => attributes.outcome === 'PERMIT')
        .map(({ asDouble }) => asDouble);
    await until(() => decided().at(-1) === 1, { what: 'one permit' });
  });

  it('fits the schema, carries the headers, and holds no secret', async () => {
    expect(collector.faults).toEqual([]);
    expect(collector.requests.length).toBeGreaterThan(5);
    for (const { headers } of collector.requests) expect(headers['x-collector-key']).toBe(headerSecret);
    const bytes = Buffer.concat(collector.requests.map((request) => request.bytes)).toString('latin1');
    const secrets = [
      token,
      token.split('.')[2] ?? token,
      service.adminKey,
      headerSecret,
      database.url,
      receiver.url,
    ];
    for (const secret of secrets) expect(bytes).not.toContain(secret);
    // It would find one.
    expect(bytes).toContain(gate);
    for (const running of [controlPlane, sidecar])
      expect(running.program.output()).not.toContain(headerSecret);
  });

  it('sends what is left when a program stops', async () => {
    await order('amount=1', traceparentOf(7));
    expect(await sidecar.stop('SIGTERM')).toBe(0);
    expect(spanOf(7, 'check')).toBeDefined();
  });
});

describe('a program whose collector', () => {
  let database: TestDatabase;
  let service: Installation;
  beforeAll(async () => {
    database = await testDatabase();
    service = await installation(await bundledPrograms(), { databaseUrl: database.url });
    await service.startControlPlane();
  });
  afterAll(async () => {
    await service?.close();
    await database?.drop();
  });

  async function checked(sidecar: Running, n: number): Promise<void> {
    const gate = await service.createGate();
    const { token } = await service.issuePassport();
    const ask = () =>
      call(`${sidecar.origin}/v1/gates/${gate}/check`, {
        ...{ key: service.adminKey, headers: { traceparent: traceparentOf(n) } },
        body: { passport: token, request: { permission_key: permission } },
      });
    await until(async () => (await ask()).body.decision === 'PERMIT', { what: 'a PERMIT' });
  }
  const metricsOf = async ({ origin }: Running) => String((await call(`${origin}/metrics`)).body);
  const warnings = ({ program }: Running) => program.output().match(/"telemetry is lost/g) ?? [];

  it('is away decides, counts what is lost, says so once, and stops', async () => {
    const sidecar = await service.startSidecar({
      OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${await freePort()}`,
      ...{ OTEL_METRIC_EXPORT_INTERVAL: '1000', OTEL_TRACES_EXPORTER: 'none' },
    });
    await checked(sidecar, 20);
    const lost = /^agent_trust_sidecar_telemetry_lost_total\{signal="metrics",reason="undelivered"\} [1-9]/m;
    await until(async () => lost.test(await metricsOf(sidecar)), { what: 'a loss' });
    expect(await sidecar.stop('SIGTERM')).toBe(0);
    expect(warnings(sidecar)).toHaveLength(1);
  });

  it('gets no spans at a ratio of 0, and a variable that cannot be used stops nothing', async () => {
    const collector = await startOtlpCollector();
    const at = { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url };
    const never = await service.startSidecar({
      ...{ ...at, OTEL_TRACES_SAMPLER: 'traceidratio', OTEL_TRACES_SAMPLER_ARG: '0' },
    });
    await checked(never, 22);
    expect(await never.stop('SIGTERM')).toBe(0);
    expect(collector.requests.map(({ signal }) => signal)).toEqual(['metrics']);
    const wrong = await service.startSidecar({ ...at, OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' });
    await checked(wrong, 23);
    await wrong.program.waitFor(/OTEL_EXPORTER_OTLP_PROTOCOL must be/);
    expect(await wrong.stop('SIGTERM')).toBe(0);
    expect(collector.requests).toHaveLength(1);
    expect(await metricsOf(await service.startSidecar())).not.toContain('telemetry_lost');
    await collector.close();
  });
});
