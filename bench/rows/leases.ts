import { join } from 'node:path';
import { type Contestant, mustPermit, mustStillPermit, sideOf } from '../harness/contestant.ts';
import { describeDatabase, lackOf } from '../harness/database.ts';
import { newFolder, removeFolder } from '../harness/folders.ts';
import { type Installation, install } from '../harness/installation.ts';
import { interleaved, type Side, warmUp } from '../harness/rounds.ts';
import type { BenchOptions } from '../harness/row.ts';
import { briefS } from '../harness/size.ts';
import { type Table, tableLine } from '../harness/table.ts';
import { allShipped, headersOf, newAgent } from '../harness/warm-load.ts';
import { lackOfWrk } from '../harness/wrk.ts';

/** Out of reach for a run: all decisions are PERMITs. */
const requestsMax = 1_000_000_000;
const moneyMaxUsd = 1_000_000_000;
const request = { permission_key: 'orders:create', amount: 0.25, currency: 'USD' };

/** P12: how many calls the limits of a busy gate cost, and what they cost in decisions. */
export async function leases({ size, database, say }: BenchOptions): Promise<Table> {
  const rounds = { full: 5, quick: 2, brief: 1 }[size];
  const secondsEach = { full: 2, quick: 1, brief: briefS }[size];
  const title = 'Limits on five windows, taken from leases';
  const base = { row: 'leases', title, unit: 'requests/s', rounds, secondsEach };
  const reason = lackOf(database) ?? lackOfWrk();
  if (reason !== null) {
    return { ...base, lines: [], skipped: [{ side: 'everything', reason }], notes: [] };
  }
  const folder = newFolder('leases');
  let installation: Installation | null = null;
  try {
    installation = await install({ database });
    const contestants = await prepare(installation, folder);
    const [limited] = contestants;
    const calls: LeaseCost[] = [];
    const sides = contestants
      .map(sideOf)
      .map((side) =>
        side.name === limited.name ? countingCalls(side, installation as Installation, calls) : side,
      );
    await warmUp(sides, { size, seconds: secondsEach });
    calls.length = 0;
    const figures = await interleaved(sides, { rounds, seconds: secondsEach, say });
    for (const contestant of contestants) await mustStillPermit(contestant);
    const lines = contestants.map((contestant) => tableLine(contestant, figures, limited.name));
    const perThousand = perThousandOf(calls, 'calls');
    const median = perThousand[Math.floor(perThousand.length / 2)] ?? Number.NaN;
    const judged = [{ target: 'P12', figure: median, disturbed: null } as const];
    return {
      ...base,
      lines,
      skipped: [],
      notes: [costNote(calls), waitNote(calls), describeDatabase(database), ...notes],
      judged,
    };
  } finally {
    await installation?.stop();
    removeFolder(folder);
  }
}

const notes = [
  'wrk, one thread, 64 kept connections, closed loop, on the other core, together with the control plane and PostgreSQL at a lower priority.',
  'Both sides run in the same sidecar and get the same bytes but for the gate; every answer is a PERMIT.',
];

async function prepare(installation: Installation, folder: string): Promise<[Contestant, Contestant]> {
  const gateWith = async (constraints: object): Promise<string> => {
    const gate = await installation.api('POST', '/gates', { name: 'bench', trust_level: 'L1', constraints });
    return String(gate['gate_id']);
  };
  const requests = {
    requests_per_minute: requestsMax,
    requests_per_hour: requestsMax,
    requests_per_day: requestsMax,
  };
  const money = { daily_usd: moneyMaxUsd, monthly_usd: moneyMaxUsd };
  const limitedId = await gateWith({ rate_limits: requests, spend_limits: money });
  const freeId = await gateWith({});
  const passport = await installation.api('POST', '/passports', {
    agent_id: newAgent(),
    permissions: ['orders:create'],
  });
  const at = (
    gateId: string,
    about: Pick<Contestant, 'name' | 'does' | 'doesNot' | 'target'>,
  ): Contestant => ({
    ...about,
    program: installation.sidecar,
    load: {
      url: `${installation.sidecarOrigin}/v1/gates/${gateId}/check`,
      headers: headersOf(installation),
      body: JSON.stringify({ passport: passport['jwt'], request }),
      scriptPath: join(folder, `${gateId}.lua`),
    },
    finish: () => allShipped(installation, [limitedId, freeId]),
  });
  const contestants: [Contestant, Contestant] = [
    at(limitedId, {
      name: 'a gate with five limits',
      does: 'requests by minute, hour and day, money by day and month: all exact over all sidecars',
      doesNot: '',
      target: null,
    }),
    at(freeId, {
      name: 'a gate with none',
      does: '',
      doesNot: 'limits',
      target: { name: 'pays', wanted: 0.9 },
    }),
  ];
  for (const contestant of contestants) await mustPermit(contestant);
  return contestants;
}

export interface LeaseCost {
  readonly decisions: number;
  /** Failed calls included. */
  readonly calls: number;
  /** Requests that had to wait for a call. */
  readonly waits: number;
}

/** Adds the lease calls of each measurement to `costs`. */
export function countingCalls(
  side: Side,
  { sidecarMetric }: Pick<Installation, 'sidecarMetric'>,
  costs: LeaseCost[],
): Side {
  const read = async () => ({
    decisions: await sidecarMetric('agent_trust_sidecar_decisions_total'),
    calls:
      (await sidecarMetric('agent_trust_sidecar_lease_calls_total')) +
      (await sidecarMetric('agent_trust_sidecar_lease_failures_total')),
    waits: await sidecarMetric('agent_trust_sidecar_lease_asks_total'),
  });
  return {
    ...side,
    measure: async (seconds: number) => {
      const before = await read();
      const figure = await side.measure(seconds);
      const after = await read();
      costs.push({
        decisions: after.decisions - before.decisions,
        calls: after.calls - before.calls,
        waits: after.waits - before.waits,
      });
      return figure;
    },
  };
}

export const perThousandOf = (costs: readonly LeaseCost[], what: 'calls' | 'waits'): readonly number[] =>
  costs.map((cost) => (cost[what] * 1_000) / cost.decisions).toSorted((a, b) => a - b);

export const spreadOf = (sorted: readonly number[]): string => {
  const at = (place: number): string => (sorted[place] ?? Number.NaN).toFixed(2);
  return `**${at(Math.floor(sorted.length / 2))}** (${at(0)} to ${at(sorted.length - 1)})`;
};

const costNote = (costs: readonly LeaseCost[]): string =>
  `P12: ${spreadOf(perThousandOf(costs, 'calls'))} lease calls per 1,000 decisions, from a start with nothing held in each round; wanted: at most 10.`;

const waitNote = (costs: readonly LeaseCost[]): string =>
  `${spreadOf(perThousandOf(costs, 'waits'))} of 1,000 decisions waited for a lease.`;
