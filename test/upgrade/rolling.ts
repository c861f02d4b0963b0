import { setTimeout as pause } from 'node:timers/promises';
import type { Database } from '../../control-plane/base/database.ts';
import { connect } from '../../control-plane/storage/connect.ts';
import { allShipped } from '../race/all-shipped.ts';
import { byLimit, overruns } from '../race/caps.ts';
import { startClients } from '../race/clients.ts';
import { type Course, type Lane, type Maker, makeCourse, makeCrowd } from '../race/course.ts';
import { misfits, readRecords } from '../race/records.ts';
import { overrunLine } from '../race/report.ts';
import { chance } from '../support/base/chance.ts';
import type { Programs } from '../support/programs/programs.ts';
import { brokenSentences, rules } from '../support/service/sound-database.ts';
import { type Administrators, startAdministrators } from './administrators.ts';
import { type Fleet, type Kind, startFleet, type Version } from './fleet.ts';
import { ToldWhileReplaced } from './told.ts';

export interface RollingOptions {
  readonly programs: Readonly<Record<Version, Programs>>;
  readonly databaseUrl: string;
  readonly redisUrl?: string;
  readonly seed: number;
  readonly clients: number;
  /** Requests and dollars under each cap. */
  readonly size: number;
  /** Between two replacements. */
  readonly settleMs: number;
  /** Where something is killed, what its clients are refused is not judged. */
  readonly steps: readonly Step[];
  readonly say: (line: string) => void;
}

/** Without replacing anything, for what a machine refuses by itself. */
const calmMs = 2_000;
/** An installation with room to spare, as one has that is upgraded: it is not load that is tested here. */
const restMs = 40;

/** All programs of a kind, one after the other, become that version. */
export interface Step {
  readonly kind: Kind;
  readonly to: Version;
  /** Default: as an orchestrator ends them. */
  readonly signal?: 'SIGTERM' | 'SIGKILL';
}

export interface RollingReport {
  readonly figures: Readonly<Record<string, number>>;
  /** Each with what it was, for whoever looks into it. Empty: the upgrade was not noticed. */
  readonly refused: readonly string[];
  readonly lost: readonly string[];
  readonly doubled: readonly string[];
  readonly late: readonly string[];
  /** Caps that were passed, rules of the database that are broken, chains that do not verify. */
  readonly wrong: readonly string[];
}

/** What somebody noticed of the upgrade: a line each, with its kind. Empty: nobody did. */
export const noticed = ({ refused, lost, doubled, late, wrong }: RollingReport): string[] =>
  Object.entries({ refused, lost, doubled, late, wrong }).flatMap(([kind, lines]) =>
    lines.slice(0, linesShownMax).map((line) => `${kind.toUpperCase()} ${line}`),
  );
const linesShownMax = 20;

/**
 * There and back, so that each version of one kind meets each of the other: sidecars of today first at a
 * database that is not migrated.
 */
export const thereAndBack: readonly Step[] = [
  { kind: 'sidecar', to: 'new' },
  { kind: 'control plane', to: 'new' },
  { kind: 'sidecar', to: 'old' },
  { kind: 'control plane', to: 'old' },
];

/** The same in the other order. */
export const backAgain: readonly Step[] = [
  { kind: 'control plane', to: 'new' },
  { kind: 'sidecar', to: 'new' },
  { kind: 'control plane', to: 'old' },
  { kind: 'sidecar', to: 'old' },
];

/** Sidecars are killed, so that each version finds a spool that the other one could not close. */
export const killed: readonly Step[] = [
  { kind: 'sidecar', to: 'new', signal: 'SIGKILL' },
  { kind: 'control plane', to: 'new' },
  { kind: 'sidecar', to: 'old', signal: 'SIGKILL' },
  { kind: 'sidecar', to: 'new', signal: 'SIGKILL' },
];

/**
 * Replaces the programs of an installation while clients and administrators use it, and counts with what they
 * were told what the database has on record afterwards.
 */
