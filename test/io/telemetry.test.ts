import { afterEach, describe, expect, it } from 'vitest';
import { systemRandom } from '../../shared/runtime/random.ts';
import { Collector, retryAfterMs } from '../../shared/telemetry/collector.ts';
import { telemetryLimits } from '../../shared/telemetry/limits.ts';
import { Losses } from '../../shared/telemetry/losses.ts';
import { MetricsReporter } from '../../shared/telemetry/metrics-reporter.ts';
import { type OtlpFormat, otlpFormats } from '../../shared/telemetry/otlp-format.ts';
import { OtlpWire } from '../../shared/telemetry/otlp-wire.ts';
import { SpanQueue } from '../../shared/telemetry/span-queue.ts';
import type { EndedSpan } from '../../shared/telemetry/tracer.ts';
import { freePort } from '../support/base/free-port.ts';
import { keptLog } from '../support/base/kept-log.ts';
import { expectWithin, timed } from '../support/base/time-promise.ts';
import { until } from '../support/base/until.ts';
import { startOtlpCollector } from '../support/peers/otlp-collector.ts';

const { batchSpansMax, waitingSpansMax, flushMsMax } = telemetryLimits;

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

const hex = (n: number, chars: number) => n.toString(16).padStart(chars, '0');
const spanOf = (n: number): EndedSpan => ({
  ...{ name: 'check', kind: 'server', traceId: hex(n + 1, 32), spanId: hex(n + 1, 16) },
  parentId: n === 0 ? null : hex(n, 16),
  ...{ startMs: 1_700_000_000_000.25 + n, endMs: 1_700_000_000_001.5 + n },
  attributes: { 'agent_trust.decision': 'PERMIT', count: n, part: 0.5, is: true },
  isError: n === 1,
  links: n === 2 ? [{ traceId: 'ab'.repeat(16), parentId: 'cd'.repeat(8) }] : [],
});
const spans = (count: number) => Array.from({ length: count }, (_, n) => spanOf(n));

async function world(url: string, format: OtlpFormat = 'http/protobuf') {
  const logger = keptLog();
  const losses = new Losses(logger);
  const wire = new OtlpWire({
    ...{ format, resource: { 'service.name': 'here' }, scope: { name: 'agent-trust', version: '1' } },
  });
  const collectorAt = (path: string) => {
    const made = new Collector({ url: `${url}${path}`, headers: { 'content-type': wire.contentType } });
    closing.push(() => made.close());
    return made;
  };
  const queue = new SpanQueue({
    ...{ collector: collectorAt('/v1/traces'), wire, losses, random: systemRandom() },
    pauses: { firstMs: 10, lastMs: 20 },
  });
  closing.push(() => queue.close());
  const push = (count: number) => spans(count).forEach(queue.push);
  const lost = () => Object.fromEntries([...losses.counts].map(({ reason, count }) => [reason, count]));
  const warnings = () => logger.lines.filter(({ level }) => level === 'warn');
  return { queue, push, lost, warnings, wire, losses, collectorAt };
}

async function realCollector() {
  const collector = await startOtlpCollector();
  closing.push(() => collector.close());
  return collector;
}

describe.each(otlpFormats)('spans, over %s,', (format) => {
  it('that the collector rejects are counted, and no more than there were', async () => {
    const collector = await realCollector();
    const { push, lost, warnings } = await world(collector.url, format);
    const bodies =
      format === 'http/json'
        ? [
            '{"partialSuccess":{"rejectedSpans":"3","errorMessage":"no"}}',
            '{"partialSuccess":{"rejectedSpans":1e300}}',
          ]
        : [Buffer.from('0a020803', 'hex'), Buffer.from('0a0808ffffffffffff7f', 'hex')];
    for (const [n, body] of bodies.entries()) {
      collector.answer((response) => response.writeHead(200).end(body));
      push(batchSpansMax);
      const expected = n === 0 ? 3 : 3 + batchSpansMax;
      await until(() => lost()['rejected'] === expected, { what: 'rejected spans' });
    }
    expect(warnings()).toHaveLength(1);
    expect(collector.requests).toHaveLength(2);
  });

  it('that a collector takes with an answer of garbage are not sent again, nor counted', async () => {
    const collector = await realCollector();
    const { queue, push, lost } = await world(collector.url, format);
    const garbage = [
      '}{',
      Buffer.from('0aff', 'hex'),
      '[]',
      'null',
      '{"partialSuccess":{"rejectedSpans":-1}}',
    ];
    for (const [n, body] of garbage.entries()) {
      collector.answer((response) => response.writeHead(200).end(body));
      push(batchSpansMax);
      await until(() => collector.requests.length === n + 1, { what: 'a request' });
    }
    await queue.close();
    expect(collector.requests).toHaveLength(garbage.length);
    expect(lost()).toEqual({});
  });
});

