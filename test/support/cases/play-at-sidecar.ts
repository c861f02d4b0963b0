import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { attestationsLimits } from '../../../control-plane/attestations/limits.ts';
import { must } from '../../../shared/errors/assert.ts';
import { until } from '../base/until.ts';
import { replayText } from '../data/replay.ts';
import { type Api, type Reply, startOwnApi } from '../service/api.ts';
import { goToNoon } from '../service/approvals.ts';
import { exportText } from '../service/exports.ts';
import type { TestSidecar, TestSidecarOptions } from '../service/sidecar.ts';
import type { DecisionCase } from './decision-case.ts';
import { fewCases } from './few-cases.ts';
import { forgeToken } from './forge-token.ts';
import { httpStage, untilDecided } from './http-stage.ts';
import { bringAbout, caseRoomOf, setUpCases, type World } from './http-world.ts';
import { expectAnswer } from './load-cases.ts';
import { withProof } from './make-proof.ts';
import { playEarlier } from './play-case.ts';
import { decisionCases } from './read-cases.ts';
import { ruleAgainst, type WayIn } from './ways-in.ts';

/** A sidecar, whose clocks stand and jump as a case wants, and the ways into it. */
interface Host {
  readonly ways: readonly WayIn[];
  /** Whether each way plays all cases that it can express, or a few that show all that they show. */
  readonly plays: 'all' | 'few';
  start(options: TestSidecarOptions): Promise<TestSidecar>;
}

/**
 * Plays cases through the ways in, all of them beside each other: what came before, then what happens, then
 * the requests that are judged. Each has a passport of its own, so that no way knows a token by another.
 */
export function describeCases(hosts: readonly Host[]): void {
  const ways = hosts.flatMap(({ ways, plays }) =>
    ways.map((wayIn) => {
      const able = decisionCases.filter((each) => ruleAgainst(each, wayIn) === null);
      return { name: wayIn.name, wayIn, cases: plays === 'all' ? able : fewCases(able) };
    }),
  );
  let stage: Awaited<ReturnType<typeof startStage>>;
  beforeAll(async () => {
    stage = await startStage(hosts);
    await stage.play(ways);
  });
  afterAll(() => stage?.close());

  describe.each(ways)('a sidecar, asked by $name,', ({ name: way, wayIn, cases }) => {
    it('plays all cases but those of its rules, or a few of them', () => {
      const left = decisionCases.map((each) => ruleAgainst(each, wayIn)).filter((rule) => rule !== null);
      const counts = Object.fromEntries(
        left.map((rule) => [rule, left.filter((each) => each === rule).length]),
      );
      expect(counts).toEqual(wayIn.cannot);
    });

    it.each(cases)('$name', ({ name, want }) => {
      const reply = stage.replyTo(way, name);
      expect(reply.status, JSON.stringify(reply.body)).toBe(200);
      expectAnswer(reply.body, want);
    });

    it('has every record that was promised in a chain in the end', () => stage.expectRecords(way));
  });

  it('has voided no record but those of a time which the control plane does not believe', () =>
    stage.expectVoided());
  it('leaves records that give the same decisions again', () => stage.expectReplay());
}

/** A way into a running sidecar. */
interface Entry {
  readonly wayIn: WayIn;
  readonly host: RunningHost;
  /** Ids of the records that were promised by an answer. */
  readonly promised: Set<string>;
  /** Those among them that were decided at a time which the control plane does not believe (contract §9). */
  readonly unbelieved: Set<string>;
  /** By the name of the case. */
  readonly replies: Map<string, PromiseSettledResult<Reply>>;
}

interface RunningHost {
  readonly sidecar: TestSidecar;
  /** Whether it has noticed that the control plane is back. */
  readonly isBack: () => Promise<boolean>;
}

