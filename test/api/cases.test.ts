import { afterAll, beforeAll, describe, expect, it } from 'vitest';
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
import { withProof } from '../support/cases/make-proof.ts';
import { playEarlier } from '../support/cases/play-case.ts';
import { exportText } from '../support/exports.ts';
import { replayText } from '../support/replay.ts';

/**
 * The control plane decides on what it reads from the database at that moment, so that its state has no age.
 * Its clock runs on, which is too coarse for cases that ask for one millisecond.
 */
const cases = casesWithin([]);

let api: Api;
let ownKeys: Account['keys'];
let publicKey: Uint8Array;

beforeAll(async () => {
  api = await startApi();
  goToNoon(api);
  ownKeys = await keysOf(api, api.adminKey);
  publicKey = await passportKeyOf(api);
});
afterAll(() => api.close());

/** With an account of the case's own; plays what came before, and asks. */
async function play(decisionCase: DecisionCase) {
  const { forgery } = decisionCase;
  const accounts = { own: { keys: ownKeys }, foreign: await newAccount(api) };
  const { props, about } = await setUpCase(api, decisionCase, accounts);
  const check = (gateId: string | null, token: string, request: object) =>
    api.call({
      url: gateId === null ? '/v1/enforce' : `/v1/gates/${gateId}/check`,
      key: props.key,
      body: { passport: token, request: withProof({ ...request }, token, api.deps.clock.now()) },
    });
  const stage = httpStage(api, props, { check, caughtUp: () => Promise.resolve() });

  const request = await playEarlier(stage, decisionCase);
  await bringAbout(api, decisionCase, about);
  const token = props.tokens['the passport'];
  return check(
    props.gateIds['the gate'],
    forgery === null ? token : forgeToken(forgery, token, publicKey),
    request,
  );
}

describe('the control plane', () => {
  it('plays nearly all cases', () => {
    expect(cases.length).toBeGreaterThan(100);
  });

  it.each(cases)('$name', async (decisionCase) => {
    const reply = await play(decisionCase);
    expect(reply.status).toBe(200);
    expectAnswer(reply.body, decisionCase.want);
  });

  it('leaves records that give the same decisions again', async () => {
    const report = replayText(await exportText(api));
    expect(report.contradictions).toEqual([]);
    expect(report.over_limits).toEqual([]);
  });
});
