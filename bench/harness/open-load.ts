import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { Pool } from 'undici';
import { otherCore } from './cores.ts';
import { addedUp, percentileMs } from './histogram.ts';
import { type Program, peer, start } from './programs.ts';
import { rawRequests, type Sent } from './requests.ts';

/** What a stream of requests came to. */
export interface Offered {
  /** Requests that should have been sent. */
  readonly due: number;
  readonly answered: number;
  /** PERMITs within a second of being due. */
  readonly permittedInTime: number;
  /** Of all answers, from the moment the request was due. */
  readonly times: readonly number[];
  /**
   * Of the generator alone: how long after it was due a request was seen to be so. One that was seen may
   * still wait for a connection.
   */
  readonly lateness: readonly number[];
  /** Of the requests for which the generator was there from beginning to end (absences.ts). */
  readonly watched: readonly number[];
  /** Of all answers, each less what the generator was away of its time: the least that it can have taken. */
  readonly lessAbsences: readonly number[];
  /** Of the time, what the main thread of the server waited for its core (core-waits.ts). */
  readonly serverWaitedShare: number;
  /** The part of it for which its own other threads did not run, so that another program must have. */
  readonly serverDisturbedShare: number;
}

interface Result {
  readonly loads: readonly Omit<Offered, 'serverWaitedShare' | 'serverDisturbedShare'>[];
  /** Of the main thread of the server, and of its other threads. */
  readonly waitedMs: number;
  readonly othersRanMs: number;
}

/** Of the same load, before that which counts: the code of the generator is compiled then. */
export const warmSeconds = 1;
/** A generator that is later than this with one in a hundred measures itself. */
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
    command: [...peer('open-load'), port, ...[server.pid, warmSeconds, seconds].map(String), ...files],
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

/** Why these say nothing about the server; null where they do. */
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

/**
 * Starts one after the other at a fixed rate, however long they take, and times each from the moment it was
 * due.
 */
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

/**
 * How long `GET /livez` takes, which asks for no work: what the machine and its other programs add to
 * everything else.
 */
export async function askNothing(arrivals: Arrivals, requests: number): Promise<readonly number[]> {
  const answers = await atRate(arrivals, Array.from({ length: requests }), async (pool) => {
    const { body } = await pool.request({ method: 'GET', path: '/livez' });
    await body.dump();
    return {};
  });
  return answers.map(({ timeMs }) => timeMs);
}
