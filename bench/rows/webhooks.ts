import { createServer, type Server } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';
import { emitEvents } from '../../control-plane/webhooks/emit-events.ts';
import { must } from '../../shared/errors/assert.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { systemRandom } from '../../shared/runtime/random.ts';
import { sampleData } from '../../shared/wire/api/webhook-samples.ts';
import { type AuditStage, setAuditStage } from '../harness/audit-stage.ts';
import { type LatencyLine, type LatencyTable, latencyLine } from '../harness/latency-table.ts';
import { freePort } from '../harness/programs.ts';
import type { BenchOptions } from '../harness/row.ts';

const endpoints = 10;
const steadyPerSecond = 100;
/** As many events as one batch of a sidecar might cause. */
const burstPerTransaction = 100;
/** Fails after this long without a delivery. */
const silenceMsMax = 30_000;

/**
 * 100,000 events to ten endpoints, one of which takes connections and never answers: throughput, and the
 * delay of the healthy nine.
 */
export async function webhooks({ size, say }: BenchOptions): Promise<LatencyTable> {
  const steadySeconds = { full: 20, quick: 3, brief: 0.5 }[size];
  const burst = { full: 100_000, quick: 1_000, brief: 200 }[size];
  const stage = await setAuditStage({
    passports: 0,
    gates: 0,
    environment: { WEBHOOK_ALLOW_PRIVATE: '1' },
  });
  const receivers = await Promise.all(Array.from({ length: endpoints }, (_, i) => startReceiver(i === 0)));
  const healthy = receivers.filter(({ isDead }) => !isDead);
  try {
    for (const { url } of healthy) await subscribe(stage, url);
    const steady = { events: steadySeconds * steadyPerSecond, perSecond: steadyPerSecond };
    // Until everything on the way has been compiled.
    const compiling = size === 'brief' ? 1 : 5 * steadyPerSecond;
    await send(stage, healthy, { events: compiling, perSecond: steadyPerSecond });
    say(`${steady.events} events at ${steadyPerSecond} a second, nine endpoints that answer`);
    const alone = await send(stage, healthy, steady);
    for (const { url } of receivers.filter(({ isDead }) => isDead)) await subscribe(stage, url);
    say('the same with a tenth that hangs');
    const beside = await send(stage, healthy, steady);
    say(`${burst} events at once`);
    const flood = await send(stage, healthy, { events: burst, perSecond: null });
    return {
      kind: 'latency',
      row: 'webhooks',
      title: `Webhooks: ${burst.toLocaleString('en-US')} events to ten endpoints, one of them dead`,
      lines: [
        line(`nine that answer, ${steadyPerSecond} events/s`, alone),
        line(`nine beside one that hangs, ${steadyPerSecond} events/s`, beside),
        line(`nine beside one that hangs, ${burst.toLocaleString('en-US')} at once`, flood),
      ],
      plans: [],
      notes: [
        'A request is a delivery; its time is from the commit of the transaction that caused the event to its arrival at the endpoint.',
        'Control plane on one core; PostgreSQL with its default settings, the program that causes the events and all ten endpoints on the other. http on this machine: no TLS.',
        `The events at once are written in transactions of ${burstPerTransaction}, as fast as the database takes them; most of their delay is the queue in front of the nine.`,
      ],
    };
  } finally {
    for (const { server } of receivers) {
      server.closeAllConnections();
      server.close();
    }
    await stage.stop();
  }
}

interface Measured {
  readonly delaysMs: readonly number[];
  readonly perSecond: number;
  readonly coresBusy: number;
  readonly duplicates: number;
}

const line = (what: string, { delaysMs, perSecond, coresBusy, duplicates }: Measured): LatencyLine =>
  latencyLine(delaysMs, {
    what,
    target: null,
    remark: `${Math.round(perSecond).toLocaleString('en-US')} deliveries/s, ${coresBusy.toFixed(2)} cores busy, ${duplicates} twice`,
  });

interface Receiver {
  readonly isDead: boolean;
  readonly url: string;
  readonly server: Server;
  /** Called on each arrival, with the number of the event and the time. */
  onArrival: (event: number, atMs: number) => void;
}

