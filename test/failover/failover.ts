import { setTimeout as pause } from 'node:timers/promises';
import type { Database } from '../../control-plane/base/database.ts';
import { connect } from '../../control-plane/storage/connect.ts';
import { must } from '../../shared/errors/assert.ts';
import { allShipped } from '../race/all-shipped.ts';
import { Answers } from '../race/answers.ts';
import { byLimit, overruns } from '../race/caps.ts';
import { startClients } from '../race/clients.ts';
import { type Course, makeCourse, makeCrowd } from '../race/course.ts';
import { asSettled, misfits, readRecords } from '../race/records.ts';
import { overrunLine } from '../race/report.ts';
import { recorded } from '../race/world.ts';
import { type Chance, chance } from '../support/base/chance.ts';
import { until } from '../support/base/until.ts';
import { type Installation, installation, type Running } from '../support/programs/installation.ts';
import type { Programs } from '../support/programs/programs.ts';
import { brokenSentences } from '../support/service/sound-database.ts';
import { type Changes, startChanges, wrongChanges } from './changes.ts';
import { type PatroniCluster, startPatroni } from './patroni.ts';
import { type PlainChecks, startPlainChecks } from './plain-checks.ts';
import { type ProgressWatch, watchHistory, watchRecords } from './watches.ts';

export interface FailoverOptions {
  readonly programs: Programs;
  readonly seed: number;
  /** Half of them kills of the primary, half switchovers. */
  readonly failovers: number;
  /** What a kill takes; default: by the seed, the server alone or all of the machine. */
  readonly kill?: 'server' | 'machine';
  readonly clients: number;
  /** Requests and dollars under each cap. */
  readonly size: number;
  readonly say: (line: string) => void;
}

export interface FailoverReport {
  /** Sentences. Empty: nothing was lost, doubled or over a cap. */
  readonly violations: readonly string[];
  readonly pauses: readonly Pause[];
}

/** How long no record and no change came through around a failover. */
export interface Pause {
  readonly kind: string;
  readonly ingestMs: number;
  readonly changesMs: number;
}

const sidecarCount = 3;
const linesTold = 40;
/** Patroni's bound of a machine that is gone is 20 s, and a busy machine takes several times as long. */
const failoverMsMax = 180_000;

/** The programs under load while the primary of their database goes and another server takes its place. */
export async function failover(options: FailoverOptions): Promise<FailoverReport> {
  const { say, seed } = options;
  const source = chance(seed);
  say(`Seed ${seed}: ${options.failovers} failovers, ${options.clients} clients.`);
  const stops: (() => Promise<unknown>)[] = [];
  let started: ReturnType<typeof recorded> | null = null;
  try {
    const cluster = await startPatroni();
    stops.push(() => cluster.stop());
    started = recorded(options.programs);
    const world = await installation(started.programs, { databaseUrl: cluster.url });
    stops.push(() => world.close());
    const sql = connect({ url: cluster.directUrl, connectionsMax: 2 });
    stops.push(() => sql.end({ timeout: 1 }));
    const programs = await startAll(world);
    say(`Two servers, two control planes and ${sidecarCount} sidecars are ready.`);
    const { load, pauses } = await underLoad(options, { cluster, world, sql, ...programs }, source);
    const violations = [...(await judge({ world, sql, ...programs }, load, say)), ...started.faultsOfOurs()];
    for (const line of pauseTable(pauses)) say(line);
    return { violations, pauses };
  } catch (error) {
    for (const line of started?.lastLines(linesTold) ?? []) say(line);
    throw error;
  } finally {
    for (const stop of stops.reverse()) await stop();
  }
}

interface Started {
  readonly controlPlanes: readonly Running[];
  readonly sidecars: readonly Running[];
}
interface Stage extends Started {
  readonly world: Installation;
  readonly sql: Database;
}

async function startAll(world: Installation): Promise<Started> {
  const controlPlanes = [await world.startControlPlane(), await world.startControlPlane()];
  const sidecars: Running[] = [];
  while (sidecars.length < sidecarCount) {
    const { origin } = must(controlPlanes[sidecars.length % 2], 'there are two');
    sidecars.push(await world.startSidecar({ CONTROL_PLANE_URL: origin }));
  }
  return { controlPlanes, sidecars };
}

interface Load {
  readonly course: Course;
  readonly answers: Answers;
  readonly plain: PlainChecks;
  readonly changes: Changes;
  readonly regressions: readonly string[];
}

