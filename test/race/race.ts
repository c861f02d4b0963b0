import { mkdirSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { connect } from '../../control-plane/storage/connect.ts';
import { must } from '../../shared/errors/assert.ts';
import { type Chance, chance } from '../support/base/chance.ts';
import { until } from '../support/base/until.ts';
import type { TestRedis } from '../support/peers/redis.ts';
import type { Programs } from '../support/programs/programs.ts';
import { saveExport } from '../support/programs/save-export.ts';
import { brokenSentences } from '../support/service/sound-database.ts';
import { allShipped } from './all-shipped.ts';
import { Answers } from './answers.ts';
import { byLimit, type Cap, type Given, type Overrun, overruns } from './caps.ts';
import { type ClientsOptions, startClients } from './clients.ts';
import { type Course, heldCourse, type Maker, makeCourse, makeCrowd, type Runner } from './course.ts';
import { schedule } from './faults.ts';
import { type FrozenSpan, permitsWhileFrozen, startFreezing, tellingSpans } from './freezing.ts';
import { chainFaults, lostOutcomes, momentsOverCap, moneyOf, overdueHolds } from './held-money.ts';
import { injectFaults } from './inject-faults.ts';
import { type LyingHolder, startLyingHolder } from './lying-holder.ts';
import { startNaiveGates } from './naive.ts';
import { doneBy } from './noisy-link.ts';
import { asSettled, misfits, type Records, readRecords } from './records.ts';
import { capTable, overrunLine, strandedLine, type UsedWindow, usedWindows } from './report.ts';
import type { Servers } from './servers.ts';
import { makeTree, walletCourse } from './wallet-course.ts';
import { allSidecars, startEcho, startWorld, type World } from './world.ts';

export interface RaceOptions {
  readonly programs: Programs;
  /** To be lost and restarted: nobody else may use it. */
  readonly redis: TestRedis;
  /** The same seed makes the same requests and faults; what happens first among them is up to the machine. */
  readonly seed: number;
  readonly clients: number;
  /** Requests and dollars under each cap. */
  readonly size: number;
  /** In wallets, in each round; of the round with faults, over all of its courses. */
  readonly passports: number;
  /** How long things break, at least. */
  readonly faultSeconds: number;
  /**
   * Where fewer windows were used up by then, or fewer requests permitted, clients go on until it is so many,
   * which on a slow machine takes longer, or until a bound is met. So they do where holders lie, for `lies`.
   */
  readonly enough: { readonly contested: number; readonly permits: number; readonly lies: number };
  readonly say: (line: string) => void;
  /** Where the export of all rounds and the keys go, to be replayed. Default: nowhere. */
  readonly exportTo?: string;
}

export interface RaceReport {
  /** Sentences, with their numbers. Empty: every cap held, and was used. */
  readonly violations: readonly string[];
  /**
   * By how much a check-then-add gate passed the same caps under the same clients, held against them in the
   * same way.
   */
  readonly naive: readonly Overrun[];
  /** The same of gates that check and add at once, but give money back each time they are told an outcome. */
  readonly settledTwice: readonly Overrun[];
  /** What became of held money, and how often: `settled`, `released`, `expired`, `refunded`, `extended`. */
  readonly ends: ReadonlyMap<string, number>;
  /** PERMITs in the round without and with faults, and keys that were asked more than once. */
  readonly permits: { readonly calm: number; readonly faults: number };
  /** Windows that were used up, but for the odd unit, while everything broke. */
  readonly contested: number;
  readonly replayedKeys: number;
  /** What lying holders said while nothing broke. */
  readonly lies: number;
  /**
   * How often a wallet was frozen for so long that a PERMIT would show that it was not, and how many requests
   * were refused for it while nothing broke.
   */
  readonly frozen: { readonly spans: number; readonly blocks: number };
}

/** Of each cap, in the round in which there is demand and nothing breaks. */
const usedMin = 0.98;
/** So long clients go on after the last cap is used up, and try to pass it. */
const insistMs = 1_000;
/**
 * Some minutes of the calendar: on a busy machine the first one or two may pass before there is enough
 * demand.
 */
const calmMsMax = 400_000;
/** Beyond `faultSeconds`. */
const moreMsMax = 240_000;
const lookMs = 500;
const liarCount = 2;
/** One is nearly always enough; which of two gates reads first is up to the machine. */
const naiveCourses = 24;
const courseMs = 5_000;
/** In each tree of a naive round. */
const naivePassports = 18;
/** Of one rule over all that a race has recorded, while nothing else runs. */
const ruleMsMax = 600_000;
/** Much is lost while things break; yet the caps have to be reached, or nothing is shown. */
const faultPart = 5;

/**
 * Five rounds: without faults, where each cap has to be met exactly and used up; with holders that lie about
 * their leases, and then with everything breaking besides, where each has to hold; and two with naive
 * gates, which must not hold, or nothing was shown by the others.
 */
export async function race(options: RaceOptions): Promise<RaceReport> {
  const { programs, redis, seed, say } = options;
  const source = chance(seed);
  say(
    `Seed ${seed}: ${options.clients} clients, caps of ${options.size} requests and dollars, ${options.passports} passports in wallets.`,
  );
  const world = await startWorld(programs, redis, source.branch('links'));
  try {
    say(`${world.sidecars.length} sidecars and ${world.controlPlanes.length} control planes are ready.`);
    const calm = await calmRound(options, world, source.branch('calm'));
    const lying = await lyingRound(options, world, source.branch('lying'));
    const faults = await faultRound(options, world, source.branch('faults'));
    say('\nRound 4: gates that check a shared counter and then add to it. These must fail.');
    const naive = await naiveRound(options, source.branch('naive'), {
      isAtomic: false,
      course: (make, crowd, size) => makeCourse(make, crowd, size, naivePassports),
    });
    say('\nRound 5: gates that check and add at once, and settle each time they are told. These must fail.');
    const settledTwice = await naiveRound(options, source.branch('settled twice'), {
      isAtomic: true,
      course: heldInWallets,
    });
    const end = await endOfHolds(world, [calm, lying, faults]);
    if (options.exportTo !== undefined) await saveRace(world, options.exportTo, say);
    const violations = [
      ...calm.violations,
      ...lying.violations,
      ...faults.violations,
      ...end.violations,
      ...(await brokenRules(world)),
      ...world.faultsOfOurs(),
    ];
    return {
      violations,
      naive,
      settledTwice,
      ends: end.ends,
      contested: faults.contested,
      permits: { calm: calm.records.permits.size, faults: faults.records.permits.size },
      replayedKeys: calm.replayedKeys + faults.replayedKeys,
      lies: lying.lies,
      frozen: { spans: calm.frozen.spans + faults.frozen.spans, blocks: calm.frozen.blocks },
    };
  } finally {
    await world.close();
  }
}

async function saveRace(
  { installation, controlPlanes }: World,
  folder: string,
  say: RaceOptions['say'],
): Promise<void> {
  const { origin } = must(controlPlanes[0], 'there is a control plane');
  mkdirSync(folder, { recursive: true });
  const { file, jwks } = await saveExport({ adminKey: installation.adminKey, origin }, folder);
  say(`\nExported: agent-trust attestations replay ${file} --jwks ${jwks}`);
}

interface Round {
  readonly courses: readonly Course[];
  readonly answers: Answers;
  readonly records: Records;
  readonly violations: readonly string[];
  readonly replayedKeys: number;
  readonly contested: number;
  readonly frozen: RaceReport['frozen'];
}

async function calmRound(
  { clients, size, passports, say }: RaceOptions,
  world: World,
  source: Chance,
): Promise<Round> {
  say('\nRound 1: nothing breaks.');
  const course = await makeCourse(makerOf(world), await makeCrowd(makerOf(world)), size, passports);
  const answers = new Answers();
  let open: Course = { ...course, lanes: course.lanes.filter(({ isLate }) => isLate !== true) };
  const racing = { count: clients, servers: serversOf(world), course: () => open, answers, chance: source };
  const freezing = startFreezing({ ...racing, chance: source.branch('freezing') });
  let spans: readonly FrozenSpan[] = [];
  const unused = await whileRacing(racing, async () => {
    const startedAtMs = performance.now();
    const untilUsed = async (caps: readonly Cap[]): Promise<readonly Cap[]> => {
      let left = caps;
      while (left.length > 0 && performance.now() - startedAtMs < calmMsMax) {
        await pause(lookMs);
        // Money that goes back later takes nothing away from what was shown.
        const used = await usedUp(world, course, answers);
        left = left.filter((cap) => !used.has(cap));
      }
      const seconds = ((performance.now() - startedAtMs) / 1_000).toFixed(1);
      say(
        `After ${seconds} s ${left.length === 0 ? `${caps.length} caps are used up` : `${left.length} caps are not used up`}.`,
      );
      return left;
    };
    const early = await untilUsed(course.caps.filter(({ wallet }) => wallet?.isLate !== true));
    spans = await freezing.stop();
    // Nobody else has used what is set aside for those who come last.
    open = course;
    const late = await untilUsed(course.caps.filter(({ wallet }) => wallet?.isLate === true));
    await pause(insistMs);
    return [...early, ...late];
  });
  const round = await judge(world, [course], answers, { say, spans });
  const violations = unused.map(
    ({ name, window }) => `not used up with demand and without faults: ${name}, ${window}`,
  );
  for (const violation of violations) say(`VIOLATION ${violation}`);
  return { ...round, violations: [...round.violations, ...violations] };
}

/** Those of which a window is used up, or one of a wallet above that holds their requests back. */
async function usedUp(world: World, course: Course, answers: Answers): Promise<ReadonlySet<Cap>> {
  const windows = usedWindows(course.caps, await readRecords(world.sql, gatesOf([course])), answers);
  const used = new Set(
    windows.filter(({ cap, recorded }) => recorded >= usedMin * cap.limit).map(({ cap }) => cap),
  );
  return new Set(
    course.caps.filter((cap) => used.has(cap) || [...used].some((other) => isAbove(other, cap))),
  );
}

/**
 * All that draw on the one draw on the other, too, so that it cannot be used up behind the other. What is
 * reserved can.
 */
const isAbove = (other: Cap, cap: Cap): boolean =>
  cap.wallet !== undefined &&
  !cap.wallet.isReserved &&
  other.wallet !== undefined &&
  [...cap.wallet.passportIds].every((id) => other.wallet?.passportIds.has(id));

async function whileRacing<T>(options: ClientsOptions, work: () => Promise<T>): Promise<T> {
  const run = startClients(options);
  try {
    return await work();
  } finally {
    await run.stop();
  }
}

/**
 * One course after the other, from now on; the last one stays. Some clients go back: units that were on their
 * way may be free again there.
 */
function nextCourses(courses: readonly Course[], source: Chance): () => Course {
  const startedAtMs = performance.now();
  return () => {
    const current = Math.min(Math.floor((performance.now() - startedAtMs) / courseMs), courses.length - 1);
    const place = source.happens(0.15) ? source.below(current + 1) : current;
    return must(courses[place], 'there is a course');
  };
}

const gatesOf = (courses: readonly Course[]): string[] =>
  courses.flatMap(({ lanes }) => lanes.map(({ gateId }) => gateId));

/** Those that block without current knowledge of wallets (`walletCourse`). */
const strictGatesOf = (courses: readonly Course[]): string[] =>
  gatesOf(
    courses.map(({ lanes, caps }) => ({ caps, lanes: lanes.filter(({ servers }) => servers === undefined) })),
  );

/**
 * Nothing breaks, and foreign sidecars lie about their leases of passports: caps hold for honest gates, and
 * for those of the liars as far as they are on record.
 */
async function lyingRound(
  { clients, size, passports, enough, say }: RaceOptions,
  world: World,
  source: Chance,
): Promise<Round & { readonly lies: number }> {
  say('\nRound 2: nothing breaks, and holders lie about their leases.');
  const course = await makeCourse(makerOf(world), await makeCrowd(makerOf(world)), size, passports);
  const answers = new Answers();
  const racing = { count: clients, servers: serversOf(world), course: () => course, answers, chance: source };
  const liars = await startLiars(world, () => course, source);
  // They have leases before others use the caps up.
  await until(() => liesOf(liars) >= liarCount, { what: 'the first lies' });
  await whileRacing(racing, async () => {
    const endsAtMs = performance.now() + calmMsMax;
    while (performance.now() < endsAtMs && liesOf(liars) < enough.lies) await pause(lookMs);
    await pause(insistMs);
  });
  await Promise.all(liars.map((liar) => liar.stop()));
  say(liesLine(liars));
  const round = await judge(world, [course], answers, { say, otherGates: gatesOfLiars(liars) });
  return { ...round, lies: liesOf(liars) };
}

const startLiars = (world: World, course: () => Course, source: Chance): Promise<LyingHolder[]> =>
  Promise.all(
    Array.from({ length: liarCount }, (_, number) =>
      startLyingHolder({
        installation: world.installation,
        controlPlanes: world.controlPlanes.map(({ origin }) => origin),
        course,
        chance: source.branch(`liar ${number}`),
      }),
    ),
  );

const gatesOfLiars = (liars: readonly LyingHolder[]): string[] => liars.map(({ gateId }) => gateId);
const liesOf = (liars: readonly LyingHolder[]): number =>
  liars.flatMap(({ told }) => [...told.values()]).reduce((sum, count) => sum + count, 0);
const liesLine = (liars: readonly LyingHolder[]): string =>
  `Lying holders: ${liars.flatMap(({ told }) => Array.from(told, ([what, count]) => `${what} ${count}`)).join('; ')}.`;

async function faultRound(options: RaceOptions, world: World, source: Chance): Promise<Round> {
  const { clients, size, passports, faultSeconds, say } = options;
  const durationMs = faultSeconds * 1_000;
  say(`\nRound 3: everything breaks, for ${faultSeconds} s.`);
  const courses: Course[] = [];
  const crowd = await makeCrowd(makerOf(world));
  // Caps that are used up have nothing more to lose: new ones come every few seconds.
  const count = Math.ceil(durationMs / courseMs);
  while (courses.length < count) {
    const inWallets = Math.ceil(passports / count);
    courses.push(await makeCourse(makerOf(world), crowd, Math.ceil(size / faultPart), inWallets));
  }
  const faults = schedule(source.branch('schedule'), durationMs);
  const echo = startEcho(world.redis.url, source.branch('echo'));
  for (const link of world.links) link.isNoisy = true;
  const answers = new Answers();
  const course = nextCourses(courses, source.branch('course'));
  const racing = { count: clients, servers: serversOf(world), course, answers, chance: source };
  const liars = await startLiars(world, course, source);
  const freezing = startFreezing({ ...racing, chance: source.branch('freezing') });
  let spans: readonly FrozenSpan[] = [];
  // Clients go on until everything is up again.
  await whileRacing(racing, async () => {
    await Promise.all([pause(durationMs), injectFaults(world, faults, say)]);
    const endsAtMs = performance.now() + moreMsMax;
    while (performance.now() < endsAtMs && !(await isEnough(options, world, courses, answers)))
      await pause(lookMs);
    spans = await freezing.stop();
  });
  await Promise.all(liars.map((liar) => liar.stop()));
  await echo.stop();
  for (const link of world.links) link.isNoisy = false;
  const noise = Object.entries(doneBy(world.links)).map(([kind, count]) => `${kind} ${count}`);
  say(`Between sidecars and control planes: ${noise.join(', ')}. Over Redis: twice ${echo.echoed}.`);
  say(liesLine(liars));
  return judge(world, courses, answers, { say, spans, otherGates: gatesOfLiars(liars) });
}

async function isEnough(
  { enough }: RaceOptions,
  world: World,
  courses: readonly Course[],
  answers: Answers,
): Promise<boolean> {
  // A connection that died with the server may be noticed only now.
  const records = await readRecords(world.sql, gatesOf(courses)).catch(() => null);
  if (records === null) return false;
  const windows = usedWindows(
    courses.flatMap(({ caps }) => caps),
    records,
    answers,
  );
  return contestedOf(windows) >= enough.contested && records.permits.size >= enough.permits;
}

const contestedOf = (windows: readonly UsedWindow[]): number =>
  windows.filter(({ cap, leased }) => leased >= usedMin * cap.limit).length;

type MakeCourse = (make: Maker, crowd: readonly Runner[], size: number) => Promise<Course>;

/** Money that is held, at gates with limits of their own, and at others by passports in wallets. */
const heldInWallets: MakeCourse = async (make, crowd, size) => {
  const tree = await makeTree(make, size);
  const held = await heldCourse(make, crowd, size);
  const wallets = await walletCourse(make, tree, naivePassports);
  return {
    lanes: [...held.lanes, ...wallets.lanes.filter(({ holds }) => holds !== undefined)],
    caps: [...held.caps, ...wallets.caps],
  };
};

/** Whether a wallet was passed, and something else. */
export const isAllPassed = (passed: readonly Overrun[]): boolean =>
  [true, false].every((isOfWallet) => passed.some(({ cap }) => (cap.wallet !== undefined) === isOfWallet));

/** The caps that their own answers pass, each PERMIT with the least that it may count. */
async function naiveRound(
  { redis, clients, size, say }: RaceOptions,
  source: Chance,
  { isAtomic, course: makeOne }: { readonly isAtomic: boolean; readonly course: MakeCourse },
): Promise<Overrun[]> {
  let made = 0;
  const maker: Maker = {
    createGate: async () => `gate_naive_${isAtomic}_${made++}`,
    issuePassport: async () => {
      const id = `pass_naive_${isAtomic}_${made++}`;
      return { id, token: id };
    },
    createWallet: async () => `wal_naive_${isAtomic}_${made++}`,
  };
  const crowd = await makeCrowd(maker);
  const courses = await Promise.all(Array.from({ length: naiveCourses }, () => makeOne(maker, crowd, size)));
  const caps = courses.flatMap((course) => course.caps);
  const answers = new Answers();
  const gates = await startNaiveGates(4, { redisUrl: redis.url, caps, isAtomic });
  const passedCaps = () => overruns(caps, leastCounted(answers), byLimit);
  try {
    const servers = { sidecars: gates.origins, controlPlanes: [], key: 'none' };
    const course = nextCourses(courses, source.branch('course'));
    await whileRacing({ count: clients, servers, course, answers, chance: source }, async () => {
      const endsAtMs = performance.now() + naiveCourses * courseMs + moreMsMax;
      while (!isAllPassed(passedCaps()) && performance.now() < endsAtMs) await pause(lookMs);
      await pause(insistMs);
    });
  } finally {
    await gates.stop();
  }
  const passed = passedCaps();
  say(answersLine(answers));
  for (const overrun of passed) say(`  ${overrunLine(overrun)}`);
  return passed;
}

const answersLine = ({ counts }: Answers): string =>
  `Answers: ${Array.from(counts, ([what, count]) => `${what} ${count}`)
    .sort()
    .join(', ')}.`;

const makerOf = ({ installation, controlPlanes, foreign }: World): Maker => ({
  createGate: (body) => installation.createGate(body),
  issuePassport: (body) => installation.issuePassport(body),
  approveAhead: (body) => installation.approveAhead(body),
  createWallet: (body) => installation.createWallet(body),
  foreign: {
    servers: {
      sidecars: [foreign.sidecar.origin],
      controlPlanes: controlPlanes.map(({ origin }) => origin),
      key: foreign.key,
    },
    createGate: (body) => installation.createGate(body, foreign.key),
  },
});

const serversOf = ({ sidecars, controlPlanes, installation }: World): Servers => ({
  sidecars: sidecars.map(({ origin }) => origin),
  controlPlanes: controlPlanes.map(({ origin }) => origin),
  key: installation.adminKey,
});

/** What clients were told and what is on record, each for itself and against the other. */
async function judge(
  world: World,
  courses: readonly Course[],
  answers: Answers,
  {
    say,
    spans = [],
    otherGates = [],
  }: {
    readonly say: RaceOptions['say'];
    readonly spans?: readonly FrozenSpan[];
    /** Of others, whose PERMITs count for the caps of passports and wallets. */
    readonly otherGates?: readonly string[];
  },
): Promise<Round> {
  const caps = courses.flatMap((course) => course.caps);
  const shippedMs = await allShipped({ sql: world.sql, sidecars: allSidecars(world) }, answers);
  const records = await readRecords(world.sql, [...gatesOf(courses), ...otherGates], otherGates);
  const told = [...answers.permits.values()];
  const replayed = answers.keys.filter(({ count }) => count > 1);
  const permitted = replayed.filter(({ attestationId }) => attestationId !== null);
  const windows = usedWindows(caps, records, answers);
  const contested = contestedOf(windows);
  for (const line of capTable(windows)) say(line);
  say(`Windows that ran dry: ${contested} of ${windows.length}.`);
  say(strandedLine(windows));
  say(answersLine(answers));
  say(
    `Records: ${records.permits.size} PERMITs, of which clients were told ${told.length}; ${records.voided.size} voided; all shipped ${shippedMs} ms later.`,
  );
  say(heldLine(records));
  const telling = tellingSpans(spans).length;
  say(`Wallets were frozen ${spans.length} times, ${telling} of them so long that a PERMIT would tell.`);
  const mismatches = [...misfits(records, answers), ...answers.wrong];
  const verdict = mismatches.length === 0 ? ', each with one record and one answer for everybody' : '';
  say(`Keys asked more than once: ${replayed.length}, permitted ${permitted.length}${verdict}.`);
  const violations = [
    ...overruns(caps, asSettled(told, records), byLimit).map(
      (overrun) => `answered: ${overrunLine(overrun)}`,
    ),
    ...momentsOverCap(caps, records, answers.permits).map(
      (overrun) => `at one moment: ${overrunLine(overrun)}`,
    ),
    ...chainFaults(records),
    ...lostOutcomes(records.held, records, answers),
    ...overruns(caps, records.given, byLimit).map((overrun) => `on record: ${overrunLine(overrun)}`),
    ...overruns(caps, records.given, records.leasedIn).map(
      (overrun) => `not leased: ${overrunLine(overrun)}`,
    ),
    ...mismatches,
    ...permitsWhileFrozen(spans, records, strictGatesOf(courses)),
  ];
  for (const violation of violations) say(`VIOLATION ${violation}`);
  const frozen = { spans: telling, blocks: answers.counts.get('BLOCK wallet_frozen') ?? 0 };
  return { courses, answers, records, violations, replayedKeys: replayed.length, contested, frozen };
}

/** What became of the PERMITs that held money. */
function endsIn({ permits }: Records): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  const held = [...permits.values()].filter(({ isHeld }) => isHeld);
  for (const { resolution } of held.flatMap(({ changes }) => changes))
    counts.set(resolution, (counts.get(resolution) ?? 0) + 1);
  return counts;
}

