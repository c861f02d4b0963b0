import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { Pool } from 'undici';
import { otherCore } from './cores.ts';
import { addedUp, percentileMs } from './histogram.ts';
import { type Program, peer, start } from './programs.ts';
import { rawRequests, type Sent } from './requests.ts';

/** Outcome of one stream of requests. */
export interface Offered {
  /** Requests that should have been sent. */
  readonly due: number;
  readonly answered: number;
  /** PERMITs within a second of being due. */
  readonly permittedInTime: number;
  /** Of all answers, from the moment the request was due. */
  readonly times: readonly number[];
  /** Delay of the generator alone: from when a request was due to when the generator saw it. */
  readonly lateness: readonly number[];
  /** Times of requests without an absence of the generator (absences.ts). */
  readonly watched: readonly number[];
  /** Times of all answers, each less the generator's absences: a lower bound. */
  readonly lessAbsences: readonly number[];
  /** Share of the time in which the server's main thread waited for its core (absences.ts). */
  readonly serverWaitedShare: number;
  /** The part of it in which no other thread of the server ran: another program did. */
  readonly serverDisturbedShare: number;
}

interface Result {
  readonly loads: readonly Omit<Offered, 'serverWaitedShare' | 'serverDisturbedShare'>[];
  /** Of the main thread of the server, and of its other threads. */
  readonly waitedMs: number;
  readonly othersRanMs: number;
}

/** Warm-up with the same load, in which the generator's code is compiled. */
export const warmSecondsBefore = (seconds: number): number => Math.min(1, seconds);
/** Above this p99 of its lateness, the generator measures itself. */
const latenessP99MsMax = 2;

/** Requests at fixed rates, each stream over 64 connections of its own (peers/open-load.ts). */
export async function offer(
  streams: readonly { readonly requests: readonly Sent[]; readonly perSecond: number }[],
  {
    folder,
    seconds,
    server,
  }: { readonly folder: string; readonly seconds: number; readonly server: Program },
): Promise<readonly Offered[]> {
  const files = streams.flatMap(({ requests, perSecond }, index) => {
    const path = join(folder, `stream-${index}.requests`);
    writeFileSync(path, rawRequests(requests));
    return [path, String(perSecond)];
  });
  const { port } = new URL(streams[0]?.requests[0]?.url ?? '');
  const generator = start({
    core: otherCore,
    command: [
      ...peer('open-load'),
      port,
      ...[server.pid, warmSecondsBefore(seconds), seconds].map(String),
      ...files,
    ],
  });
  try {
    const [, json = ''] = await generator.find(/^RESULT (\{.*\})$/m);
    const { loads, waitedMs, othersRanMs } = JSON.parse(json) as Result;
    const serverWaitedShare = waitedMs / 1_000 / seconds;
    const serverDisturbedShare = Math.max(0, waitedMs - othersRanMs) / 1_000 / seconds;
    return loads.map((load) => ({ ...load, serverWaitedShare, serverDisturbedShare }));
  } finally {
    await generator.stop();
  }
}

/** One in a thousand may be late, as on a machine that others use too. */
const permittedInTimeShareMin = 0.999;

/** Throws where other answers than PERMITs were timed: a server that refuses is fast. */
export function mustPermitInTime({
  due,
  answered,
  permittedInTime,
}: Pick<Offered, 'due' | 'answered' | 'permittedInTime'>): void {
  if (answered < due) throw new Error(`${answered} of ${due} requests were answered`);
  if (permittedInTime < due * permittedInTimeShareMin)
    throw new Error(`${due - permittedInTime} of ${due} requests got no PERMIT within a second`);
}

/** Why the server is not judged by these; null: it is. */
export function disturbanceOf(offered: readonly Offered[]): string | null {
  const lateMs = percentileMs(addedUp(offered.map(({ lateness }) => lateness)), 0.99);
  return lateMs > latenessP99MsMax
    ? `the load generator itself was ${lateMs.toFixed(1)} ms late (p99)`
    : null;
}

interface Arrivals {
  readonly origin: string;
  readonly perSecond: number;
}

/** Starts one item after the other at a fixed rate, and times each from the moment it was due. */
export async function atRate<Item, Outcome extends object>(
  { origin, perSecond }: Arrivals,
  items: readonly Item[],
  one: (pool: Pool, item: Item) => Promise<Outcome>,
): Promise<readonly (Outcome & { readonly timeMs: number })[]> {
  const pool = new Pool(origin, { connections: 16, pipelining: 1 });
  const startedMs = performance.now();
  const outcomes = items.map(async (item, index) => {
    const dueMs = startedMs + (index * 1_000) / perSecond;
    await pause(dueMs - performance.now());
    const outcome = await one(pool, item);
    return { ...outcome, timeMs: performance.now() - dueMs };
  });
  try {
    return await Promise.all(outcomes);
  } finally {
    await pool.close();
  }
}

/** Times of `GET /livez`, which does no work: what the machine adds to every other request. */
export async function askNothing(arrivals: Arrivals, requests: number): Promise<readonly number[]> {
  const answers = await atRate(arrivals, Array.from({ length: requests }), async (pool) => {
    const { body } = await pool.request({ method: 'GET', path: '/livez' });
    await body.dump();
    return {};
  });
  return answers.map(({ timeMs }) => timeMs);
}