async function underLoad(
  { clients, size, failovers, kill, say }: FailoverOptions,
  stage: Stage & { readonly cluster: PatroniCluster },
  source: Chance,
): Promise<{ readonly load: Load; readonly pauses: readonly Pause[] }> {
  const { world, cluster, sql, controlPlanes, sidecars } = stage;
  const course = await makeCourse(world, await makeCrowd(world), size);
  const answers = new Answers();
  const originsOf = (running: readonly Running[]) => running.map(({ origin }) => origin);
  const servers = {
    sidecars: originsOf(sidecars),
    controlPlanes: originsOf(controlPlanes),
    key: world.adminKey,
  };
  const plain = await startPlainChecks(world, servers);
  const changes = startChanges(servers, source.branch('changes'));
  const history = watchHistory(servers.controlPlanes);
  const ingest = watchRecords(sql);
  const run = startClients({
    count: clients,
    servers,
    course: () => course,
    answers,
    chance: source.branch('clients'),
  });
  const pauses: Pause[] = [];
  try {
    for (let n = 0; n < failovers; n++) {
      // Records flow again, and whoever waited for their turn has had it.
      await pause(2_000 + source.below(3_000));
      const kind = n % 2 === 1 ? 'switchover' : (kill ?? source.pick(['server', 'machine'] as const));
      const sinceMs = performance.now();
      await failOver(cluster, kind, [ingest, changes], [...controlPlanes, ...sidecars]);
      const pauseMs = { ingestMs: ingest.longestGapMs(sinceMs), changesMs: changes.longestGapMs(sinceMs) };
      pauses.push({ kind, ...pauseMs });
      say(
        `${n + 1}. ${kind}: no records for ${Math.round(pauseMs.ingestMs)} ms, no changes for ${Math.round(pauseMs.changesMs)} ms.`,
      );
    }
    await pause(2_000);
  } finally {
    await run.stop();
    await Promise.all([plain.stop(), changes.stop(), history.stop(), ingest.stop()]);
  }
  return { load: { course, answers, plain, changes, regressions: history.regressions }, pauses };
}

/** Resolves when another server is the primary, the first one follows it, and work gets through. */
async function failOver(
  cluster: PatroniCluster,
  kind: 'switchover' | 'server' | 'machine',
  watches: readonly ProgressWatch[],
  programs: readonly Running[],
): Promise<void> {
  const before = await cluster.whole();
  const sinceMs = performance.now();
  if (kind === 'switchover') await cluster.switchover();
  else if (kind === 'server') await before.killPostgres();
  else await before.killAll();
  const isOver = async () => {
    const primary = await cluster.primary();
    return primary !== null && primary.name !== before.name;
  };
  await until(isOver, {
    what: `another primary after the ${kind}`,
    timeoutMs: failoverMsMax,
    pauseMsMax: 200,
  });
  await before.start();
  for (const watch of watches) {
    const overMs = performance.now();
    const isThrough = (): boolean => {
      const ended = programs.find(({ program }) => !program.isRunning);
      if (ended !== undefined) throw new Error(`the program at ${ended.origin} has ended`);
      return watch.lastMs > overMs;
    };
    await until(isThrough, { what: 'work gets through again', timeoutMs: failoverMsMax });
  }
  await until(async () => (await cluster.whole()).name !== before.name, {
    what: `a whole cluster after ${Math.round(performance.now() - sinceMs)} ms`,
    timeoutMs: failoverMsMax,
  });
}

async function judge(stage: Stage, load: Load, say: FailoverOptions['say']): Promise<string[]> {
  const { world, sql } = stage;
  const { course, answers, plain, changes, regressions } = load;
  const shippedMs = await allShipped(stage, answers);
  const records = await readRecords(
    sql,
    course.lanes.map(({ gateId }) => gateId),
  );
  const counts = Array.from(answers.counts, ([what, count]) => `${what} ${count}`).sort();
  say(`Answers: ${counts.join(', ')}.`);
  say(`Plain checks: ${plain.ids.length} PERMITs, ${plain.refusals.length} refused. ${changes.said()}`);
  say(
    `Records: ${records.permits.size} PERMITs, ${records.voided.size} voided; all shipped ${shippedMs} ms later.`,
  );
  const violations = [
    ...plain.refusals.map((refusal) => `a plain check was refused: ${refusal}`),
    ...(await lostOrDoubled(sql, plain.ids)),
    ...(await wrongChanges(stage, changes)),
    ...regressions,
    ...misfits(records, answers),
    ...answers.wrong,
    ...overruns(course.caps, asSettled([...answers.permits.values()], records), byLimit).map(
      (one) => `answered: ${overrunLine(one)}`,
    ),
    ...overruns(course.caps, records.given, byLimit).map((one) => `on record: ${overrunLine(one)}`),
    ...(await brokenSentences(sql)),
  ];
  await world.verifyExport().catch((error: unknown) => violations.push(`the export: ${error}`));
  if (plain.ids.length === 0 || answers.permits.size === 0) violations.push('there was no load');
  return violations;
}

async function lostOrDoubled(sql: Database, ids: readonly string[]): Promise<string[]> {
  const rows = await sql<{ id: string; count: number }[]>`
    SELECT attestation_id AS id, count(*) AS count FROM attestations
    WHERE attestation_id = ANY(${[...ids]}::text[]) GROUP BY 1`;
  const counts = new Map(rows.map(({ id, count }) => [id, count]));
  return ids
    .filter((id) => counts.get(id) !== 1)
    .map((id) => `${id} was answered and is on record ${counts.get(id) ?? 0} times`);
}

function pauseTable(pauses: readonly Pause[]): string[] {
  const seconds = (ms: number): string => (ms / 1_000).toFixed(1);
  return [...new Set(pauses.map(({ kind }) => kind))].map((kind) => {
    const own = pauses.filter((one) => one.kind === kind);
    const spread = (of: (one: Pause) => number): string => {
      const sorted = own.map(of).toSorted((a, b) => a - b);
      const at = (part: number) => seconds(sorted[Math.floor((sorted.length - 1) * part)] ?? 0);
      return `${at(0)} / ${at(0.5)} / ${at(1)} s`;
    };
    return `${kind} (${own.length}): no records for ${spread((one) => one.ingestMs)}, no changes for ${spread((one) => one.changesMs)} (min / median / max)`;
  });
}
