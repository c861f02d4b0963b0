import { randomUUID } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { Pool } from 'undici';
import { describeDatabase, lackOf } from '../harness/database.ts';
import { newFolder, removeFolder } from '../harness/folders.ts';
import { type Installation, install } from '../harness/installation.ts';
import { interleaved, type Side, warmUp } from '../harness/rounds.ts';
import type { BenchOptions } from '../harness/row.ts';
import { briefS } from '../harness/size.ts';
import { type Table, tableLine } from '../harness/table.ts';
import { wantedOf } from '../harness/targets.ts';
import { headersOf, newAgent } from '../harness/warm-load.ts';
import { lackOfWrk, loadWith } from '../harness/wrk.ts';

const clientCounts = [1, 10, 50, 200, 1_000] as const;
export const measuredClients = 200;
/** Arrivals in the overload, as a multiple of the best goodput. */
const overload = 2;
const request = { permission_key: 'orders:create', amount: 0.25 };

/**
 * P24: goodput of requests with an idempotency key, each of which asks the control plane, by the number of
 * clients in a closed loop; and what an open-loop overload leaves behind.
 */
export async function keyed({ size, database, say }: BenchOptions): Promise<Table> {
  const rounds = { full: 5, quick: 2, brief: 1 }[size];
  const secondsEach = { full: 3, quick: 1, brief: briefS }[size];
  const title = 'Requests with an idempotency key, settled before they are answered';
  const base = { row: 'keyed', title, unit: 'PERMIT/s', rounds, secondsEach, isLoadFixed: true } as const;
  const reason = lackOf(database) ?? lackOfWrk();
  if (reason !== null) {
    return { ...base, lines: [], skipped: [{ side: 'everything', reason }], notes: [] };
  }
  const folder = newFolder('keyed');
  let installation: Installation | null = null;
  try {
    installation = await install({ measured: 'control-plane', database });
    const target = await keyedTarget(installation);
    const sides = clientCounts.map((clients) =>
      keyedSide(installation as Installation, target, { name: nameOf(clients), clients, folder }),
    );
    await warmUp(sides, { size, seconds: 1 });
    const figures = await interleaved(sides, { rounds, seconds: secondsEach, say });
    const lines = clientCounts.map((clients) =>
      tableLine(
        {
          name: nameOf(clients),
          does: 'a new key each time; a closed loop',
          doesNot: '',
          target: clients === measuredClients ? null : wantedOf('P24'),
        },
        figures,
        nameOf(measuredClients),
      ),
    );
    const best = Math.max(
      ...[...figures.values()].map((each) => Math.max(...each.map(({ perSecond }) => perSecond))),
    );
    const left = await overloaded(installation, target, {
      perSecond: best * overload,
      seconds: { full: 7, quick: 2, brief: briefS }[size],
      say,
    });
    return { ...base, lines, skipped: [], notes: [describeDatabase(database), ...notes, ...left] };
  } finally {
    await installation?.stop();
    removeFolder(folder);
  }
}

const notes = [
  'The control plane and its PostgreSQL have the measured core; the sidecar, and wrk with one thread, the other one. Goodput: PERMITs that the sidecar answered.',
  'Each PERMIT is on record, its key claimed, before it is answered; the ratio is that of 200 clients over the number in the line.',
];

const nameOf = (clients: number): string => `${clients} client${clients === 1 ? '' : 's'}`;

interface Target {
  readonly url: string;
  readonly path: string;
  readonly gateId: string;
  readonly token: string;
}

export async function keyedTarget(installation: Installation): Promise<Target> {
  const constraints = { rate_limits: { requests_per_day: 1_000_000_000 } };
  const gate = await installation.api('POST', '/gates', { name: 'bench', trust_level: 'L1', constraints });
  const passport = await installation.api('POST', '/passports', {
    agent_id: newAgent(),
    permissions: ['orders:create'],
  });
  const gateId = String(gate['gate_id']);
  const path = `/v1/gates/${gateId}/check`;
  return { url: `${installation.sidecarOrigin}${path}`, path, gateId, token: String(passport['jwt']) };
}

