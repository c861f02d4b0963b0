import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { Client } from 'undici';
import { measuredCore, otherCore } from '../harness/cores.ts';
import { describeDatabase, lackOf } from '../harness/database.ts';
import { newFolder, removeFolder } from '../harness/folders.ts';
import { type Installation, install, program, ready } from '../harness/installation.ts';
import { type LatencyTable, latencyLine } from '../harness/latency-table.ts';
import { issuePassports } from '../harness/passports.ts';
import { findProgram, freePort, type Program, start } from '../harness/programs.ts';
import type { BenchOptions } from '../harness/row.ts';
import { targets } from '../harness/targets.ts';
import { benchGate } from '../harness/warm-load.ts';

const sidecars = 4;
/** After this a sidecar has missed the revocation. */
const blockedMsMax = 30_000;
/** Between two requests, so that four waiting clients do not fill both cores. */
const betweenMs = 1;

/** P17: from the answer to a revocation to BLOCK at every sidecar, while all of them serve. */
export async function propagation({ size, database, say }: BenchOptions): Promise<LatencyTable> {
  const base = {
    kind: 'latency',
    row: 'propagation',
    title: `From the answer to a revocation to BLOCK at each of ${sidecars} sidecars`,
    plans: [],
  } as const;
  const reason = lackOf(database);
  if (reason !== null) return { ...base, lines: [], notes: [`Skipped: ${reason}`] };
  const revocations = { full: 1_000, quick: 40, brief: 5 }[size];
  const folder = newFolder('propagation');
  const stops: (() => Promise<void>)[] = [];
  try {
    const redis = await startRedis(stops);
    const settings = redis === null ? {} : { REDIS_URL: redis };
    const installation = await install({
      database,
      ...{ sidecarSettings: settings, controlPlaneSettings: settings, isControlPlaneHurried: true },
    });
    stops.push(() => installation.stop());
    const { gateId, request } = await benchGate(installation);
    const tokens = await issuePassports(installation, revocations);
    const others = await moreSidecars(installation, { folder, settings, stops });
    const clients = [installation.sidecarOrigin, ...others].map((origin) => new Client(origin));
    stops.push(async () => void (await Promise.all(clients.map((client) => client.close()))));
    const check = checker(installation, gateId, request);
    const timesMs: number[] = [];
    for (const [index, token] of tokens.entries()) {
      timesMs.push(await revokeAndWatch(installation, { token, clients, check }));
      if ((index + 1) % Math.ceil(tokens.length / 4) === 0) say(`${index + 1} revocations`);
    }
    return {
      ...base,
      lines: [
        latencyLine(timesMs, {
          what: 'the last of the sidecars',
          target: { name: 'P17', p99MsMax: targets.P17.wanted },
          remark: redis === null ? 'by long polls: redis-server is not installed' : 'pushed through Redis',
        }),
      ],
      notes: [
        describeDatabase(database),
        `${revocations} revocations, one after the other. Each sidecar is asked about the passport again and again, a millisecond after each answer, over a connection of its own, from before the revocation until it blocks; the time is from the answer to the revocation, and 0 where the block was there before it.`,
        'Two sidecars on each core, the control plane, PostgreSQL and Redis on one of them.',
      ],
    };
  } finally {
    for (const stop of stops.toReversed()) await stop();
    removeFolder(folder);
  }
}

async function startRedis(stops: (() => Promise<void>)[]): Promise<string | null> {
  const command = findProgram('redis-server');
  if (command === null) return null;
  const port = String(await freePort());
  const redis = start({
    core: otherCore,
    command: [command, '--port', port, '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no'],
  });
  stops.push(() => redis.stop());
  await redis.find(/Ready to accept connections/);
  return `redis://127.0.0.1:${port}`;
}

/** Returns their origins. */
async function moreSidecars(
  installation: Installation,
  of: {
    readonly folder: string;
    readonly settings: Readonly<Record<string, string>>;
    readonly stops: (() => Promise<void>)[];
  },
): Promise<readonly string[]> {
  const { key } = await installation.api('POST', '/api-keys', {
    ...{ name: 'more sidecars', scopes: ['sidecars:connect'] },
  });
  const origins: string[] = [];
  for (let index = 1; index < sidecars; index += 1) {
    const origin = `http://127.0.0.1:${await freePort()}`;
    const sidecar: Program = start({
      core: index % 2 === 0 ? measuredCore : otherCore,
      command: [process.execPath, program, 'sidecar'],
      environment: {
        SIDECAR_PORT: new URL(origin).port,
        CONTROL_PLANE_URL: installation.origin,
        SIDECAR_API_KEY: String(key),
        DATA_DIR: join(of.folder, `sidecar-${index}`),
        LOG_LEVEL: 'warn',
        ...of.settings,
      },
    });
    of.stops.push(() => sidecar.stop());
    await ready(origin, sidecar);
    origins.push(origin);
  }
  return origins;
}

interface Answer {
  readonly decision?: string;
  readonly reason?: string;
}

type Check = (client: Client, passport: string) => Promise<Answer>;

const checker =
  ({ apiKey }: Installation, gateId: string, request: object): Check =>
  async (client, passport) => {
    const { body } = await client.request({
      method: 'POST',
      path: `/v1/gates/${gateId}/check`,
      headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
      body: JSON.stringify({ passport, request }),
    });
    return (await body.json()) as Answer;
  };

/** Milliseconds from the answer to the revocation until the last sidecar blocked. */
async function revokeAndWatch(
  installation: Installation,
  {
    token,
    clients,
    check,
  }: { readonly token: string; readonly clients: readonly Client[]; readonly check: Check },
): Promise<number> {
  for (const client of clients) {
    const answer = await check(client, token);
    if (answer.decision !== 'PERMIT') throw new Error(`before its revocation: ${JSON.stringify(answer)}`);
  }
  const claims = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString()) as {
    jti: string;
  };
  const startedMs = performance.now();
  const blocked = clients.map(async (client) => {
    for (;;) {
      const { decision, reason } = await check(client, token);
      if (decision === 'BLOCK' && reason === 'passport_revoked') return performance.now();
      if (decision !== 'PERMIT') throw new Error(`after its revocation: ${decision} ${reason}`);
      if (performance.now() - startedMs > blockedMsMax) throw new Error('a revocation has not arrived');
      await pause(betweenMs);
    }
  });
  const [answeredMs, ...blockedMs] = await Promise.all([
    installation.api('POST', `/passports/${claims.jti}/revoke`, {}).then(() => performance.now()),
    ...blocked,
  ]);
  return Math.max(0, ...blockedMs.map((ms) => ms - answeredMs));
}