async function startReceiver(isDead: boolean): Promise<Receiver> {
  const port = await freePort();
  const server = createServer((request, response) => {
    if (isDead) return;
    const pieces: Buffer[] = [];
    request.on('data', (piece) => pieces.push(piece));
    request.on('end', () => {
      const { data } = JSON.parse(Buffer.concat(pieces).toString('utf8'));
      receiver.onArrival(data.number, performance.now());
      response.writeHead(204).end();
    });
  });
  const receiver: Receiver = {
    isDead,
    url: `http://127.0.0.1:${port}/`,
    server,
    onArrival: () => undefined,
  };
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve));
  return receiver;
}

async function subscribe({ origin, headers }: AuditStage, url: string): Promise<void> {
  const answer = await fetch(`${origin}/v1/webhooks`, {
    method: 'POST',
    headers: { ...headers, 'content-type': 'application/json' },
    body: JSON.stringify({ url, events: ['gate.created'] }),
  });
  if (!answer.ok) throw new Error(`POST /webhooks answered ${answer.status}: ${await answer.text()}`);
}

/**
 * Causes events, at a rate or as fast as possible (null), and resolves when each has arrived at each of
 * these.
 */
async function send(
  stage: AuditStage,
  receivers: readonly Receiver[],
  wanted: { readonly events: number; readonly perSecond: number | null },
): Promise<Measured> {
  const committedAtMs = new Float64Array(wanted.events);
  const arrivals = receivers.map((receiver) => arrivalsAt(receiver, wanted.events));
  const cpuBefore = stage.controlPlane.cpuSeconds();
  const startedMs = performance.now();
  const step = wanted.perSecond === null ? burstPerTransaction : 1;
  for (let from = 0; from < wanted.events; from += step) {
    if (wanted.perSecond !== null) {
      await pause(startedMs + (from * 1_000) / wanted.perSecond - performance.now());
    }
    await cause(stage, from, step);
    committedAtMs.fill(performance.now(), from, from + step);
  }
  let seen = -1;
  let seenAtMs = performance.now();
  for (;;) {
    const count = arrivals.reduce((sum, { distinct }) => sum + distinct(), 0);
    if (count === wanted.events * receivers.length) break;
    if (count > seen) seenAtMs = performance.now();
    seen = count;
    if (performance.now() - seenAtMs > silenceMsMax) throw new Error(`stuck after ${count} deliveries`);
    await pause(20);
  }
  const lastMs = Math.max(...arrivals.map(({ lastMs }) => lastMs()));
  const seconds = (lastMs - startedMs) / 1_000;
  return {
    // A delivery can overtake the answer to the commit.
    delaysMs: arrivals.flatMap(({ atMs }) =>
      Array.from(atMs, (at, event) => Math.max(0, at - must(committedAtMs[event], 'each was committed'))),
    ),
    perSecond: (wanted.events * receivers.length) / seconds,
    coresBusy: (stage.controlPlane.cpuSeconds() - cpuBefore) / seconds,
    duplicates: arrivals.reduce((sum, { duplicates }) => sum + duplicates(), 0),
  };
}

function arrivalsAt(receiver: Receiver, events: number) {
  const atMs = new Float64Array(events);
  let distinct = 0;
  let duplicates = 0;
  let lastMs = 0;
  receiver.onArrival = (event, at) => {
    if (atMs[event] !== 0) {
      duplicates += 1;
      return;
    }
    atMs[event] = at;
    distinct += 1;
    lastMs = at;
  };
  return { atMs, distinct: () => distinct, duplicates: () => duplicates, lastMs: () => lastMs };
}

const random = systemRandom();

async function cause({ sql, owner }: AuditStage, from: number, count: number): Promise<void> {
  const timestampMs = Date.now() as UnixMillis;
  const events = Array.from({ length: count }, (_, i) => ({
    event: 'gate.created' as const,
    to: [owner],
    data: { ...sampleData('gate.created'), number: from + i },
    timestampMs,
  }));
  await sql.begin((tx) => emitEvents(tx, { random }, events));
}