export async function rollingUpgrade(options: RollingOptions): Promise<RollingReport> {
  const { say, seed, settleMs, steps } = options;
  const source = chance(seed);
  say(`Seed ${seed}: ${options.clients} clients, caps of ${options.size} requests and dollars.`);
  const fleet = await startFleet({ ...options, chance: source.branch('links') });
  const sql = connect({ url: options.databaseUrl, connectionsMax: 2 });
  try {
    const { course, open } = await makeBusyCourse(fleet, options.size);
    const told = new ToldWhileReplaced(open.gateId);
    told.nameOf = (origin) => nameAt(fleet, origin);
    const servers = {
      get sidecars() {
        return fleet.in('sidecar');
      },
      get controlPlanes() {
        return fleet.in('control plane');
      },
      key: fleet.installation.adminKey,
    };
    const clients = startClients({
      count: options.clients,
      servers,
      course: () => course,
      answers: told,
      chance: source.branch('clients'),
      restMs,
    });
    const administrators = startAdministrators(fleet, source.branch('administrators'));
    await pause(calmMs);
    const calm = { answers: told.answers, busy: told.busy };
    say(`Nothing is replaced yet: ${calm.answers} answers, ${calm.busy} of them 503 overloaded`);
    for (const step of steps) await take(fleet, step, { told, administrators, settleMs, say });
    await administrators.stop();
    await clients.stop();
    const report = await judge(fleet, sql, { course, told, administrators, calm });
    const isKilled = steps.some(({ signal }) => signal === 'SIGKILL');
    return isKilled ? { ...report, refused: [], late: [] } : report;
  } finally {
    await sql.end({ timeout: 1 });
    await fleet.close();
  }
}

async function take(
  fleet: Fleet,
  { kind, to, signal = 'SIGTERM' }: Step,
  { told, administrators, settleMs, say }: Watched & { settleMs: number; say: RollingOptions['say'] },
): Promise<void> {
  for (const member of fleet.members.filter((each) => each.kind === kind)) {
    const beganMs = performance.now();
    await fleet.replace(member, to, signal);
    const seconds = ((performance.now() - beganMs) / 1_000).toFixed(1);
    await pause(settleMs);
    say(
      `${member.name} is ${to}, ${seconds} s after ${signal}: ${told.answers} answers, ` +
        `${sum(told.refused) + administrators.refused.length} refused, ${administrators.late.length} late`,
    );
  }
}

interface Watched {
  readonly told: ToldWhileReplaced;
  readonly administrators: Administrators;
}

const sum = (counts: ReadonlyMap<string, number>): number =>
  [...counts.values()].reduce((total, count) => total + count, 0);

/** Most of what is asked meets no limit, so that whatever is not a PERMIT there is a refusal. */
async function makeBusyCourse(
  { installation }: Fleet,
  size: number,
): Promise<{ readonly course: Course; readonly open: Lane }> {
  const make: Maker = {
    createGate: (body) => installation.createGate(body),
    issuePassport: (body) => installation.issuePassport(body),
  };
  const crowd = await makeCrowd(make);
  const course = await makeCourse(make, crowd, size);
  const open: Lane = {
    gateId: await make.createGate({}),
    passports: crowd,
    amountsUsd: [0.01, 1],
    asksAboveUsd: null,
  };
  return { course: { ...course, lanes: [...course.lanes, open, open, open, open, open] }, open };
}

const nameAt = ({ members }: Fleet, origin: string): string => {
  const member = members.find(({ running }) => running.origin === origin);
  return member === undefined ? origin : `${member.version} ${member.kind}`;
};