function heldLine(records: Records): string {
  const open = [...records.held.values()].filter(({ status }) => status === 'open').length;
  const ends = Array.from(endsIn(records), ([what, count]) => `${what} ${count}`);
  return `Held money: ${[...ends, `open ${open}`].join(', ')}.`;
}

/** Of a hold (contract §19), with time for the sweep of a busy machine. */
const shortestHoldMs = 60_000;
const sweptMsMax = 60_000;

/** Holds of the rounds that are over have ended by themselves, some of them while everything broke. */
async function endOfHolds(world: World, rounds: readonly Round[]) {
  const courses = rounds.flatMap((round) => round.courses);
  const gates = gatesOf(courses);
  let records = await readRecords(world.sql, gates);
  // A fast machine is here before the first hold is over.
  await until(
    async () => {
      // A connection that died with the server may be noticed only now.
      if (!endsIn(records).has('expired')) records = await readRecords(world.sql, gates).catch(() => records);
      return endsIn(records).has('expired');
    },
    {
      what: 'the first hold that ends by itself',
      timeoutMs: shortestHoldMs + sweptMsMax,
      pauseMsMax: lookMs,
    },
  );
  const caps = courses.flatMap((course) => course.caps);
  const told = new Map(rounds.flatMap(({ answers }) => [...answers.permits]));
  const violations = [
    ...momentsOverCap(caps, records, told).map((overrun) => `at one moment: ${overrunLine(overrun)}`),
    ...chainFaults(records),
    ...(await overdueHolds(world)),
  ];
  return { ends: endsIn(records), violations };
}

/** What clients know of each PERMIT, with the least that it counts by what they have said of it. */
const leastCounted = ({ permits, outcomes }: Answers): readonly Given[] =>
  [...permits.values()].map((each) => {
    const said = [...(outcomes.get(each.attestationId)?.sent ?? [])].map((text) =>
      moneyOf(text, each.moneyMicroUsd),
    );
    return { ...each, moneyMicroUsd: Math.min(each.moneyMicroUsd, ...said) };
  });

/** What must hold of the whole database, whatever has happened. */
async function brokenRules({ database }: World): Promise<string[]> {
  // A rule looks at all rows. For statements about a few, a busy machine is silent for too long meanwhile.
  const sql = connect({
    ...{ url: database.url, connectionsMax: 1, silenceMsMax: ruleMsMax, looksThroughTables: true },
  });
  try {
    return await sql.begin(async (tx) => {
      await tx`SELECT set_config('statement_timeout', ${String(ruleMsMax)}, true)`;
      return brokenSentences(tx);
    });
  } finally {
    await sql.end({ timeout: 1 });
  }
}
