import { join } from 'node:path';
import { type Answer, type Contestant, mustPermit, mustStillPermit, sideOf } from '../harness/contestant.ts';
import { measuredCore, otherCore } from '../harness/cores.ts';
import { newFolder, removeFolder } from '../harness/folders.ts';
import { type Installation, install } from '../harness/installation.ts';
import { findProgram, freePort, peer, start } from '../harness/programs.ts';
import { interleaved, warmUp } from '../harness/rounds.ts';
import type { BenchOptions } from '../harness/row.ts';
import { briefS } from '../harness/size.ts';
import { type Table, tableLine } from '../harness/table.ts';
import { wantedOf } from '../harness/targets.ts';
import {
  allShipped,
  benchGate,
  domain,
  headersOf,
  perTransactionUsd,
  request,
} from '../harness/warm-load.ts';
import { type Load, lackOfWrk } from '../harness/wrk.ts';
import { startCerbos } from '../peers/cerbos.ts';
import { haproxyMissing, hasHaproxy, startHaproxy } from '../peers/haproxy.ts';
import { peerPackage } from '../peers/peer-packages.ts';

/** P1 to P4: warm decisions per second beside other servers, one core each. */
export async function warm({ size, say }: BenchOptions): Promise<Table> {
  // Most targets are decided here, and on a machine that others use rounds differ by half.
  const rounds = { full: 9, quick: 2, brief: 1 }[size];
  const secondsEach = { full: 2, quick: 1, brief: briefS }[size];
  const base = { row: 'warm', title: 'Warm decisions on one core', unit: 'requests/s', rounds, secondsEach };
  const reason = lackOfWrk();
  if (reason !== null) {
    return { ...base, lines: [], skipped: [{ side: 'everything', reason }], notes: [] };
  }
  const folder = newFolder('wrk');
  const stops: (() => Promise<void>)[] = [];
  try {
    const installation = await install();
    stops.push(() => installation.stop());
    const { contestants, skipped } = await prepare(installation, { folder, stops, size, say });
    const sides = contestants.map(sideOf);
    await warmUp(sides, { size, seconds: secondsEach });

    const figures = await interleaved(sides, { rounds, seconds: secondsEach, say });
    for (const contestant of contestants) await mustStillPermit(contestant);

    const lines = contestants.map((contestant) => tableLine(contestant, figures, contestants[0]?.name ?? ''));
    const serving = `The sidecar serves with ${await installation.sidecarServer()}.`;
    return { ...base, lines, skipped, notes: [...notes, serving] };
  } finally {
    for (const stop of stops.toReversed()) await stop();
    removeFolder(folder);
  }
}

const notes = [
  'wrk, one thread, 64 kept connections, closed loop, on the other core, together with Redis, and with the control plane and PostgreSQL at a lower priority.',
  'All sides get the same bytes: one passport token and one request object; every answer is a PERMIT.',
  'Records that the sidecar has not shipped when its time is over are shipped then, and the processor time this takes is added to the time it is charged: its figure can be sustained.',
];

/** What sides are made from. */
interface Scene {
  readonly installation: Installation;
  readonly folder: string;
  readonly stops: (() => Promise<void>)[];
  readonly size: BenchOptions['size'];
  readonly say: (line: string) => void;
  readonly gateId: string;
  readonly passport: string;
  readonly loadOf: LoadOf;
}

async function prepare(
  installation: Installation,
  { folder, stops, size, say }: Pick<Scene, 'folder' | 'stops' | 'size' | 'say'>,
): Promise<{ contestants: Contestant[]; skipped: Table['skipped'] }> {
  const { gateId, passport } = await benchGate(installation);
  const path = `/v1/gates/${gateId}/check`;
  const loadOf = (origin: string, name: string): Load => ({
    url: `${origin}${path}`,
    headers: headersOf(installation),
    body: JSON.stringify({ passport, request }),
    scriptPath: join(folder, `${name}.lua`),
  });
  const scene: Scene = { installation, folder, stops, size, say, gateId, passport, loadOf };

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
  if (size === 'brief') return { contestants: [ours], skipped: [] };
  const peers = [
    await attempt('bare uWebSockets.js', () => bareServer(answer, scene)),
    await attempt('HAProxy', () => proxyWithTokens(answer, scene)),
    await attempt('Fastify + jose + Redis', () => ownStack(scene)),
    await attempt('Cerbos', () => policyEngine(scene)),
  ];
  return {
    contestants: [ours, ...peers.filter((peer): peer is Contestant => !('reason' in peer))],
    skipped: peers.filter((peer): peer is Skipped => 'reason' in peer),
  };
}

type Skipped = Table['skipped'][number];

/** A broken peer is skipped; the others are measured. */
async function attempt(
  side: string,
  prepareIt: () => Promise<Contestant | Skipped>,
): Promise<Contestant | Skipped> {
  try {
    return await prepareIt();
  } catch (error) {
    return { side, reason: `it failed: ${(error as Error).message}`, isFailure: true };
  }
}

type LoadOf = (origin: string, name: string) => Load;

async function proxyWithTokens(
  answer: Answer,
  { folder, stops, loadOf }: Scene,
): Promise<Contestant | Skipped> {
  if (!hasHaproxy()) return { side: 'HAProxy', reason: haproxyMissing };
  const { origin, withToken, ...haproxy } = await startHaproxy({ folder, answer: answer.body });
  stops.push(() => haproxy.program.stop());
  const load = loadOf(origin, 'haproxy');
  const contestant: Contestant = {
    ...haproxy,
    name: 'HAProxy, ES256 and stick table',
    load: { ...load, ...withToken(load) },
    target: wantedOf('P1'),
  };
  await mustPermit(contestant);
  return contestant;
}

async function policyEngine({
  installation,
  folder,
  stops,
  say,
  passport,
}: Scene): Promise<Contestant | Skipped> {
  const found = peerPackage('cerbos', say);
  if (typeof found === 'string') return { side: 'Cerbos', reason: found };
  const contestant = await startCerbos({
    ...{ folder, passport, request, perTransactionUsd, packagePath: found.path },
    jwks: await passportKeys(installation),
  });
  stops.push(() => contestant.program.stop());
  await mustPermit(contestant);
  return contestant;
}

async function bareServer(answer: Answer, { loadOf, stops }: Scene): Promise<Contestant> {
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

async function ownStack({ installation, loadOf, stops }: Scene): Promise<Contestant | Skipped> {
  const redisServer = findProgram('redis-server');
  if (redisServer === null) {
    const reason = 'redis-server is not installed (Debian: apt-get install redis-server).';
    return { side: 'Fastify + jose + Redis', reason };
  }
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
    load: { ...loadOf(`http://127.0.0.1:${peerPort}`, 'stack'), permitsEach: 1 },
    does: 'compares the key, verifies the token on each request, permission, domain, limit, one Redis script for rate and daily spend',
    doesNot:
      'revocation, record of the decision, hash of the request; Redis does not run on the measured core',
    finish: null,
    target: wantedOf('P3'),
  };
  await mustPermit(contestant);
  return contestant;
}

/** Members of RFC 8037 and RFC 7517 alone: some readers accept no others. */
async function passportKeys(installation: Installation): Promise<string> {
  const { keys } = JSON.parse(await installation.jwks()) as { keys: readonly Record<string, unknown>[] };
  const ofPassports = keys.filter(({ purpose }) => purpose === 'passport');
  return JSON.stringify({
    keys: ofPassports.map(({ kty, crv, x, kid }) => ({ kty, crv, x, kid, alg: 'EdDSA', use: 'sig' })),
  });
}