async function judge(
  fleet: Fleet,
  sql: Database,
  {
    course,
    told,
    administrators,
    calm,
  }: Watched & {
    readonly course: Course;
    readonly calm: { readonly answers: number; readonly busy: number };
  },
): Promise<RollingReport> {
  const running = (kind: Kind) =>
    fleet.members.filter((each) => each.kind === kind).map((each) => each.running);
  const shippedMs = await allShipped({ sql, sidecars: running('sidecar') }, told);
  const gates = [...new Set(course.lanes.map(({ gateId }) => gateId))];
  const records = await readRecords(sql, gates);
  const sentences = [...misfits(records, told), ...told.wrong];
  const isDouble = (sentence: string) => /PERMITs of one request|permitted twice|two requests/.test(sentence);
  const unanswered = told.counts.get('no answer') ?? 0;
  const refused = [
    ...Array.from(told.refused, ([what, count]) => `${count} times ${what}`),
    ...(unanswered > 0 ? [`${unanswered} times no answer`] : []),
    ...administrators.refused,
  ];
  const wrong = [
    ...overruns(course.caps, [...told.permits.values()], byLimit).map(overrunLine),
    ...overruns(course.caps, records.given, byLimit).map(overrunLine),
    ...overruns(course.caps, records.given, records.leasedIn).map(overrunLine),
    ...(await brokenSentences(sql, { ...rulesOfBoth, ...sumsKept })),
    ...(await fleet.installation.verifyExport().then(
      () => [],
      (error: unknown) => [`the export does not verify: ${error}`],
    )),
    ...faults(fleet),
  ];
  return {
    figures: {
      answers: told.answers,
      'overloaded per 1000, calm': perThousand(calm.busy, calm.answers),
      'overloaded per 1000, replacing': perThousand(told.busy - calm.busy, told.answers - calm.answers),
      permits: told.permits.size,
      'records of permits': records.permits.size,
      'changes made': Object.values(administrators.done).reduce((total, count) => total + count, 0),
      'changes while the machine stood still': administrators.inconclusive,
      'slowest change in ms': Math.round(administrators.slowestMs),
      'all shipped after ms': shippedMs,
      refused: sum(told.refused) + unanswered + administrators.refused.length,
      lost: sentences.filter((each) => !isDouble(each)).length,
      doubled: sentences.filter(isDouble).length,
      late: administrators.late.length,
    },
    refused,
    lost: sentences.filter((each) => !isDouble(each)),
    doubled: sentences.filter(isDouble),
    late: administrators.late,
    wrong,
  };
}

const perThousand = (part: number, whole: number): number => Math.round((1_000 * part) / Math.max(whole, 1));

/** Sums that this version keeps, and the one before does not know. */
const sumsKept = {
  'the bytes of an account are the sum of those of its gates and keys': `
    SELECT feed_id FROM feeds LEFT JOIN (SELECT feed_id, sum(bytes) AS bytes FROM feed_items GROUP BY feed_id) i
      USING (feed_id) WHERE items_bytes <> coalesce(bytes, 0)`,
  'each gate and each key is counted': `
    SELECT gate_id FROM gates WHERE deleted_at_ms IS NULL AND gate_id NOT IN (SELECT item_id FROM feed_items)
    UNION ALL
    SELECT key_id FROM api_keys WHERE revoked_at_ms IS NULL AND key_id NOT IN (SELECT item_id FROM feed_items)`,
  'nothing is counted that was deleted': `
    SELECT item_id FROM feed_items WHERE item_id NOT IN (
      SELECT gate_id FROM gates WHERE deleted_at_ms IS NULL
      UNION ALL SELECT key_id FROM api_keys WHERE revoked_at_ms IS NULL)`,
};

/**
 * Not kept beside 0.2.0, which subtracts what was posted without counting it as used: a void counts it as
 * given back before, so that less may be given back later, and never more.
 */
const { 'no lease has given back more than it had': _ofOneVersion, ...rulesOfBoth } = rules;

/** Lines in which a program says that records were refused or lost, or that something of its own is wrong. */
const ownFault =
  /AssertionError|a request failed"|internal error|could not be put into effect|uncaught|records of a sidecar were refused|a sidecar lost records|a settlement of a sidecar was refused|cannot be read/i;

const faults = (fleet: Fleet): string[] => {
  const counts = new Map<string, { count: number; first: string }>();
  for (const { name, version, text } of fleet.output()) {
    for (const line of text.split('\n')) {
      const [match] = ownFault.exec(line) ?? [];
      if (match === undefined) continue;
      const what = `${version} ${name}: ${match}`;
      counts.set(what, { count: (counts.get(what)?.count ?? 0) + 1, first: counts.get(what)?.first ?? line });
    }
  }
  return Array.from(counts, ([what, { count, first }]) => `${count} lines, ${what}: ${first.slice(0, 600)}`);
};