async function startStage(hosts: readonly Host[]) {
  const api = await startOwnApi();
  goToNoon(api);
  const room = await caseRoomOf(api);
  const entries = new Map<string, Entry>();
  const running: RunningHost[] = [];
  for (const { ways, start } of hosts) {
    // What is answered is asked here, not how soon: a busy machine is no reason for another answer.
    const sidecar = await start({ api, quotaWaitMs: 1_000 });
    const host = { sidecar, isBack: await controlPlaneProbe(api, sidecar) };
    running.push(host);
    for (const wayIn of ways) {
      const own = { promised: new Set<string>(), unbelieved: new Set<string>(), replies: new Map() };
      entries.set(wayIn.name, { wayIn, host, ...own });
    }
  }
  const entryOf = (name: string) => must(entries.get(name), 'it is a way in');
  const caughtUp = async () => void (await Promise.all(running.map(({ sidecar }) => sidecar.caughtUp())));

  const checkOf =
    ({ wayIn, host, promised }: Entry, key: string) =>
    async (gateId: string | null, token: string, request: Readonly<Record<string, unknown>>) => {
      const asked = withProof(request, token, api.deps.clock.now());
      const reply = await wayIn.ask(host.sidecar, { gateId, token, request: asked, key });
      if (typeof reply.body.attestation_id === 'string') promised.add(reply.body.attestation_id);
      return reply;
    };

  /** A case at a way in. */
  interface Play extends World {
    readonly decisionCase: DecisionCase;
    readonly entry: Entry;
    readonly check: ReturnType<typeof checkOf>;
    /** The request as it has to be sent, once what came before is played. */
    request: Promise<Readonly<Record<string, unknown>>>;
  }

  async function setUp(
    ways: readonly { readonly name: string; readonly cases: readonly DecisionCase[] }[],
  ): Promise<readonly Play[]> {
    const plays: Play[] = [];
    await besideEachOther(decisionCases, async (decisionCase) => {
      const able = ways.filter(({ cases }) => cases.includes(decisionCase));
      const worlds = await setUpCases(api, room, decisionCase, able.length);
      for (const [place, { name }] of able.entries()) {
        const entry = entryOf(name);
        const world = must(worlds[place], 'each way has its own');
        const check = checkOf(entry, world.props.key);
        plays.push({ ...world, decisionCase, entry, check, request: Promise.resolve({}) });
      }
    });
    return plays;
  }

  async function play(ways: Parameters<typeof setUp>[0]): Promise<void> {
    const plays = await setUp(ways);
    await caughtUp();
    await besideEachOther(plays, async (each) => {
      const { props, check, entry, decisionCase } = each;
      const stage = httpStage(api, props, { check, caughtUp: () => entry.host.sidecar.caughtUp() });
      each.request = playEarlier(stage, decisionCase);
      // What went wrong before is told by the test of the way where it did.
      await Promise.allSettled([each.request]);
    });
    await besideEachOther(plays, ({ decisionCase, about }) => bringAbout(api, decisionCase, about));
    await caughtUp();
    for (const host of running) {
      const here = plays.filter(({ entry }) => entry.host === host);
      await askAll(host, here);
    }
  }

  /** Asks what is to be judged: with all well, with old state, and cut off, each in one go. */
  async function askAll({ sidecar, isBack }: RunningHost, plays: readonly Play[]): Promise<void> {
    const aged = plays.filter(isAged).toSorted((one, other) => ageOf(one) - ageOf(other));
    const away = plays.filter((each) => isAway(each) && !isAged(each));
    const timed = plays.filter((each) => isTimed(each) && !isAged(each) && !isAway(each));
    const others = plays.filter((each) => ![aged, away, timed].some((group) => group.includes(each)));
    await besideEachOther(others, judge);
    for (const each of timed) {
      await judge(each);
      sidecar.resume();
    }
    const again = async () => {
      sidecar.resume();
      await until(isBack, { what: 'an answer of the control plane' });
      await sidecar.caughtUp();
    };
    // Without its control plane a state only grows older.
    for (const each of aged) {
      await sidecar.ageStateTo(ageOf(each));
      await judge(each);
    }
    await again();
    sidecar.link.cut();
    await besideEachOther(away, judge);
    await again();
  }

  async function judge(play: Play): Promise<void> {
    const [reply] = await Promise.allSettled([ask(play)]);
    play.entry.replies.set(play.decisionCase.name, reply);
  }

  async function ask({ decisionCase, entry, props, check, request }: Play): Promise<Reply> {
    const { forgery, sinceIssueMs } = decisionCase;
    const { host, unbelieved } = entry;
    const token = props.tokens['the passport'];
    const payload = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString());
    if (sinceIssueMs !== null) host.sidecar.stopClockAt(payload.iat * 1_000 + sinceIssueMs);
    const presented = forgery === null ? token : forgeToken(forgery, token, room.publicKey);
    const asked = await request;
    const reply = await untilDecided(() => check(props.gateIds['the gate'], presented, asked));
    const decidedAtMs = payload.iat * 1_000 + (sinceIssueMs ?? 0);
    const isBelieved = decidedAtMs <= api.deps.clock.now() + attestationsLimits.recordAheadMsMax;
    if (!isBelieved) unbelieved.add(reply.body.attestation_id);
    return reply;
  }

  function replyTo(way: string, name: string): Reply {
    const reply = must(entryOf(way).replies.get(name), 'it plays the case');
    if (reply.status === 'rejected') throw reply.reason;
    return reply.value;
  }

  const spooled = async (sidecar: TestSidecar) =>
    (await sidecar.call({ path: '/readyz', key: null })).body.spool;

  async function expectRecords(way: string): Promise<void> {
    const { host, promised, unbelieved, replies } = entryOf(way);
    await until(
      async () => {
        const [now] = await api.deps.sql<{ records: number }[]>`
          SELECT count(*) AS records FROM attestations WHERE attestation_id = ANY(${[...promised]}::text[])`;
        return now?.records === promised.size - unbelieved.size;
      },
      { what: `${promised.size} attestations, spool: ${JSON.stringify(await spooled(host.sidecar))}` },
    );
    expect(promised.size).toBeGreaterThan(replies.size / 2);
    expect(unbelieved.size).toBeGreaterThan(0);
  }

  async function expectReplay(): Promise<void> {
    const report = replayText(await exportText(api));
    expect(report.contradictions).toEqual([]);
    expect(report.over_limits).toEqual([]);
    const { agrees, unjudged } = report.decisions.PERMIT;
    // Conditions read what no record says.
    expect(agrees).toBeGreaterThan(7 * unjudged);
  }

  async function expectVoided(): Promise<void> {
    for (const host of running) {
      const ways = [...entries.values()].filter((entry) => entry.host === host);
      const refused = ways.reduce((sum, { unbelieved }) => sum + unbelieved.size, 0);
      expect((await spooled(host.sidecar)).voided_records).toEqual({ refused, damaged: 0, missing: 0 });
    }
  }

  const close = async () => {
    for (const { sidecar } of running) {
      await sidecar.close();
      sidecar.removeFolder();
    }
    await api.close();
  };
  return { play, replyTo, expectRecords, expectVoided, expectReplay, close };
}