export function keyedSide(
  installation: Installation,
  target: Target,
  { name, clients, folder }: { readonly name: string; readonly clients: number; readonly folder: string },
): Side {
  const scriptPath = join(folder, `${clients}.lua`);
  const permits = () => installation.sidecarMetric('agent_trust_sidecar_decisions_total{outcome="PERMIT"');
  return {
    name,
    measure: async (seconds) => {
      writeFileSync(scriptPath, script(installation, target));
      const [permitsBefore, cpuBefore] = [await permits(), installation.controlPlaneCpuSeconds()];
      await loadWith({ url: target.url, scriptPath, connections: clients, seconds });
      const permitted = (await permits()) - permitsBefore;
      const cpu = installation.controlPlaneCpuSeconds() - cpuBefore;
      // Requests under way belong to this measurement: the next begins with none.
      await idle(installation);
      return { perSecond: permitted / seconds, perCpuSecond: permitted / cpu, coresBusy: cpu / seconds };
    },
  };
}

/** A new key for each request, unlike those of every other run. */
const script = (installation: Installation, { token }: Target): string => `
wrk.method = "POST"
${Object.entries(headersOf(installation))
  .map(([name, value]) => `wrk.headers["${name}"] = "${value}"`)
  .join('\n')}
local count = 0
local prefix = '{"passport":"${token}","request":{"permission_key":"orders:create","amount":0.25,"idempotency_key":"${randomUUID()}-'
request = function()
  count = count + 1
  return wrk.format(nil, nil, nil, prefix .. count .. '"}}')
end
`;

async function idle(installation: Installation): Promise<void> {
  const open = () => installation.sidecarMetric('agent_trust_sidecar_settlements_open');
  while ((await open()) > 0) await pause(20);
}

/** Last answer to one client's key. */
interface Told {
  readonly key: string;
  permitId: string | null;
}

/**
 * Twice as many requests as can be settled arrive for some seconds; every second client retries with its key
 * after a 503. Measures how soon a usual load runs as usual, and checks that records and answers match.
 */
async function overloaded(
  installation: Installation,
  target: Target,
  {
    perSecond,
    seconds,
    say,
  }: { readonly perSecond: number; readonly seconds: number; readonly say: (line: string) => void },
): Promise<readonly string[]> {
  const pool = new Pool(installation.sidecarOrigin, { connections: 2_000, pipelining: 1 });
  const told: Told[] = [];
  const counts = new Map<string, number>();
  const ask = async (one: Told): Promise<string> => {
    const { statusCode, body } = await pool.request({
      method: 'POST',
      path: target.path,
      headers: headersOf(installation),
      body: JSON.stringify({ passport: target.token, request: { ...request, idempotency_key: one.key } }),
    });
    const answer = (await body.json()) as { decision?: string; reason?: string; attestation_id?: string };
    if (answer.decision === 'PERMIT') one.permitId = answer.attestation_id ?? null;
    const said = statusCode === 200 ? (answer.reason ?? String(answer.decision)) : String(statusCode);
    counts.set(said, (counts.get(said) ?? 0) + 1);
    return said;
  };
  const client = async (index: number): Promise<void> => {
    const one: Told = { key: randomUUID(), permitId: null };
    told.push(one);
    for (let tries = index % 2 === 0 ? 1 : 4; tries > 0; tries--) {
      if ((await ask(one)) !== '503') return;
      if (tries > 1) await pause(500);
    }
  };
  try {
    const before = await permitsOnRecord(installation, target);
    const startedMs = performance.now();
    const clients: Promise<void>[] = [];
    for (let index = 0; performance.now() - startedMs < seconds * 1_000; index++) {
      const dueMs = startedMs + (index * 1_000) / perSecond;
      if (dueMs > performance.now()) await pause(dueMs - performance.now());
      clients.push(client(index));
    }
    const arrived = clients.length;
    // Retries are part of the load: it ends with the last of them.
    await Promise.all(clients);
    const endedMs = performance.now();
    const normalMs = await untilNormal(ask, told);
    await idle(installation);
    say(
      `overload: ${arrived} arrived in ${seconds} s; ${[...counts].map(([said, count]) => `${said} ${count}`).join(', ')}`,
    );
    const after = await permitsOnRecord(installation, target);
    const permitted = new Set(told.flatMap(({ permitId }) => permitId ?? []));
    const recoveryMs = Math.round(normalMs - endedMs);
    mustHaveRecovered({ before, after, permitted, recoveryMs });
    return [
      `Overload: ${Math.round(perSecond)}/s arrive in an open loop for ${seconds} s (${arrived} clients, every second one repeats its key up to 3 times): ${[...counts].map(([said, count]) => `${said} ${count}`).join(', ')}.`,
      `A usual load of 10 clients runs as usual ${recoveryMs} ms after the last answer of the overload, ${Math.round(endedMs - startedMs)} ms after its begin; the row fails above ${recoveryMsMax}.`,
      'Each PERMIT that stands on record was told to its client, and each that a client was told stands; the row fails where one does not.',
    ];
  } finally {
    await pool.close();
  }
}

