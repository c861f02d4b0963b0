import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { attestationsLimits } from '../../../control-plane/attestations/limits.ts';
import { must } from '../../../shared/errors/assert.ts';
import { type Api, type Reply, startApi } from '../api.ts';
import { goToNoon } from '../approvals.ts';
import { exportText } from '../exports.ts';
import { replayText } from '../replay.ts';
import type { TestSidecar, TestSidecarOptions } from '../sidecar.ts';
import { until } from '../until.ts';
import type { DecisionCase } from './decision-case.ts';
import { forgeToken } from './forge-token.ts';
import { httpStage } from './http-stage.ts';
import { bringAbout, keysOf, newAccount, passportKeyOf, setUpCases } from './http-world.ts';
import { expectAnswer } from './load-cases.ts';
import { withProof } from './make-proof.ts';
import { hasEarlier, playEarlier } from './play-case.ts';
import { decisionCases } from './read-cases.ts';
import { ruleAgainst, type WayIn } from './ways-in.ts';

/** A sidecar, whose clocks stand and jump as a case wants, and the ways into it. */
interface Host {
  readonly ways: readonly WayIn[];
  start(options: TestSidecarOptions): Promise<TestSidecar>;
}

/**
 * Plays every case through each way in that can express it. Each has a passport of its own, so that no way
 * knows a token by another, and what else the case needs is set up once.
 */
export function describeCases(hosts: readonly Host[]): void {
  const all = hosts.flatMap(({ ways }) => ways);
  const waysOf = (decisionCase: DecisionCase) =>
    all.filter((wayIn) => ruleAgainst(decisionCase, wayIn) === null);
  let stage: Awaited<ReturnType<typeof startStage>>;
  beforeAll(async () => {
    stage = await startStage(hosts);
  });
  afterAll(() => stage?.close());

  describe.each(all)('a sidecar, asked by $name,', (wayIn) => {
    it('plays all cases but those of its rules', () => {
      const left = decisionCases.map((each) => ruleAgainst(each, wayIn)).filter((rule) => rule !== null);
      const counts = Object.fromEntries(
        left.map((rule) => [rule, left.filter((each) => each === rule).length]),
      );
      expect(counts).toEqual(wayIn.cannot);
    });
  });

  describe.each(decisionCases.filter((each) => waysOf(each).length > 0))('$name', (decisionCase) => {
    let prepared: Awaited<ReturnType<typeof stage.prepare>>;
    beforeAll(async () => {
      prepared = await stage.prepare(decisionCase);
    });

    it.each(waysOf(decisionCase))('by $name', ({ name }) => {
      const reply = prepared.replyTo(name);
      expect(reply.status, JSON.stringify(reply.body)).toBe(200);
      expectAnswer(reply.body, decisionCase.want);
    });
  });

  it.each(all)('has every record that it promised to $name in a chain in the end', ({ name }) =>
    stage.expectRecords(name),
  );
  it('has voided no record but those of a time which the control plane does not believe', () =>
    stage.expectVoided());
  it('leaves records that give the same decisions again', () => stage.expectReplay());
}

/** A way into a running sidecar. */
interface Entry {
  readonly wayIn: WayIn;
  readonly sidecar: TestSidecar;
  readonly isBack: () => Promise<boolean>;
  /** Ids of the records that were promised by an answer. */
  readonly promised: Set<string>;
  /** Those among them that were decided at a time which the control plane does not believe (contract §9). */
  readonly unbelieved: Set<string>;
}

