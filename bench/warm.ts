import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { chargedSide } from './charged-side.ts';
import { type Installation, install } from './installation.ts';
import { findProgram, freePort, measuredCore, otherCore, type Program, peer, start } from './programs.ts';
import { interleaved, type Side } from './rounds.ts';
import type { BenchOptions } from './row.ts';
import { type Table, tableLine } from './table.ts';
import { wantedOf } from './targets.ts';
import { drive, type Load } from './wrk.ts';

/**
 * The gate of the measurement: permission, domain and a limit per transaction, all of them reached by the
 * request.
 */
const domain = 'api.example.com';
const perTransactionUsd = 500;
const request = {
  permission_key: 'orders:create',
  amount: 12.5,
  currency: 'USD',
  domain,
  order: { sku: 'A-1027', quantity: 3, note: 'leave at the door' },
};

/** A server under load, with what the table says about it. */
export interface Contestant {
  readonly name: string;
  readonly program: Program;
  readonly load: Load;
  /** Work that a measurement leaves behind, brought to its end; null where an answer is the end of it. */
  readonly finish: (() => Promise<void>) | null;
  readonly does: string;
  readonly doesNot: string;
  /** Null for ours. */
  readonly target: { readonly name: string; readonly wanted: number } | null;
}

/** P2 and P3: warm decisions per second against the bare server and against the stack a team would write. */
export async function warm({ isQuick, say }: BenchOptions): Promise<Table> {
  const rounds = isQuick ? 3 : 7;
  const secondsEach = isQuick ? 3 : 6;
  const base = { row: 'warm', title: 'Warm decisions on one core', unit: 'requests/s', rounds, secondsEach };
  if (findProgram('wrk') === null) {
    const reason = 'The load generator wrk is not installed (Debian: apt-get install wrk).';
    return { ...base, lines: [], skipped: [{ side: 'everything', reason }], notes: [] };
  }
  const folder = mkdtempSync(join(tmpdir(), 'agent-trust-bench-wrk-'));
  const stops: (() => Promise<void>)[] = [];
  try {
    const installation = await install();
    stops.push(() => installation.stop());
    const { contestants, skipped } = await prepare(installation, folder, stops);
    const sides = contestants.map(sideOf);
    // As long as a round: until then the compiler of Node works beside the program, on the core that is
    // measured.
    for (const side of sides) await side.measure(secondsEach);

    const figures = await interleaved(sides, { rounds, seconds: secondsEach, say });
    for (const contestant of contestants) await mustPermit(contestant);

    const lines = contestants.map((contestant) => tableLine(contestant, figures, contestants[0]?.name ?? ''));
    const serving = `The sidecar serves with ${await installation.sidecarServer()}.`;
    return { ...base, lines, skipped, notes: [...notes, serving] };
  } finally {
    for (const stop of stops.toReversed()) await stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

const notes = [
  'wrk, one thread, 64 kept connections, closed loop, on the other core, together with Redis, and with the control plane and PostgreSQL at a lower priority.',
  'All sides get the same bytes: one passport token and one request object; every answer is a PERMIT.',
  'Records that the sidecar has not shipped when its time is over are shipped then, and the processor time this takes is added to the time it is charged: its figure can be sustained.',
];

async function prepare(
  installation: Installation,
  folder: string,
  stops: (() => Promise<void>)[],
): Promise<{ contestants: Contestant[]; skipped: Table['skipped'] }> {
  const { gateId, passport } = await benchGate(installation);
  const path = `/v1/gates/${gateId}/check`;
  const loadOf = (origin: string, name: string): Load => ({
    url: `${origin}${path}`,
    headers: { Authorization: `Bearer ${installation.apiKey}`, 'Content-Type': 'application/json' },
    body: JSON.stringify({ passport, request }),
    scriptPath: join(folder, `${name}.lua`),
  });

  const ours: Contestant = {
    name: 'agent-trust sidecar',
    program: installation.sidecar,
    load: loadOf(installation.sidecarOrigin, 'ours'),
    does: 'caller key and scope, the passport from its cache with all times and revocations checked again, permission, domain, limit, hash of the request, a record in the spool before the answer, records shipped',
    doesNot: 'rate and daily limits',
    finish: () => allShipped(installation, [gateId]),
    target: null,
  };
  const answer = await mustPermit(ours);
  const contestants = [ours, await bareServer(answer, loadOf, stops)];
  const redis = findProgram('redis-server');
  if (redis !== null) {
    contestants.push(await ownStack(redis, installation, loadOf, stops));
    return { contestants, skipped: [] };
  }
  const reason = 'redis-server is not installed (Debian: apt-get install redis-server).';
  return { contestants, skipped: [{ side: 'Fastify + jose + Redis', reason }] };
}

/** The gate, a passport for it, and the request that it permits. */
export async function benchGate(
  installation: Installation,
): Promise<{ readonly gateId: string; readonly passport: string; readonly request: object }> {
  const gate = await installation.api('POST', '/gates', {
    name: 'bench',
    trust_level: 'L1',
    constraints: { allowed_domains: [domain], spend_limits: { per_transaction_usd: perTransactionUsd } },
  });
  const passport = await installation.api('POST', '/passports', {
    agent_id: 'bench-agent',
    permissions: ['orders:create'],
  });
  return { gateId: String(gate['gate_id']), passport: String(passport['jwt']), request };
}

type LoadOf = (origin: string, name: string) => Load;

async function bareServer(
  answer: Answer,
  loadOf: LoadOf,
  stops: (() => Promise<void>)[],
): Promise<Contestant> {
  const program = start({
    core: measuredCore,
    command: [...peer('bare-uws'), answer.body, answer.requestId],
  });
  stops.push(() => program.stop());
  const [, port] = await program.find(/^port (\d+)$/m);
  return {
    name: 'bare uWebSockets.js',
    program,
    load: loadOf(`http://127.0.0.1:${port}`, 'bare'),
    does: 'parses the same JSON body, answers a constant as long as ours',
    doesNot:
      'anything else: no key, no passport, no decision, no record, no limit on the body, no refusal of ambiguous requests',
    finish: null,
    target: wantedOf('P2'),
  };
}

async function ownStack(
  redisServer: string,
  installation: Installation,
  loadOf: LoadOf,
  stops: (() => Promise<void>)[],
): Promise<Contestant> {
  const port = String(await freePort());
  const redis = start({
    core: otherCore,
    command: [redisServer, '--port', port, '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no'],
  });
  stops.push(() => redis.stop());
  await redis.find(/Ready to accept connections/);
  const program = start({
    core: measuredCore,
    command: peer('fastify-redis'),
    environment: {
      REDIS_URL: `redis://127.0.0.1:${port}`,
      JWKS: await passportKeys(installation),
      API_KEY: installation.apiKey,
      DOMAIN: domain,
      PER_TRANSACTION_USD: String(perTransactionUsd),
    },
  });
  stops.push(() => program.stop());
  const [, peerPort] = await program.find(/^port (\d+)$/m);
  const contestant: Contestant = {
    name: 'Fastify + jose + Redis',
    program,
    load: loadOf(`http://127.0.0.1:${peerPort}`, 'stack'),
    does: 'compares the key, verifies the token on each request, permission, domain, limit, one Redis script for rate and daily spend',
    doesNot:
      'revocation, record of the decision, hash of the request; Redis does not run on the measured core',
    finish: null,
    target: wantedOf('P3'),
  };
  await mustPermit(contestant);
  return contestant;
}

/** jose picks the key by itself, and takes only keys that are meant for signatures of tokens. */
async function passportKeys(installation: Installation): Promise<string> {
  const { keys } = JSON.parse(await installation.jwks()) as { keys: readonly Record<string, unknown>[] };
  return JSON.stringify({ keys: keys.filter(({ purpose }) => purpose === 'passport') });
}

interface Answer {
  readonly body: string;
  readonly requestId: string;
}

/** A server that refuses is fast: what is measured must be a PERMIT. */
export async function mustPermit({ name, load }: Pick<Contestant, 'name' | 'load'>): Promise<Answer> {
  const { url, headers, body } = load;
  const answer = await fetch(url, { method: 'POST', headers, body });
  const text = await answer.text();
  if (answer.status !== 200 || JSON.parse(text).decision !== 'PERMIT') {
    throw new Error(`${name} answered ${answer.status} ${text}`);
  }
  return { body: text, requestId: answer.headers.get('x-request-id') ?? '' };
}

export const sideOf = ({ name, program, load, finish }: Contestant): Side =>
  chargedSide({ name, programs: [program], drive: (seconds) => drive(load, seconds), finish });

const shippedMsMax = 180_000;

/** Until the control plane has counted every decision that the sidecar has made, at these gates. */
export async function allShipped(installation: Installation, gateIds: readonly string[]): Promise<void> {
  const decided = await installation.sidecarMetric('agent_trust_sidecar_decisions_total');
  const deadline = performance.now() + shippedMsMax;
  for (;;) {
    let taken = 0;
    for (const gateId of gateIds) {
      const { stats } = await installation.api('GET', `/gates/${gateId}`);
      taken += (stats as { readonly total_requests: number }).total_requests;
    }
    if (taken === decided) return;
    if (performance.now() > deadline)
      throw new Error(`${decided - taken} of ${decided} records are still not shipped`);
    await pause(100);
  }
}