type Asked = { readonly decisionCase: DecisionCase };
const ageOf = ({ decisionCase }: Asked): number => decisionCase.stateAgeMs;
const isAged = (play: Asked): boolean => ageOf(play) > 0;
const isAway = ({ decisionCase }: Asked): boolean =>
  decisionCase.circumstances.includes('control plane away');
/** Whether it is asked at a certain time. */
const isTimed = ({ decisionCase }: Asked): boolean => decisionCase.sinceIssueMs !== null;

/** Some at a time, so that none waits longer than a request may. */
async function besideEachOther<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const left = items.values();
  const worker = async (): Promise<void> => {
    for (const item of left) await work(item);
  };
  await Promise.all(Array.from({ length: 8 }, worker));
}

/**
 * What comes by push does not tell a sidecar that the control plane is back: this asks for something that
 * only the control plane knows, at a gate of its own.
 */
async function controlPlaneProbe(api: Api, sidecar: TestSidecar): Promise<() => Promise<boolean>> {
  const { gate_id: gateId } = await api.createGate();
  const { jwt } = await api.issuePassport();
  await sidecar.caughtUp();
  let keys = 0;
  return async () => {
    const request = { permission_key: 'orders:create', idempotency_key: String(keys++) };
    return (await sidecar.check(gateId, jwt, request)).body.decision === 'PERMIT';
  };
}