async function startStage(hosts: readonly Host[]) {
  const api = await startApi();
  goToNoon(api);
  const entries = new Map<string, Entry>();
  const sidecars: TestSidecar[] = [];
  for (const { ways, start } of hosts) {
    // What is answered is asked here, not how soon: a busy machine is no reason for another answer.
    const sidecar = await start({ api, quotaWaitMs: 1_000 });
    sidecars.push(sidecar);
    const isBack = await controlPlaneProbe(api, sidecar);
    for (const wayIn of ways)
      entries.set(wayIn.name, { wayIn, sidecar, isBack, promised: new Set(), unbelieved: new Set() });
  }
  const own = { keys: await keysOf(api, api.adminKey) };
  const foreign = await newAccount(api);
  const publicKey = await passportKeyOf(api);
  const caughtUp = async () => void (await Promise.all(sidecars.map((sidecar) => sidecar.caughtUp())));

  /** Resolves when the case can be asked; what came before it has happened. */
  async function prepare(decisionCase: DecisionCase) {
    const able = [...entries.values()].filter(({ wayIn }) => ruleAgainst(decisionCase, wayIn) === null);
    // The others share one, which must stay as it is.
    const isOver = decisionCase.circumstances.includes('account suspended');
    const accounts = { own, foreign: isOver ? await newAccount(api) : foreign };
    const worlds = await setUpCases(api, decisionCase, accounts, able.length);
    if (hasEarlier(decisionCase)) await caughtUp();
    const plays = await Promise.all(
      able.map(async (entry, index) => {
        const { props, about } = must(worlds[index], 'each way has its own');
        const check = checkOf(entry, props.key);
        const stage = httpStage(api, props, { check, caughtUp: () => entry.sidecar.caughtUp() });
        // What went wrong before is told by the test of the way where it did.
        const [earlier] = await Promise.allSettled([playEarlier(stage, decisionCase)]);
        return { entry, props, about, check, earlier };
      }),
    );
    for (const { about } of plays) await bringAbout(api, decisionCase, about);
    await caughtUp();
    const replies = new Map<string, PromiseSettledResult<Reply>>();
    for (const sidecar of sidecars) {
      const here = plays.filter(({ entry }) => entry.sidecar === sidecar);
      for (const [index, reply] of (await askAll(decisionCase, here)).entries())
        replies.set(must(here[index], 'each play has a reply').entry.wayIn.name, reply);
    }
    return {
      replyTo: (name: string): Reply => {
        const reply = must(replies.get(name), 'it plays the case');
        if (reply.status === 'rejected') throw reply.reason;
        return reply.value;
      },
    };
  }

  const checkOf =
    ({ wayIn, sidecar, promised }: Entry, key: string) =>
    async (gateId: string | null, token: string, request: Readonly<Record<string, unknown>>) => {
      const asked = withProof(request, token, api.deps.clock.now());
      const reply = await wayIn.ask(sidecar, { gateId, token, request: asked, key });
      if (typeof reply.body.attestation_id === 'string') promised.add(reply.body.attestation_id);
      return reply;
    };

  interface Play {
    readonly entry: Entry;
    readonly props: Awaited<ReturnType<typeof setUpCases>>[number]['props'];
    readonly check: ReturnType<typeof checkOf>;
    readonly earlier: PromiseSettledResult<Readonly<Record<string, unknown>>>;
  }

  /** Asks a case by all ways into one sidecar, which is cut off once for all of them. */
  async function askAll(
    decisionCase: DecisionCase,
    plays: readonly Play[],
  ): Promise<readonly PromiseSettledResult<Reply>[]> {
    const [first] = plays;
    if (first === undefined) return [];
    const { circumstances, stateAgeMs } = decisionCase;
    const { sidecar, isBack } = first.entry;
    const isCut = stateAgeMs > 0 || circumstances.includes('control plane away');
    const replies: PromiseSettledResult<Reply>[] = [];
    if (stateAgeMs > 0) await sidecar.ageStateTo(stateAgeMs);
    if (circumstances.includes('control plane away')) sidecar.link.cut();
    for (const play of plays) replies.push(...(await Promise.allSettled([ask(decisionCase, play)])));
    sidecar.resume();
    if (isCut) {
      await until(isBack, { what: 'an answer of the control plane' });
      await sidecar.caughtUp();
    }
    return replies;
  }

  async function ask(decisionCase: DecisionCase, { entry, props, check, earlier }: Play): Promise<Reply> {
    const { forgery, sinceIssueMs } = decisionCase;
    const { sidecar, unbelieved } = entry;
    if (earlier.status === 'rejected') throw earlier.reason;
    const token = props.tokens['the passport'];
    const payload = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString());
    if (sinceIssueMs !== null) sidecar.stopClockAt(payload.iat * 1_000 + sinceIssueMs);
    const presented = forgery === null ? token : forgeToken(forgery, token, publicKey);
    const reply = await check(props.gateIds['the gate'], presented, earlier.value);
    const decidedAtMs = payload.iat * 1_000 + (sinceIssueMs ?? 0);
    const isBelieved = decidedAtMs <= api.deps.clock.now() + attestationsLimits.recordAheadMsMax;
    if (!isBelieved) unbelieved.add(reply.body.attestation_id);
    return reply;
  }

  const spooled = async (sidecar: TestSidecar) =>
    (await sidecar.call({ path: '/readyz', key: null })).body.spool;

  async function expectRecords(name: string): Promise<void> {
    const { sidecar, promised, unbelieved } = must(entries.get(name), 'it is a way in');
    await sidecar.caughtUp();
    expect(promised.size).toBeGreaterThan(100);
    await until(
      async () => {
        const [now] = await api.deps.sql<{ records: number }[]>`
          SELECT count(*) AS records FROM attestations WHERE attestation_id = ANY(${[...promised]}::text[])`;
        return now?.records === promised.size - unbelieved.size;
      },
      { what: `${promised.size} attestations, spool: ${JSON.stringify(await spooled(sidecar))}` },
    );
    expect(unbelieved.size).toBeGreaterThan(0);
  }

  async function expectReplay(): Promise<void> {
    const report = replayText(await exportText(api));
    expect(report.contradictions).toEqual([]);
    expect(report.over_limits).toEqual([]);
    const { agrees, unjudged } = report.decisions.PERMIT;
    expect(agrees).toBeGreaterThan(10 * unjudged);
  }

  async function expectVoided(): Promise<void> {
    for (const sidecar of sidecars) {
      const ways = [...entries.values()].filter((entry) => entry.sidecar === sidecar);
      const refused = ways.reduce((sum, { unbelieved }) => sum + unbelieved.size, 0);
      expect((await spooled(sidecar)).voided_records).toEqual({ refused, damaged: 0, missing: 0 });
    }
  }

  const close = async () => {
    for (const sidecar of sidecars) {
      await sidecar.close();
      sidecar.removeFolder();
    }
    await api.close();
  };
  return { prepare, expectRecords, expectVoided, expectReplay, close };
}

/**
 * The next case begins when the sidecar has noticed that the control plane is back. What comes by push does
 * not tell it: it asks for something that only the control plane knows, at a gate of its own.
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
