import { randomBytes, randomUUID } from 'node:crypto';
import { chmodSync, existsSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { Pool } from 'undici';
import { balancerOf } from '../harness/balancer.ts';
import { measuredCommit } from '../harness/builds.ts';
import { describeDatabase, lackOfDebian, startDebianDatabase } from '../harness/database.ts';
import { newFolder, removeFolder } from '../harness/folders.ts';
import { program, ready } from '../harness/installation.ts';
import { freePort, type Program, start } from '../harness/programs.ts';

export const overTcpHelp = `npm run bench -- tcp [--quick] [--dist <folder>] [--help]

As users run it: two control planes and three sidecars on PostgreSQL from Debian's package, over TCP, with its
default settings, for 24 passports, all on all cores with the load. Prints one table.

  --quick          shorter: for a look, not for a claim
  --dist <folder>  the programs of another checkout, built there: its folder dist
Exit code: 0 when it came to its end, 1 when it failed, 2 for a wrong command.
`;

const planeCount = 2;
const sidecarCount = 3;
const passportCount = 24;
const allCores = '0-63';
const seconds = { full: 10, quick: 3 } as const;
/** Until code is compiled and leases are taken ahead. */
const warmSeconds = 2;

interface Output {
  readonly say: (line: string) => void;
  readonly print: (text: string) => void;
}

/** `words`: what follows `tcp` on the command line. Returns the exit code. */
export async function overTcp(words: readonly string[], output: Output): Promise<number> {
  const asked = askedOf(words);
  if (asked === null) {
    output.say(overTcpHelp);
    return 2;
  }
  const reason = existsSync(asked.command) ? lackOfDebian() : `There is no ${asked.command}: build it first.`;
  if (reason !== null) {
    output.say(reason);
    return 1;
  }
  const folder = newFolder('over-tcp');
  // PostgreSQL runs as a user of its own when this is run by root, and must be able to pass through.
  chmodSync(folder, 0o711);
  const stops: (() => Promise<void>)[] = [async () => removeFolder(folder)];
  try {
    const database = await startDebianDatabase({ folder });
    stops.push(() => database.stop());
    const world = await startWorld({ ...asked, folder, databaseUrl: database.url, stops });
    await measure(world, asked.isQuick ? seconds.quick : seconds.full, { ...output, name: asked.name });
    return 0;
  } finally {
    for (const stop of stops.toReversed()) await stop();
  }
}

interface Asked {
  readonly isQuick: boolean;
  /** Path of `agent-trust`. */
  readonly command: string;
  /** Of the build. */
  readonly name: string;
}

/** Null: an unknown word. */
function askedOf(words: readonly string[]): Asked | null {
  const left = words.filter((word) => word !== '--quick');
  const isQuick = left.length < words.length;
  if (left.length === 0) return { isQuick, command: program, name: `this (${measuredCommit()})` };
  const [option, dist] = left;
  if (option !== '--dist' || dist === undefined || left.length > 2) return null;
  return { isQuick, command: resolve(dist, 'deploy', 'agent-trust.js'), name: dist };
}

interface Running {
  readonly origin: string;
  /** At the same address, with these settings besides. */
  restart(more?: Readonly<Record<string, string>>): Promise<void>;
}

interface World {
  readonly apiKey: string;
  readonly planes: readonly Running[];
  readonly sidecars: readonly Running[];
  readonly gateId: string;
  readonly tokens: readonly string[];
  readonly stops: (() => Promise<void>)[];
}

async function startWorld({
  command,
  folder,
  databaseUrl,
  stops,
}: {
  readonly command: string;
  readonly folder: string;
  readonly databaseUrl: string;
  readonly stops: (() => Promise<void>)[];
}): Promise<World> {
  const apiKey = `at_live_${randomBytes(24).toString('hex')}`;
  const MASTER_KEY = randomBytes(32).toString('base64url');
  const run = (name: string, what: 'control-plane' | 'sidecar', settings: Readonly<Record<string, string>>) =>
    startRunning({
      command: [process.execPath, command, what],
      dataDir: join(folder, name),
      settings,
      stops,
    });
  const planes: Running[] = [];
  for (let index = 0; index < planeCount; index++) {
    const PORT = String(await freePort());
    const settings = { PORT, DATABASE_URL: databaseUrl, MASTER_KEY, ADMIN_API_KEY: apiKey };
    planes.push(await run(`control-plane-${index}`, 'control-plane', settings));
  }
  const create = async (path: string, body: object): Promise<Readonly<Record<string, unknown>>> => {
    const answer = await fetch(`${planes[0]?.origin}/v1${path}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    if (!answer.ok) throw new Error(`${path} answered ${answer.status}: ${await answer.text()}`);
    return (await answer.json()) as Readonly<Record<string, unknown>>;
  };
  const { key } = await create('/api-keys', { name: 'bench', scopes: ['sidecars:connect'] });
  const sidecars: Running[] = [];
  for (let index = 0; index < sidecarCount; index++) {
    const SIDECAR_PORT = String(await freePort());
    const CONTROL_PLANE_URL = String(planes[index % planeCount]?.origin);
    const settings = { SIDECAR_PORT, CONTROL_PLANE_URL, SIDECAR_API_KEY: String(key) };
    sidecars.push(await run(`sidecar-${index}`, 'sidecar', settings));
  }
  const constraints = { rate_limits: { requests_per_day: 1_000_000_000 } };
  const gate = await create('/gates', { name: 'bench', trust_level: 'L1', constraints });
  const tokens: string[] = [];
  for (let n = 0; n < passportCount; n++) {
    const passport = await create('/passports', { agent_id: `agent-${n}`, permissions: ['orders:create'] });
    tokens.push(String(passport['jwt']));
  }
  return { apiKey, planes, sidecars, gateId: String(gate['gate_id']), tokens, stops };
}

async function startRunning({
  command,
  dataDir,
  settings,
  stops,
}: {
  readonly command: readonly string[];
  readonly dataDir: string;
  readonly settings: Readonly<Record<string, string>>;
  readonly stops: (() => Promise<void>)[];
}): Promise<Running> {
  const origin = `http://127.0.0.1:${settings['PORT'] ?? settings['SIDECAR_PORT']}`;
  let current: Program | null = null;
  stops.push(async () => current?.stop());
  const launch = async (more: Readonly<Record<string, string>>): Promise<void> => {
    current = start({
      ...{ core: allCores, command },
      environment: { DATA_DIR: dataDir, LOG_LEVEL: 'error', ...settings, ...more },
    });
    await ready(origin, current);
  };
  await launch({});
  return {
    origin,
    restart: async (more = {}) => {
      await current?.stop();
      await launch(more);
    },
  };
}

async function measure(
  world: World,
  secondsEach: number,
  { name, say, print }: Output & { readonly name: string },
): Promise<void> {
  const atSidecars = world.sidecars.map(({ origin }) => origin);
  const atPlanes = world.planes.map(({ origin }) => origin);
  const line = (what: string, figures: string) => print(`| ${what} | ${figures} |\n`);
  const during = async (load: Omit<Load, 'isOver'>, forSeconds = secondsEach): Promise<Counts> => {
    say(`${load.clients} clients for ${forSeconds} s`);
    const endMs = performance.now() + forSeconds * 1_000;
    return await driven(world, { ...load, isOver: () => performance.now() >= endMs });
  };
  const perSecond = (count: number) => Math.round(count / secondsEach);
  await during({ origins: atSidecars, clients: 10, keyed: 1 }, warmSeconds);
  print(`${describeDatabase('debian')}\n\n| | ${name} |\n| --- | --- |\n`);
  for (const clients of [10, 50, 200]) {
    const counts = await during({ origins: atSidecars, clients, keyed: 1 });
    line(`keyed, ${clients} clients`, `${perSecond(counts.permits)} PERMIT/s, ${refused(counts)}`);
  }
  const mixed = await during({ origins: atSidecars, clients: 200, keyed: 0.1 });
  line('10 % keyed, 200 clients', `${perSecond(mixed.answers)} answers/s, ${quantiles(mixed)}`);
  for (const clients of [10, 50, 200]) {
    const counts = await during({ origins: atPlanes, clients, keyed: 0 });
    line(
      `check at the control planes, ${clients} clients`,
      `${perSecond(counts.permits)} PERMIT/s, ${refused(counts)}, ${quantiles(counts)}`,
    );
  }
  say('rolling restart of the control planes, behind a balancer');
  const { answers, reasons } = await rollingRestart(world);
  const others = [...reasons].filter(([reason]) => reason !== 'quota_unavailable');
  line(
    'rolling restart of the control planes',
    [
      `quota_unavailable: ${reasons.get('quota_unavailable') ?? 0} of ${answers}`,
      ...others.map(([reason, count]) => `${reason}: ${count}`),
    ].join(', '),
  );
}

/** Half of the requests have a key. */
async function rollingRestart(world: World): Promise<Counts> {
  const balancer = await balancerOf(world.planes.map(({ origin }) => origin));
  world.stops.push(() => balancer.close());
  for (const sidecar of world.sidecars) await sidecar.restart({ CONTROL_PLANE_URL: balancer.origin });
  const origins = world.sidecars.map(({ origin }) => origin);
  const load = { origins, clients: 10, keyed: 0.5 };
  const warmMs = performance.now() + warmSeconds * 1_000;
  await driven(world, { ...load, isOver: () => performance.now() >= warmMs });
  let isOver = false;
  const restarts = async (): Promise<void> => {
    try {
      for (const plane of world.planes) {
        await pause(1_000);
        await plane.restart();
      }
      await pause(1_000);
    } finally {
      isOver = true;
    }
  };
  const [counts] = await Promise.all([driven(world, { ...load, isOver: () => isOver }), restarts()]);
  return counts;
}

interface Load {
  readonly origins: readonly string[];
  readonly clients: number;
  /** Of 1: how many requests have an idempotency key. */
  readonly keyed: number;
  readonly isOver: () => boolean;
}

interface Counts {
  answers: number;
  permits: number;
  unavailable: number;
  /** Of the answers that were no PERMIT: their reason, or their status where they have none. */
  readonly reasons: Map<string, number>;
  readonly timesMs: number[];
}

/** A closed loop of so many clients, in turns over the origins and the passports. */
async function driven({ apiKey, gateId, tokens }: World, load: Load): Promise<Counts> {
  const counts: Counts = { answers: 0, permits: 0, unavailable: 0, reasons: new Map(), timesMs: [] };
  const pools = load.origins.map((origin) => new Pool(origin, { connections: load.clients, pipelining: 1 }));
  const client = async (index: number): Promise<void> => {
    const pool = pools[index % pools.length];
    for (let turn = index; !load.isOver() && pool !== undefined; turn++) {
      const isKeyed = turn % 10 < load.keyed * 10;
      const startedMs = performance.now();
      const { statusCode, body } = await pool.request({
        ...{ method: 'POST', path: `/v1/gates/${gateId}/check` },
        headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
        body: JSON.stringify({
          passport: tokens[turn % tokens.length],
          request: {
            permission_key: 'orders:create',
            amount: 0.25,
            ...(isKeyed ? { idempotency_key: randomUUID() } : {}),
          },
        }),
      });
      const answer = (await body.json()) as { decision?: string; reason?: string };
      counts.timesMs.push(performance.now() - startedMs);
      counts.answers += 1;
      if (statusCode === 503) counts.unavailable += 1;
      if (answer.decision === 'PERMIT') counts.permits += 1;
      else {
        const reason = answer.reason ?? String(statusCode);
        counts.reasons.set(reason, (counts.reasons.get(reason) ?? 0) + 1);
      }
    }
  };
  try {
    await Promise.all(Array.from({ length: load.clients }, (_, index) => client(index)));
  } finally {
    await Promise.all(pools.map((pool) => pool.destroy()));
  }
  return counts;
}

const refused = ({ unavailable, answers }: Counts): string =>
  `503: ${((100 * unavailable) / Math.max(1, answers)).toFixed(1)} %`;

function quantiles({ timesMs }: Counts): string {
  const sorted = timesMs.toSorted((a, b) => a - b);
  const at = (part: number): string => `${Math.round(sorted[Math.floor(sorted.length * part)] ?? 0)} ms`;
  return `p50 ${at(0.5)}, p99 ${at(0.99)}`;
}