/** From the last answer of an overload. */
const recoveryMsMax = 2_000;

/** Throws where records and answers differ after an overload, or the recovery took too long. */
export function mustHaveRecovered({
  before,
  after,
  permitted,
  recoveryMs,
}: {
  /** PERMITs that stood before the overload. */
  readonly before: ReadonlySet<string>;
  /** PERMITs that stand now. */
  readonly after: ReadonlySet<string>;
  /** PERMITs that clients have received meanwhile. */
  readonly permitted: ReadonlySet<string>;
  /** Until a usual load ran as usual. */
  readonly recoveryMs: number;
}): void {
  const untold = [...after].filter((id) => !before.has(id) && !permitted.has(id)).length;
  const untrue = [...permitted].filter((id) => !after.has(id)).length;
  if (untold > 0) throw new Error(`${untold} PERMITs stand on record that no client was told`);
  if (untrue > 0) throw new Error(`${untrue} PERMITs that clients were told do not stand on record`);
  if (recoveryMs > recoveryMsMax)
    throw new Error(`a usual load ran as usual only ${recoveryMs} ms after the overload`);
}

/** When 50 requests in a row of 10 clients were all permitted. */
async function untilNormal(ask: (one: Told) => Promise<string>, told: Told[]): Promise<number> {
  for (;;) {
    const startedMs = performance.now();
    const rounds = Array.from({ length: 10 }, async () => {
      for (let count = 0; count < 5; count++) {
        const one: Told = { key: randomUUID(), permitId: null };
        told.push(one);
        if ((await ask(one)) !== 'PERMIT') return false;
      }
      return true;
    });
    if ((await Promise.all(rounds)).every(Boolean)) return startedMs;
  }
}

/** The ids of the PERMITs of the gate that stand: no later record voids them. */
async function permitsOnRecord(installation: Installation, { gateId }: Target): Promise<ReadonlySet<string>> {
  const ids = new Set<string>();
  const voided = new Set<string>();
  let cursor: string | null = null;
  do {
    const query = `gate_id=${gateId}&limit=500${cursor === null ? '' : `&cursor=${encodeURIComponent(cursor)}`}`;
    const page = await installation.api('GET', `/attestations?${query}`);
    for (const record of page['attestations'] as readonly {
      id: string;
      decision: string;
      refers_to: string | null;
    }[]) {
      if (record.refers_to !== null) voided.add(record.refers_to);
      else if (record.decision === 'PERMIT') ids.add(record.id);
    }
    cursor = page['next_cursor'] as string | null;
  } while (cursor !== null);
  return new Set([...ids].filter((id) => !voided.has(id)));
}
