import { statfsSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { must } from '../../shared/errors/assert.ts';
import { absentShare } from '../harness/absences.ts';
import { measuredCore } from '../harness/cores.ts';
import { type DatabaseKind, describeDatabase, lackOf } from '../harness/database.ts';
import { newFolder, removeFolder } from '../harness/folders.ts';
import { addedUp, percentileMs } from '../harness/histogram.ts';
import { type Installation, install } from '../harness/installation.ts';
import type { LatencyTable } from '../harness/latency-table.ts';
import { mustPermitInTime, type Offered, offer } from '../harness/open-load.ts';
import { onlyPermits } from '../harness/permits.ts';
import { goFirst, onMeasuredCore, peer, start } from '../harness/programs.ts';
import type { Sent } from '../harness/requests.ts';
import { count, summary } from '../harness/rounds.ts';
import type { BenchOptions } from '../harness/row.ts';
import { briefS } from '../harness/size.ts';
import { allShipped, benchGate, headersOf } from '../harness/warm-load.ts';
import { connectionsUsual, drive, lackOfWrk } from '../harness/wrk.ts';

const changesPerSecondUsual = 10;
/** Slow changes do not delay others below this number. */
const changesUnderWayMax = 10;
const shareOfPeak = 0.5;
/**
 * Uncounted rounds before the others. The code for a change is compiled after some minutes of ten changes a
 * second, for milliseconds at a time on the measured core; faster changes bring that forward.
 */
const warmRounds = 14;
const warmChangesPerSecond = 100;
/** Share of requests with an absence of the generator above which it measures itself. */
const absentShareMax = 0.05;
/** Share of the time in which other programs had the sidecar's core: p99 leaves one in a hundred. */
const disturbedShareMax = 0.003;

/** One request at one installation. */
interface Scene {
  readonly installation: Installation;
  readonly gateId: string;
  readonly sent: Sent;
  /** Where files may be written. */
  readonly folder: string;
  /** Of each round. */
  readonly seconds: number;
  readonly say: (line: string) => void;
}

/** What all rounds at one rate gave. */
interface AtRate {
  readonly perSecond: number;
  readonly rounds: readonly Offered[];
  /** Of the gate, and how many there should have been. */
  readonly changes: number;
  readonly changesWanted: number;
}

/** Requests a second, as fast as they are answered. */
interface Peak {
  readonly answered: number;
  /** Until their records are committed, and not until they are answered. */
  readonly sustained: number;
}

/**
 * P15: p99 over p50 at half of the sustained peak, open loop, while the gate is changed ten times a second.
 */
export async function latency({ size, database, say }: BenchOptions): Promise<LatencyTable> {
  const seconds = { full: 6, quick: 2, brief: 0.5 }[size];
  const base = {
    kind: 'latency',
    row: 'latency',
    title: 'Waiting times at half of the sustained peak',
  } as const;
  const reason = lackOf(database) ?? lackOfWrk();
  if (reason !== null) return { ...base, lines: [], plans: [], notes: [`Skipped: ${reason}`] };
  const folder = newFolder('latency');
  const memoryFolder = hasRoomInMemory() ? newFolder('latency', memory) : null;
  let installation: Installation | null = null;
  try {
    // The generator never sleeps: it would leave nothing of its core to a control plane.
    installation = await install({
      database,
      controlPlaneCores: String(measuredCore),
      ...(memoryFolder !== null && { controlPlaneFolder: memoryFolder }),
    });
    const { gateId, passport, request } = await benchGate(installation);
    const sent: Sent = {
      url: `${installation.sidecarOrigin}/v1/gates/${gateId}/check`,
      headers: headersOf(installation),
      body: JSON.stringify({ passport, request }),
    };
    const scene: Scene = { installation, gateId, sent, folder, seconds, say };
    const hasPriority = goFirst(installation.sidecar.pid);
    // Changes of the gate are made in this process, and would take the generator's core for up to a
    // millisecond each.
    const measured = await onMeasuredCore(() => measure(scene, size));
    const isInMemory = memoryFolder !== null;
    return { ...base, ...resultOf({ ...measured, seconds, database, hasPriority, isInMemory }) };
  } finally {
    await installation?.stop();
    removeFolder(folder);
    if (memoryFolder !== null) removeFolder(memoryFolder);
  }
}

async function measure(scene: Scene, size: BenchOptions['size']): Promise<Measured> {
  const peak = await peakOf(scene, { full: 3, quick: 1, brief: briefS }[size]);
  const perSecond = Math.round(peak.sustained * shareOfPeak);
  await offerRounds(
    { ...scene, say: () => undefined },
    { perSecond, rounds: size === 'full' ? warmRounds : 1, changesPerSecond: warmChangesPerSecond },
  );
  const sustained = await offerRounds(scene, { perSecond, rounds: { full: 5, quick: 2, brief: 1 }[size] });
  const bare = await offerToBareServer(scene, perSecond);
  const answered = await offerRounds(
    { ...scene, seconds: scene.seconds / 2 },
    { perSecond: Math.round(peak.answered * shareOfPeak), rounds: size === 'full' ? 2 : 1 },
  );
  return { sustained, bare, answered, peak };
}

/** The file system of Linux that has no disk. */
const memory = '/dev/shm';
/** More than a run takes: 1.5 million records of 549 bytes, and a journal of one or two gigabytes. */
const memoryBytesMin = 4 * 1024 ** 3;

function hasRoomInMemory(): boolean {
  try {
    const { bavail, bsize } = statfsSync(memory);
    return bavail * bsize >= memoryBytesMin;
  } catch {
    return false;
  }
}

async function peakOf({ installation, gateId, sent, folder }: Scene, seconds: number): Promise<Peak> {
  const load = { ...sent, scriptPath: join(folder, 'peak.lua') };
  // Twice, because the compiler of Node works beside the first.
  await drive(load, seconds);
  await allShipped(installation, [gateId]);
  const asked = { name: 'the peak', programs: [installation.sidecar], underWayMax: connectionsUsual };
  const { done, answeredS, committedS } = await onlyPermits(asked, async () => {
    const beganMs = performance.now();
    const driven = await drive(load, seconds);
    // On the cores that they have in the rounds, so that it is this installation's peak.
    while ((await installation.sidecarWaitingBytes()) > 0) await pause(20);
    const committedS = (performance.now() - beganMs) / 1_000;
    return { done: driven.done, answeredS: driven.seconds, committedS };
  });
  await allShipped(installation, [gateId]);
  return { answered: done / answeredS, sustained: done / committedS };
}

async function offerRounds(
  { installation, gateId, sent, folder, seconds, say }: Scene,
  {
    perSecond,
    rounds,
    changesPerSecond = changesPerSecondUsual,
  }: { readonly perSecond: number; readonly rounds: number; readonly changesPerSecond?: number },
): Promise<AtRate> {
  const offered: Offered[] = [];
  let changes = 0;
  let changingMs = 0;
  for (let round = 0; round < rounds; round += 1) {
    const changing = changeGate(installation, gateId, changesPerSecond);
    const beganMs = performance.now();
    const streams = [{ requests: [sent], perSecond }];
    const [offering] = await offer(streams, { folder, seconds, server: installation.sidecar });
    changingMs += performance.now() - beganMs;
    const changed = await changing.stop();
    changes += changed;
    const result = must(offering, 'there is one stream');
    // In a brief run the machine may have other things to do.
    if (seconds >= 1) mustPermitInTime(result);
    say(`${count(perSecond)}/s, round ${round + 1}/${rounds}: ${describe(result)}; ${changed} changes`);
    offered.push(result);
    await allShipped(installation, [gateId]);
  }
  return { perSecond, rounds: offered, changes, changesWanted: (changingMs * changesPerSecond) / 1_000 };
}

/** The same load for a bare server: what generator and machine add. */
async function offerToBareServer({ sent, folder, seconds }: Scene, perSecond: number): Promise<Offered> {
  const { url, headers, body } = sent;
  const answer = await fetch(url, { method: 'POST', headers, body });
  const constants = [await answer.text(), answer.headers.get('x-request-id') ?? ''];
  const server = start({ core: measuredCore, command: [...peer('bare-uws'), ...constants] });
  try {
    const [, port] = await server.find(/^port (\d+)$/m);
    goFirst(server.pid);
    const toServer = { ...sent, url: `http://127.0.0.1:${port}${new URL(url).pathname}` };
    // Until it is compiled.
    await drive({ ...toServer, scriptPath: join(folder, 'bare.lua') }, Math.min(2, seconds));
    const [offered] = await offer([{ requests: [toServer], perSecond }], { folder, seconds, server });
    return must(offered, 'there is one stream');
  } finally {
    await server.stop();
  }
}

/** Changes the limit of the gate to and fro, and resolves to how often it did. */
function changeGate(
  installation: Installation,
  gateId: string,
  changesPerSecond: number,
): { stop(): Promise<number> } {
  const stopping = new AbortController();
  // A failure is kept for the end.
  const underWay = new Set<Promise<unknown>>();
  const change = (limitUsd: number) => {
    const constraints = { spend_limits: { per_transaction_usd: limitUsd } };
    const changing = installation.api('PUT', `/gates/${gateId}`, { constraints });
    underWay.add(changing);
    changing.then(() => underWay.delete(changing)).catch(() => undefined);
  };
  const changing = (async () => {
    const startedMs = performance.now();
    for (let changes = 0; ; changes += 1) {
      const dueMs = startedMs + (changes * 1_000) / changesPerSecond;
      await pause(Math.max(0, dueMs - performance.now()));
      if (underWay.size >= changesUnderWayMax) await Promise.race(underWay);
      if (stopping.signal.aborted) {
        await Promise.all(underWay);
        return changes;
      }
      change(500 + (changes % 2));
    }
  })();
  // The stop rejects with it.
  changing.catch(() => undefined);
  return {
    stop: () => {
      stopping.abort();
      return changing;
    },
  };
}

const tail = (times: readonly number[]): number => percentileMs(times, 0.99) / percentileMs(times, 0.5);

/**
 * The worse of two: a long request is more likely to meet an absence of the generator, and one of the two
 * leaves such requests out.
 */
const ratioOf = ({ watched, lessAbsences }: Offered): number => Math.max(tail(watched), tail(lessAbsences));

const percent = (share: number): string => `${(share * 100).toFixed(share < 0.01 ? 2 : 1)} %`;

const describe = (offered: Offered): string =>
  `p50 ${percentileMs(offered.watched, 0.5).toFixed(3)} ms, p99 ${percentileMs(offered.watched, 0.99).toFixed(3)} ms, ratio ${ratioOf(offered).toFixed(1)}, generator away for ${percent(absentShare([offered]))}, sidecar without its core ${percent(offered.serverWaitedShare)}`;

const meanOf = (rounds: readonly Offered[], which: 'serverWaitedShare' | 'serverDisturbedShare'): number =>
  rounds.reduce((sum, round) => sum + round[which], 0) / rounds.length;

/** Why these rounds are not judged; null where they are. */
function disturbanceOf({ rounds, changes, changesWanted }: AtRate): string | null {
  const absent = absentShare(rounds);
  if (absent > absentShareMax) return `the load generator was away for ${percent(absent)} of the requests`;
  const disturbed = meanOf(rounds, 'serverDisturbedShare');
  if (disturbed > disturbedShareMax)
    return `the sidecar waited for its core for ${percent(disturbed)} of the time`;
  // Changes cost the sidecar time: a row without them would be too good.
  return changes < 0.9 * changesWanted
    ? `the control plane had no time for the changes: ${changes} of ${Math.round(changesWanted)}`
    : null;
}

interface Measured {
  readonly sustained: AtRate;
  /** Of a bare server at the same rate. */
  readonly bare: Offered;
  readonly answered: AtRate;
  readonly peak: Peak;
}

interface Result extends Measured {
  readonly seconds: number;
  readonly database: DatabaseKind;
  readonly hasPriority: boolean;
  readonly isInMemory: boolean;
}

function resultOf(
  result: Result,
): Pick<LatencyTable, 'lines' | 'plans' | 'notes' | 'judged' | 'distributions'> {
  const { sustained, bare, answered } = result;
  const all = (of: AtRate, which: 'watched' | 'lessAbsences' | 'times') =>
    addedUp(of.rounds.map((each) => each[which]));
  const line = (what: string, times: ArrayLike<number>, remark: string) => ({
    ...{ what, target: null, remark },
    requests: Array.from(times).reduce((sum, each) => sum + each, 0),
    p50Ms: percentileMs(times, 0.5),
    p99Ms: percentileMs(times, 0.99),
    maxMs: percentileMs(times, 1),
  });
  const ratio = summary(sustained.rounds.map(ratioOf));
  const judged = `p99 / p50 ${ratio.median.toFixed(1)} (${ratio.min.toFixed(1)} to ${ratio.max.toFixed(1)})`;
  const [watched, less, seen] = [
    all(sustained, 'watched'),
    all(sustained, 'lessAbsences'),
    all(sustained, 'times'),
  ];
  return {
    lines: [
      line(`${count(sustained.perSecond)} requests/s, the generator there all the time`, watched, judged),
      line('all of them, less the absences of the generator', less, 'p99 / p50 is the worse of these two'),
      line('all of them, as the generator saw them', seen, 'its absences included'),
      line('bare uWebSockets.js at this rate', bare.watched, `p99 / p50 ${ratioOf(bare).toFixed(1)}`),
      line(`${count(answered.perSecond)} requests/s`, all(answered, 'watched'), 'cannot be sustained'),
    ],
    plans: [],
    distributions: [
      { name: 'generator there all the time', counts: [...watched] },
      { name: 'all, less its absences', counts: [...less] },
      { name: 'all, as it saw them', counts: [...seen] },
    ],
    notes: notesOn(result),
    judged: [{ target: 'P15', figure: ratio.median, disturbed: disturbanceOf(sustained) }],
  };
}

function notesOn(result: Result): readonly string[] {
  const { sustained, answered, peak, seconds, database, hasPriority, isInMemory } = result;
  const changed = ({ changes, changesWanted }: AtRate) => `${changes} of ${Math.round(changesWanted)}`;
  return [
    `Open loop: ${sustained.rounds.length} rounds of ${seconds} s at half of the ${count(peak.sustained)} requests/s that can be sustained: as many as 64 connections in a closed loop were answered, by the time until their records were committed. A request that has to wait for a connection counts from the moment it was due, so that a pause of the server is charged for all that should have come meanwhile.`,
    describeDatabase(database),
    'The bare server parses the same body, answers a constant as long as ours, and runs as the sidecar does: its times are what generator and machine add by themselves.',
    `The last line is half of the ${count(peak.answered)} requests/s that are answered while their records wait; ${changed(answered)} changes of the gate were made meanwhile. It has no target.`,
    `The generator has a core alone, and never sleeps. Sidecar, control plane, PostgreSQL and what changes the gate share the other one, where the sidecar comes first: ${
      hasPriority
        ? 'it has the real-time class of Linux, so that it does not wait for a control plane that in production is on another machine.'
        : 'this could not be seen to, because it takes root, and the sidecar waits for them, which it does not in production.'
    } Nothing keeps these cores awake: where that takes a loop, the kernel was seen to let it go on for 4 ms after the sidecar had become ready.`,
    `Before these came rounds that do not count, ${warmRounds} in a full run, with ${warmChangesPerSecond} changes a second: until the code for a change is compiled, after some minutes of ten a second, Node.js compiles it on the core of the sidecar.`,
    isInMemory
      ? `The files of the database lie in memory (${memory}). On the disk, PostgreSQL and the kernel were seen to keep the core for 2.4 ms at once while they wrote, which in production is another machine's; the records of the sidecar are on the disk.`
      : `The files of the database are on the disk, because ${memory} has no room for them: PostgreSQL and the kernel then keep the core for milliseconds while they write, which in production is another machine's.`,
    `For ${percent(meanOf(sustained.rounds, 'serverWaitedShare'))} of the time the main thread of the sidecar was ready and waited for its core, in waits of more than 0.1 ms. Its own other threads, such as those that collect garbage, explain that but for ${percent(meanOf(sustained.rounds, 'serverDisturbedShare'))}; above ${percent(disturbedShareMax)} the row is not judged.`,
    `The generator was away whenever it did not look at the clock for 0.3 ms: another program had its core, or it collected its garbage. ${percent(absentShare(sustained.rounds))} of the requests were due or under way then; above ${percent(absentShareMax)} the row is not judged. The first line is without these, whatever their times are. That leaves out more of the slow ones than of others, so the second line has all of them, each without that part of its time: the least that it can have taken.`,
    `Meanwhile the limit of the gate is to be changed ${changesPerSecondUsual} times a second at the control plane: ${changed(sustained)} changes were made.`,
  ];
}
