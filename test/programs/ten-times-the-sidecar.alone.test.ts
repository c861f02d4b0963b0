import { Agent, request as send } from 'undici';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import {
  type AskLoad,
  closedLoad,
  type Load,
  type LoadAnswer,
  openLoad,
  permitsPerSecond,
} from '../support/base/open-load.ts';
import { until } from '../support/base/until.ts';
import { type TestDatabase, testDatabase } from '../support/database/postgres.ts';
import { type Installation, installation, type Running } from '../support/programs/installation.ts';
import { bundledPrograms, type Programs } from '../support/programs/programs.ts';

let programs: Programs;
beforeAll(async () => {
  programs = await bundledPrograms();
});

interface AnswerBody {
  readonly id?: string;
  readonly decision?: string;
  readonly attestation_id?: string | null;
  readonly error?: { readonly code: string };
}

/** An answer within a batch or a stream has no header of its own. */
const read = (body: AnswerBody, hasRetryAfter = true): LoadAnswer => ({
  word: body.decision ?? body.error?.code ?? 'no answer',
  attestationId: body.attestation_id ?? null,
  hasRetryAfter,
});

const batchSize = 20;
const kinds = ['single', 'batch', 'stream'] as const;
type Kind = (typeof kinds)[number];
type OfEach<Value> = Readonly<Record<Kind, Value>>;

/** Settled checks, each with a key of its own, in three ways. */
async function askers(all: Installation, { origin }: Running) {
  const gateId = await all.createGate({ constraints: { spend_limits: { daily_usd: 1_000_000 } } });
  const tokens = await Promise.all(Array.from({ length: 24 }, async () => (await all.issuePassport()).token));
  const agent = new Agent({ pipelining: 1 });
  const headers = { authorization: `Bearer ${all.adminKey}`, 'content-type': 'application/json' };
  let asked = 0;
  const next = () => ({
    passport: tokens[asked++ % tokens.length],
    request: { permission_key: 'orders:create', amount: 1, idempotency_key: `key-${asked}` },
  });
  const post = async (path: string, body: object) => {
    const url = `${origin}/v1/gates/${gateId}${path}`;
    const options = { dispatcher: agent, method: 'POST', headers, body: JSON.stringify(body) } as const;
    const reply = await send(url, options);
    const answer: unknown = await reply.body.json();
    return { answer, hasRetryAfter: reply.headers['retry-after'] !== undefined };
  };
  const socket = new WebSocket(`${origin.replace(/^http/, 'ws')}/v1/stream`, { headers });
  await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject));
  const frames = new Map<string, (answer: AnswerBody) => void>();
  socket.on('message', (data) => {
    const answer: AnswerBody = JSON.parse(String(data));
    frames.get(answer.id ?? '')?.(answer);
    frames.delete(answer.id ?? '');
  });
  const ask: OfEach<AskLoad> = {
    single: async () => {
      const { answer, hasRetryAfter } = await post('/check', next());
      return [read(answer as AnswerBody, hasRetryAfter)];
    },
    batch: async () => {
      const { answer, hasRetryAfter } = await post('/check/batch', {
        checks: Array.from({ length: batchSize }, next),
      });
      const { results } = answer as { readonly results?: readonly AnswerBody[] };
      return results?.map((each) => read(each)) ?? [read(answer as AnswerBody, hasRetryAfter)];
    },
    stream: async () => {
      const id = `frame-${asked}`;
      const answered = new Promise<AnswerBody>((resolve) => frames.set(id, resolve));
      socket.send(JSON.stringify({ id, gate_id: gateId, ...next() }));
      return [read(await answered)];
    },
  };
  const close = async () => {
    socket.close();
    await agent.close();
  };
  return { ask, close };
}

type Ask = OfEach<AskLoad>;
const ofEach = async (load: (kind: Kind) => Promise<Load>): Promise<OfEach<Load>> => {
  const [single, batch, stream] = await Promise.all(kinds.map(load));
  if (single === undefined || batch === undefined || stream === undefined) throw new Error('three kinds');
  return { single, batch, stream };
};

const clients = { single: 16, batch: 2, stream: 16 };
const usually = (ask: Ask, forMs: number) =>
  ofEach((kind) => closedLoad(ask[kind], { clients: clients[kind], forMs }));

/** At most so many calls wait: fewer frames than a stream may have. Connections are not what is tested. */
const openMax = { single: 400, batch: 20, stream: 800 };
const tenTimes = (ask: Ask, usual: OfEach<Load>, forMs: number) =>
  ofEach((kind) => {
    const perSecond = (10 * permitsPerSecond(usual[kind])) / (kind === 'batch' ? batchSize : 1);
    return openLoad(ask[kind], { perSecond, forMs, openMax: openMax[kind] });
  });

const sum = (loads: OfEach<Load>, of: (load: Load) => number) =>
  kinds.reduce((all, kind) => all + of(loads[kind]), 0);
const refusedIn = (loads: OfEach<Load>) => sum(loads, ({ counts }) => counts['overloaded'] ?? 0);

describe('a sidecar at ten times its load', () => {
  let database: TestDatabase;
  let all: Installation;
  let sidecar: Running;
  beforeAll(async () => {
    database = await testDatabase();
    all = await installation(programs, { databaseUrl: database.url });
    await all.startControlPlane();
    sidecar = await all.startSidecar();
  });
  afterAll(async () => {
    await all?.close();
    await database?.drop();
  });

  it('settles a good part of the usual, starves no kind, and refuses nobody soon after', async () => {
    const { ask, close } = await askers(all, sidecar);
    const untilAllAreAnswered = () =>
      until(async () => refusedIn(await usually(ask, 500)) === 0, { what: 'half a second without 503' });
    await untilAllAreAnswered();
    const usual = await usually(ask, 3_000);
    const crowd = await tenTimes(ask, usual, 5_000);
    const overAtMs = performance.now();
    await untilAllAreAnswered();
    const recoveredMs = performance.now() - overAtMs;
    await close();
    const told = JSON.stringify({
      usual: kinds.map((kind) => [usual[kind].counts, Math.round(usual[kind].tookMs)]),
      crowd: kinds.map((kind) => [crowd[kind].counts, Math.round(crowd[kind].tookMs)]),
      left: sum(crowd, permitsPerSecond) / sum(usual, permitsPerSecond),
      recoveredMs,
    });
    expect(
      sum(crowd, ({ withoutRetryAfter }) => withoutRetryAfter),
      told,
    ).toBe(0);
    for (const kind of kinds) {
      expect(['PERMIT', 'overloaded'], told).toEqual(expect.arrayContaining(Object.keys(crowd[kind].counts)));
      expect(permitsPerSecond(crowd[kind]), told).toBeGreaterThan(permitsPerSecond(usual[kind]) / 10);
    }
    // A third to two thirds on a crowded machine, most of which the client takes.
    expect(sum(crowd, permitsPerSecond), told).toBeGreaterThan(sum(usual, permitsPerSecond) / 5);
    expect(recoveredMs, told).toBeLessThan(5_000);
    const permits = kinds.flatMap((kind) => [...usual[kind].permitIds, ...crowd[kind].permitIds]);
    const [row] = await database.sql<{ standing: number }[]>`
      SELECT count(*)::int AS standing FROM attestations
      WHERE attestation_id = ANY(${permits}::text[]) AND resolution IS NULL
        AND NOT EXISTS (SELECT FROM attestations v WHERE v.refers_to = attestations.attestation_id)`;
    expect(row?.standing).toBe(permits.length);
  }, 300_000);
});