describe('spans for a collector that', () => {
  it('is busy are sent again, the same bytes, when it says so', async () => {
    const collector = await realCollector();
    const { push, lost } = await world(collector.url);
    const times: number[] = [];
    collector.answer((response) => {
      times.push(performance.now());
      if (times.length === 1) response.writeHead(429, { 'retry-after': '1' }).end();
      else if (times.length === 2) response.writeHead(503).end();
      else response.writeHead(200).end();
    });
    push(batchSpansMax);
    await until(() => collector.requests.length === 3, { what: 'three attempts' });
    expect((times[1] ?? 0) - (times[0] ?? 0)).toBeGreaterThanOrEqual(990);
    const [first, ...others] = collector.requests.map(({ bytes }) => bytes);
    for (const bytes of others) expect(bytes.equals(first ?? Buffer.alloc(0))).toBe(true);
    expect(lost()).toEqual({});
  });

  it.each([400, 302, 500])('refuses with %i are lost, and not sent again', async (status) => {
    const collector = await realCollector();
    const elsewhere = await realCollector();
    const { push, lost, warnings } = await world(collector.url);
    collector.answer((response) =>
      response.writeHead(status, { location: `${elsewhere.url}/v1/traces` }).end(),
    );
    push(batchSpansMax);
    await until(() => lost()['refused'] === batchSpansMax, { what: 'a loss' });
    expect(collector.requests).toHaveLength(1);
    expect(elsewhere.requests).toHaveLength(0);
    expect(warnings()).toMatchObject([{ fields: { signal: 'traces', reason: 'refused', status } }]);
  });

  it('is away are tried as often as allowed, and hold no more than their room', async () => {
    const { push, lost, warnings } = await world(`http://127.0.0.1:${await freePort()}`);
    push(batchSpansMax + waitingSpansMax + 100);
    expect(lost()).toEqual({ queue_full: batchSpansMax + 100 });
    await until(() => lost()['undelivered'] === waitingSpansMax, { what: 'the last attempt' });
    expect(warnings()).toMatchObject([{ fields: { reason: 'queue_full' } }]);
  });

  it('does not answer hold up the stop for no longer than allowed, and are counted', async () => {
    await expectWithin(flushMsMax + 1_000, 'the stop', async () => {
      const collector = await realCollector();
      const { queue, push, lost } = await world(collector.url);
      collector.answer(() => undefined);
      push(batchSpansMax + 5);
      await until(() => collector.requests.length === 1, { what: 'a request' });
      const stop = await timed(() => queue.close());
      expect(lost()).toEqual({ stopped: batchSpansMax + 5 });
      queue.push(spanOf(1));
      expect(lost()).toEqual({ stopped: batchSpansMax + 6 });
      return stop;
    });
  });
});

describe('metrics', () => {
  it('of which none is delivered are read anew, and sent once more at the stop', async () => {
    const collector = await realCollector();
    const { wire, losses, lost, collectorAt } = await world(collector.url, 'http/json');
    let value = 0;
    const reporter = new MetricsReporter({
      ...{ collector: collectorAt('/v1/metrics'), wire, losses, intervalMs: 20 },
      read: async () => [
        { name: 'a_total', help: 'A.', type: 'counter', values: [{ value: ++value, labels: {} }] },
      ],
    });
    collector.answer((response) => response.writeHead(503).end());
    await until(() => collector.requests.length >= 2, { what: 'two attempts' });
    collector.answer(null);
    await reporter.close();
    expect(lost()['undelivered']).toBeGreaterThanOrEqual(2);
    expect(collector.metrics.at(-1)).toMatchObject({
      name: 'a_total',
      kind: 'sum',
      points: [{ asDouble: value }],
    });
    expect(collector.faults).toEqual([]);
  });
});

it('Retry-After is read as seconds and as a date, and bounded', () => {
  expect([retryAfterMs('2'), retryAfterMs('0'), retryAfterMs('86400')]).toEqual([2_000, 0, 60_000]);
  for (const header of [undefined, '', 'soon', '-1', ['1', '2']]) expect(retryAfterMs(header)).toBeNull();
  expect(retryAfterMs(new Date(Date.now() + 50_000).toUTCString())).toBeGreaterThan(30_000);
});
