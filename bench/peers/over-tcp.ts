import { randomBytes, randomUUID } from 'node:crypto';
import { chmodSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { Pool } from 'undici';
import { findDebianPostgres, makeOwnedDatabase, startDebianPostgres } from '../debian-postgres.ts';
import { newFolder, removeFolder } from '../folders.ts';
import { program, ready } from '../installation.ts';
import { freePort, type Program, start } from '../programs.ts';

/**
 * As users run it: two control planes and three sidecars on Debian's PostgreSQL over TCP with its default
 * settings, 24 passports, all on all cores with the load. `--quick`: shorter; `--dist <folder>`: the programs
 * of another checkout, to compare builds side by side.
 */
const words = process.argv.slice(2);
const isQuick = words.includes('--quick');
const other = words.includes('--dist') ? words[words.indexOf('--dist') + 1] : undefined;
const command = other === undefined ? program : resolve(other, 'deploy/agent-trust.js');
const seconds = isQuick ? 3 : 10;
const passportCount = 24;
const allCores = '0-63';
const apiKey = `at_live_${randomBytes(24).toString('hex')}`;
const masterKey = randomBytes(32).toString('base64url');

interface Running {
  readonly origin: string;
  restart(): Promise<void>;
}

interface Counts {
  answers: number;
  permits: number;
  unavailable: number;
  quotaUnavailable: number;
  readonly timesMs: number[];
}

interface Load {
  readonly origins: readonly string[];
  readonly clients: number;
  /** Of 1: how many requests have an idempotency key. */
  readonly keyed: number;
  readonly isOver: () => boolean;
}

const say = (line: string): void => void process.stdout.write(`${line}\n`);
const percent = (part: number, whole: number): string =>
  `${((100 * part) / Math.max(1, whole)).toFixed(1)} %`;

async function main(): Promise<void> {
  const programs = findDebianPostgres();
  if (programs === null) throw new Error('Debian: apt-get install postgresql');
  const folder = newFolder('over-tcp');
  // PostgreSQL runs as a user of its own when this is run by root.
  chmodSync(folder, 0o711);
  const started: Program[] = [];
  const postgres = await startDebianPostgres({ programs, folder, port: await freePort() });
  try {
    await measure(folder, await makeOwnedDatabase(postgres.url), started);
  } finally {
    for (const one of started.toReversed()) await one.stop();
    await postgres.stop();
    removeFolder(folder);
  }
}

async function measure(folder: string, databaseUrl: string, started: Program[]): Promise<void> {
  const run = async (name: string, environment: Readonly<Record<string, string>>): Promise<Running> => {
    const port = String(await freePort());
    const origin = `http://127.0.0.1:${port}`;
    const isSidecar = name.startsWith('sidecar');
    const launch = async (): Promise<Program> => {
      const one = start({
        core: allCores,
        command: [process.execPath, command, isSidecar ? 'sidecar' : 'control-plane'],
        environment: {
          [isSidecar ? 'SIDECAR_PORT' : 'PORT']: port,
          DATA_DIR: join(folder, name),
          LOG_LEVEL: 'error',
          ...environment,
        },
      });
      started.push(one);
      await ready(origin, one);
      return one;
    };
    let current = await launch();
    return {
      origin,
      restart: async () => {
        await current.stop();
        started.splice(started.indexOf(current), 1);
        current = await launch();
      },
    };
  };
  const shared = { DATABASE_URL: databaseUrl, MASTER_KEY: masterKey, ADMIN_API_KEY: apiKey };
  const planes = [await run('control-plane-1', shared), await run('control-plane-2', shared)];
  const api = async (path: string, body: object): Promise<Readonly<Record<string, unknown>>> => {
    const answer = await fetch(`${planes[0]?.origin}/v1${path}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    if (!answer.ok) throw new Error(`${path} answered ${answer.status}: ${await answer.text()}`);
    return (await answer.json()) as Readonly<Record<string, unknown>>;
  };
  const { key } = await api('/api-keys', { name: 'bench', scopes: ['sidecars:connect'] });
  const sidecars: Running[] = [];
  for (const index of [0, 1, 2]) {
    const CONTROL_PLANE_URL = String(planes[index % planes.length]?.origin);
    sidecars.push(await run(`sidecar-${index}`, { CONTROL_PLANE_URL, SIDECAR_API_KEY: String(key) }));
  }
  const constraints = { rate_limits: { requests_per_day: 1_000_000_000 } };
  const gate = await api('/gates', { name: 'bench', trust_level: 'L1', constraints });
  const tokens: string[] = [];
  for (let n = 0; n < passportCount; n++) {
    const passport = await api('/passports', { agent_id: `agent-${n}`, permissions: ['orders:create'] });
    tokens.push(String(passport['jwt']));
  }
  const path = `/v1/gates/${gate['gate_id']}/check`;
  const drive = (load: Load): Promise<Counts> => driven({ ...load, path, tokens });
  const forSeconds = (wanted: number): (() => boolean) => {
    const endMs = performance.now() + wanted * 1_000;
    return () => performance.now() >= endMs;
  };
  const atSidecars = sidecars.map(({ origin }) => origin);
  const atPlanes = planes.map(({ origin }) => origin);
  await drive({ origins: atSidecars, clients: 10, keyed: 1, isOver: forSeconds(2) });

  say(`| | |\n|---|---|`);
  for (const clients of [10, 50, 200]) {
    const { permits, unavailable, answers } = await drive({
      ...{ origins: atSidecars, clients, keyed: 1, isOver: forSeconds(seconds) },
    });
    say(
      `| keyed, ${clients} clients | ${Math.round(permits / seconds)} PERMIT/s, 503: ${percent(unavailable, answers)} |`,
    );
  }
  const mixed = await drive({ origins: atSidecars, clients: 200, keyed: 0.1, isOver: forSeconds(seconds) });
  say(`| 10 % keyed, 200 clients | ${Math.round(mixed.answers / seconds)} answers/s, ${quantiles(mixed)} |`);
  for (const clients of [50, 200]) {
    const counts = await drive({ origins: atPlanes, clients, keyed: 0, isOver: forSeconds(seconds) });
    say(
      `| check at the control planes, ${clients} clients | ${Math.round(counts.permits / seconds)} PERMIT/s, 503: ${percent(counts.unavailable, counts.answers)}, ${quantiles(counts)} |`,
    );
  }
  let isOver = false;
  const load = drive({ origins: atSidecars, clients: 10, keyed: 0.5, isOver: () => isOver });
  for (const plane of planes) {
    await pause(1_000);
    await plane.restart();
  }
  await pause(1_000);
  isOver = true;
  const { quotaUnavailable, answers } = await load;
  say(`| rolling restart of control planes | quota_unavailable: ${quotaUnavailable} of ${answers} |`);
}

/** A closed loop of so many clients, in turns over the origins and the passports. */
async function driven(
  load: Load & { readonly path: string; readonly tokens: readonly string[] },
): Promise<Counts> {
  const counts: Counts = { answers: 0, permits: 0, unavailable: 0, quotaUnavailable: 0, timesMs: [] };
  const pools = load.origins.map((origin) => new Pool(origin, { connections: load.clients, pipelining: 1 }));
  const client = async (index: number): Promise<void> => {
    const pool = pools[index % pools.length];
    for (let turn = index; !load.isOver() && pool !== undefined; turn++) {
      const isKeyed = turn % 10 < load.keyed * 10;
      const startedMs = performance.now();
      const { statusCode, body } = await pool.request({
        ...{ method: 'POST', path: load.path },
        headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
        body: JSON.stringify({
          passport: load.tokens[turn % load.tokens.length],
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
      if (answer.decision === 'PERMIT') counts.permits += 1;
      if (statusCode === 503) counts.unavailable += 1;
      if (answer.reason === 'quota_unavailable') counts.quotaUnavailable += 1;
    }
  };
  await Promise.all(Array.from({ length: load.clients }, (_, index) => client(index)));
  await Promise.all(pools.map((pool) => pool.close()));
  return counts;
}

function quantiles({ timesMs }: Counts): string {
  const sorted = timesMs.toSorted((a, b) => a - b);
  const at = (part: number): string => `${Math.round(sorted[Math.floor(sorted.length * part)] ?? 0)} ms`;
  return `p50 ${at(0.5)}, p99 ${at(0.99)}`;
}

await main();
