import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { attestationsLimits } from '../../../control-plane/attestations/limits.ts';
import { type Api, startApi } from '../api.ts';
import { goToNoon } from '../approvals.ts';
import type { TestSidecar, TestSidecarOptions } from '../sidecar.ts';
import { until } from '../until.ts';
import type { DecisionCase } from './decision-case.ts';
import { forgeToken } from './forge-token.ts';
import { httpStage } from './http-stage.ts';
import { bringAbout, keysOf, newAccount, passportKeyOf, setUpCase } from './http-world.ts';
import { expectAnswer } from './load-cases.ts';
import { hasEarlier, playEarlier } from './play-case.ts';
import { decisionCases } from './read-cases.ts';
import { ruleAgainst, type WayIn } from './ways-in.ts';

/**
 * Plays every case that the way in can express at a sidecar of its own, whose clocks stand and jump as a case
 * wants.
 */
export function describeCases(
  wayIn: WayIn,
  start: (options: TestSidecarOptions) => Promise<TestSidecar>,
): void {
  const cases = decisionCases.filter((each) => ruleAgainst(each, wayIn) === null);

  describe(`a sidecar, asked by ${wayIn.name}`, () => {
    let stage: Awaited<ReturnType<typeof startStage>>;
    beforeAll(async () => {
      stage = await startStage(wayIn, start);
    });
    afterAll(() => stage?.close());

    it('plays all cases except those of its rules', () => {
      const left = decisionCases.map((each) => ruleAgainst(each, wayIn)).filter((rule) => rule !== null);
      const counts = Object.fromEntries(
        left.map((rule) => [rule, left.filter((each) => each === rule).length]),
      );
      expect(counts).toEqual(wayIn.cannot);
    });

    it.each(cases)('$name', async (decisionCase) => {
      const reply = await stage.play(decisionCase);
      expect(reply.status, JSON.stringify(reply.body)).toBe(200);
      expectAnswer(reply.body, decisionCase.want);
    });

    it('has every record that it promised in a chain in the end', () => stage.expectRecords());
  });
}

async function startStage(wayIn: WayIn, start: (options: TestSidecarOptions) => Promise<TestSidecar>) {
  const api = await startApi();
  goToNoon(api);
  // What is answered is asked here, not how soon: a busy machine is no reason for another answer.
  const sidecar = await start({ api, quotaWaitMs: 1_000 });
  const own = { keys: await keysOf(api, api.adminKey) };
  const foreign = await newAccount(api);
  const publicKey = await passportKeyOf(api);
  const isBack = await controlPlaneProbe(api, sidecar);
  /** Ids of the records that were promised by an answer. */
  const promised = new Set<string>();
  /** Those among them that were decided at a time which the control plane does not believe (contract §9). */
  const unbelieved = new Set<string>();

  async function play(decisionCase: DecisionCase) {
    const { circumstances, forgery, sinceIssueMs, stateAgeMs } = decisionCase;
    // The others share one, which must stay as it is.
    const another = circumstances.includes('account suspended') ? await newAccount(api) : foreign;
    const { props, about } = await setUpCase(api, decisionCase, { own, foreign: another });
    const check = async (
      gateId: string | null,
      token: string,
      request: Readonly<Record<string, unknown>>,
    ) => {
      const reply = await wayIn.ask(sidecar, { gateId, token, request, key: props.key });
      if (typeof reply.body.attestation_id === 'string') promised.add(reply.body.attestation_id);
      return reply;
    };
    if (hasEarlier(decisionCase)) await sidecar.caughtUp();
    const stage = httpStage(api, props, { check, caughtUp: () => sidecar.caughtUp() });
    const request = await playEarlier(stage, decisionCase);

    await bringAbout(api, decisionCase, about);
    await sidecar.caughtUp();
    const token = props.tokens['the passport'];
    const payload = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString());
    if (sinceIssueMs !== null) sidecar.stopClockAt(payload.iat * 1_000 + sinceIssueMs);
    if (stateAgeMs > 0) await sidecar.ageStateTo(stateAgeMs);
    if (circumstances.includes('control plane away')) sidecar.link.cut();
    const presented = forgery === null ? token : forgeToken(forgery, token, publicKey);
    const reply = await check(props.gateIds['the gate'], presented, request);
    const decidedAtMs = payload.iat * 1_000 + (sinceIssueMs ?? 0);
    const isBelieved = decidedAtMs <= api.deps.clock.now() + attestationsLimits.recordAheadMsMax;
    if (!isBelieved) unbelieved.add(reply.body.attestation_id);
    sidecar.resume();
    if (stateAgeMs > 0 || circumstances.includes('control plane away'))
      await until(isBack, { what: 'an answer of the control plane' });
    return reply;
  }

  async function expectRecords(): Promise<void> {
    const spooled = async () => (await sidecar.call({ path: '/readyz', key: null })).body.spool;
    await sidecar.caughtUp();
    expect(promised.size).toBeGreaterThan(100);
    await until(
      async () => {
        const [now] = await api.deps.sql<{ records: number }[]>`
          SELECT count(*) AS records FROM attestations WHERE attestation_id = ANY(${[...promised]}::text[])`;
        return now?.records === promised.size - unbelieved.size;
      },
      { what: `${promised.size} attestations, spool: ${JSON.stringify(await spooled())}` },
    );
    expect((await spooled()).voided_records).toEqual({ refused: unbelieved.size, damaged: 0, missing: 0 });
    expect(unbelieved.size).toBeGreaterThan(0);
  }

  const close = async () => {
    await sidecar.close();
    sidecar.removeFolder();
    await api.close();
  };
  return { play, expectRecords, close };
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
