import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { attestationsLimits } from '../../control-plane/attestations/limits.ts';
import { type Api, startApi } from '../support/api.ts';
import { goToNoon } from '../support/approvals.ts';
import type { DecisionCase } from '../support/cases/decision-case.ts';
import { forgeToken } from '../support/cases/forge-token.ts';
import { httpStage } from '../support/cases/http-stage.ts';
import {
  type Account,
  bringAbout,
  keysOf,
  newAccount,
  passportKeyOf,
  setUpCase,
} from '../support/cases/http-world.ts';
import { casesWithin, expectAnswer } from '../support/cases/load-cases.ts';
import { hasEarlier, playEarlier } from '../support/cases/play-case.ts';
import { startTestEmbedded, startTestSidecar, type TestSidecar } from '../support/sidecar.ts';
import { until } from '../support/until.ts';

/**
 * The sidecar's clocks stand and jump as a case wants. A key that is declared compromised would take the
 * passports of all later cases with it; test/api/sidecar-operations plays that.
 */
const cases = casesWithin(['clock', 'state age', 'control plane away']);

/** Embedded in a program there is no key that could be one of the test world where no gate says so. */
const casesInProcess = cases.filter(({ gate, mode }) => gate !== null || mode === 'live');

describe.each([
  { name: 'a sidecar', start: startTestSidecar, cases },
  { name: 'a sidecar that is embedded in a program', start: startTestEmbedded, cases: casesInProcess },
])('$name', ({ start, cases }) => {
  let api: Api;
  let sidecar: TestSidecar;
  let ownKeys: Account['keys'];
  let foreign: Account;
  let publicKey: Uint8Array;
  let asking: { readonly gateId: string; readonly token: string };

  beforeAll(async () => {
    api = await startApi();
    goToNoon(api);
    // What is answered is asked here, not how soon: a busy machine is no reason for another answer.
    sidecar = await start({ api, quotaWaitMs: 1_000 });
    ownKeys = await keysOf(api, api.adminKey);
    foreign = await newAccount(api);
    publicKey = await passportKeyOf(api);
    asking = { gateId: (await api.createGate()).gate_id, token: (await api.issuePassport()).jwt };
    await sidecar.caughtUp();
  });
  afterAll(async () => {
    await sidecar?.close();
    sidecar?.removeFolder();
    await api?.close();
  });

  /**
   * The next case begins when the sidecar has noticed that the control plane is back. What comes by push does
   * not tell it: it asks for something that only the control plane knows, at a gate of its own.
   */
  async function isBack(): Promise<boolean> {
    const { gateId, token } = asking;
    const request = { permission_key: 'orders:create', idempotency_key: String(keys++) };
    return (await sidecar.check(gateId, token, request)).body.decision === 'PERMIT';
  }
  let keys = 0;

  /** Ids of the records that were promised by an answer. */
  const promised = new Set<string>();
  /** Those among them that were decided at a time which the control plane does not believe (contract §9). */
  const unbelieved = new Set<string>();

  async function play(decisionCase: DecisionCase) {
    const { circumstances, forgery, sinceIssueMs, stateAgeMs } = decisionCase;
    // The others share one, which must stay as it is.
    const another = circumstances.includes('account suspended') ? await newAccount(api) : foreign;
    const accounts = { own: { keys: ownKeys }, foreign: another };
    const { props, about } = await setUpCase(api, decisionCase, accounts);
    const check = async (gateId: string | null, token: string, request: object) => {
      const reply = await sidecar.check(gateId, token, request, props.key);
      if (typeof reply.body.attestation_id === 'string') promised.add(reply.body.attestation_id);
      return reply;
    };
    const stage = httpStage(api, props, { check, caughtUp: () => sidecar.caughtUp() });
    if (hasEarlier(decisionCase)) await sidecar.caughtUp();
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

  it('plays nearly all cases', () => {
    expect(cases.length).toBeGreaterThan(150);
  });

  it.each(cases)('$name', async (decisionCase) => {
    const reply = await play(decisionCase);
    expect(reply.status).toBe(200);
    expectAnswer(reply.body, decisionCase.want);
  });

  it('has every record that it promised in a chain in the end', async () => {
    const spooled = async () => (await sidecar.call({ path: '/readyz', key: null })).body.spool;
    await sidecar.caughtUp();
    expect(promised.size).toBeGreaterThan(150);
    await until(
      async () => {
        const [now] = await api.deps.sql<{ records: number }[]>`
          SELECT count(*) AS records FROM attestations WHERE attestation_id = ANY(${[...promised]}::text[])`;
        return now?.records === promised.size - unbelieved.size;
      },
      { what: `${promised.size} attestations, spool: ${JSON.stringify(await spooled())}` },
    );
    expect((await spooled()).voided_records).toEqual({
      refused: unbelieved.size,
      damaged: 0,
      missing: 0,
    });
    expect(unbelieved.size).toBeGreaterThan(0);
  });
});
