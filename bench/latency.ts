import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { addedUp, percentileMs } from './histogram.ts';
import { type Installation, install } from './installation.ts';
import type { LatencyTable } from './latency-table.ts';
import { disturbanceOf, type Offered, offer } from './open-load.ts';
import { findProgram } from './programs.ts';
import type { Sent } from './raw-requests.ts';
import { summary } from './rounds.ts';
import type { BenchOptions } from './row.ts';
import { allShipped, benchGate } from './warm.ts';
import { drive } from './wrk.ts';

const changesPerSecond = 10;
const shareOfPeak = 0.5;

/** P15: p99 over p50 at half of the peak, in an open loop, while the gate is changed ten times a second. */
export async function latency({ isQuick, say }: BenchOptions): Promise<LatencyTable> {
  const rounds = isQuick ? 2 : 5;
  const seconds = isQuick ? 1 : 3;
  const base = { kind: 'latency', row: 'latency', title: 'Waiting times at half of the peak' } as const;
  if (findProgram('wrk') === null) {
    const notes = ['Skipped: the load generator wrk is not installed (Debian: apt-get install wrk).'];
    return { ...base, lines: [], plans: [], notes };
  }
  const folder = mkdtempSync(join(tmpdir(), 'agent-trust-bench-latency-'));
  const installation = await install();
  try {
    const { gateId, passport, request } = await benchGate(installation);
    const sent: Sent = {
      url: `${installation.sidecarOrigin}/v1/gates/${gateId}/check`,
      headers: { Authorization: `Bearer ${installation.apiKey}`, 'Content-Type': 'application/json' },
      body: JSON.stringify({ passport, request }),
    };
    const peak = await peakOf(sent, { folder, seconds: isQuick ? 1 : 3 });
    await allShipped(installation, [gateId]);
    const perSecond = Math.round(peak * shareOfPeak);
    const offered: Offered[] = [];
    let changes = 0;
    let changingMs = 0;
    for (let round = 0; round < rounds; round += 1) {
      const changing = changeGate(installation, gateId);
      const beganMs = performance.now();
      const streams = [{ requests: [sent], perSecond }];
      const [result] = await offer(streams, { folder, seconds, server: installation.sidecar });
      changingMs += performance.now() - beganMs;
      const changed = await changing.stop();
      changes += changed;
      if (result === undefined || result.answered < result.due)
        throw new Error(`${result?.answered} of ${result?.due} requests were answered`);
      if (result.permittedInTime < result.due * 0.999)
        say(`${result.due - result.permittedInTime} of ${result.due} were no PERMIT within a second`);
      say(`round ${round + 1}/${rounds}: ${describe(result)}; ${changed} changes of the gate`);
      offered.push(result);
      await allShipped(installation, [gateId]);
    }
    return {
      ...base,
      ...resultOf(offered, {
        perSecond,
        peak,
        seconds,
        changes,
        wanted: (changingMs * changesPerSecond) / 1_000,
      }),
    };
  } finally {
    await installation.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Twice, because the compiler of Node works beside the first. */
async function peakOf(
  sent: Sent,
  of: { readonly folder: string; readonly seconds: number },
): Promise<number> {
  const load = { ...sent, scriptPath: join(of.folder, 'peak.lua') };
  await drive(load, of.seconds);
  const { done, seconds } = await drive(load, of.seconds);
  return done / seconds;
}

/** Changes the limit of the gate to and fro, and resolves to how often it did. */
function changeGate(installation: Installation, gateId: string): { stop(): Promise<number> } {
  const stopping = new AbortController();
  const changing = (async () => {
    const startedMs = performance.now();
    for (let changes = 0; ; changes += 1) {
      const dueMs = startedMs + (changes * 1_000) / changesPerSecond;
      await pause(Math.max(0, dueMs - performance.now()));
      if (stopping.signal.aborted) return changes;
      await installation.api('PUT', `/gates/${gateId}`, {
        constraints: { spend_limits: { per_transaction_usd: 500 + (changes % 2) } },
      });
    }
  })();
  // Whoever stops it sees the failure.
  changing.catch(() => undefined);
  return {
    stop: () => {
      stopping.abort();
      return changing;
    },
  };
}

/** Changes cost the sidecar something, so a row without them says less than it promises. */
const fewChanges = (changes: number, wanted: number): string | null =>
  changes < 0.9 * wanted
    ? `the control plane had no time for the changes: ${changes} of ${Math.round(wanted)}`
    : null;

const ratioOf = ({ times }: Offered): number => percentileMs(times, 0.99) / percentileMs(times, 0.5);

const describe = (offered: Offered): string =>
  `p50 ${percentileMs(offered.times, 0.5).toFixed(3)} ms, p99 ${percentileMs(offered.times, 0.99).toFixed(3)} ms, ratio ${ratioOf(offered).toFixed(1)}`;

function resultOf(
  offered: readonly Offered[],
  {
    perSecond,
    peak,
    seconds,
    changes,
    wanted,
  }: {
    readonly perSecond: number;
    readonly peak: number;
    readonly seconds: number;
    /** Of the gate, and how many there should have been. */
    readonly changes: number;
    readonly wanted: number;
  },
): Pick<LatencyTable, 'lines' | 'plans' | 'notes' | 'judged' | 'distributions'> {
  const times = addedUp(offered.map((each) => each.times));
  const lateness = addedUp(offered.map((each) => each.lateness));
  const ratio = summary(offered.map(ratioOf));
  const requests = offered.reduce((sum, { answered }) => sum + answered, 0);
  const line = (what: string, histogram: ArrayLike<number>, remark: string) => ({
    ...{ what, requests, target: null, remark },
    p50Ms: percentileMs(histogram, 0.5),
    p99Ms: percentileMs(histogram, 0.99),
    maxMs: percentileMs(histogram, 1),
  });
  return {
    lines: [
      line(`${perSecond.toLocaleString('en-US')} requests/s`, times, `p99 / p50 ${ratio.median.toFixed(1)}`),
      line('lateness of the generator', lateness, 'is part of the times above'),
    ],
    plans: [],
    distributions: [
      { name: 'from due to answered', counts: [...times] },
      { name: 'lateness of the generator', counts: [...lateness] },
    ],
    notes: [
      `Open loop: ${offered.length} rounds of ${seconds} s at half of the peak, which is ${Math.round(peak).toLocaleString('en-US')} requests/s in a closed loop of 64 connections. A request that has to wait for a connection counts from the moment it was due, so that a pause of the server is charged for all that should have come meanwhile.`,
      `Meanwhile the limit of the gate is to be changed ${changesPerSecond} times a second at the control plane, which has the other core, together with PostgreSQL and the generator, at a lower priority: ${changes} of ${Math.round(wanted)} changes were made.`,
      `p99 / p50, median of the rounds: ${ratio.median.toFixed(1)} (${ratio.min.toFixed(1)} to ${ratio.max.toFixed(1)}).`,
    ],
    judged: [
      {
        target: 'P15',
        figure: ratio.median,
        disturbed: disturbanceOf(offered) ?? fewChanges(changes, wanted),
      },
    ],
  };
}
