import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { decodeBase64url } from '../../shared/crypto/base64url.ts';
import { must } from '../../shared/errors/assert.ts';
import type { Mode } from '../../shared/model/mode.ts';
import { type Api, startApi } from '../support/api.ts';
import { goToNoon } from '../support/approvals.ts';
import { startTestSidecar, type TestSidecar } from '../support/sidecar.ts';
import { until } from '../support/until.ts';
import type { DecisionCase } from './decision-case.ts';
import { forgeToken } from './forge-token.ts';
import { httpStage } from './http-stage.ts';
import { casesWithin, expectAnswer, gateBodyOf, passportBodyOf } from './load-cases.ts';
import { hasEarlier, playEarlier } from './play-case.ts';

/**
 * The sidecar's clocks stand and jump as a case wants. A key that is declared compromised would take the passports of all
 * later cases with it; test/api/sidecar-operations plays that.
 */
const cases = casesWithin(['clock', 'state age', 'control plane away']);

type Keys = Readonly<Record<Mode, string>>;

let api: Api;
let sidecar: TestSidecar;
let ownKeys: Keys;
let foreign: { readonly accountId: string; readonly keys: Keys };
let publicKey: Uint8Array;

beforeAll(async () => {
  api = await startApi();
  goToNoon(api);
  // What is answered is asked here, not how soon: a busy machine is no reason for another answer.
  sidecar = await startTestSidecar({ api, quotaWaitMs: 1_000 });
  ownKeys = await keysOf(api.adminKey);
  foreign = await newForeigner();
  const jwks = await api.call({ url: '/.well-known/jwks.json', key: null });
  const jwk = jwks.body.keys.find((key: { purpose: string }) => key.purpose === 'passport');
  publicKey = must(decodeBase64url(jwk.x), 'the key of a JWK is base64url');
});
afterAll(async () => {
  await sidecar?.close();
  sidecar?.removeFolder();
  await api?.close();
});

async function keysOf(adminKey: string): Promise<Keys> {
  const test = await api.createKey({ scopes: ['admin:*'], mode: 'test' }, adminKey);
  return { live: adminKey, test: test.key };
}

async function newForeigner(): Promise<typeof foreign> {
  const { accountId, key } = await api.createAccount();
  return { accountId, keys: await keysOf(key) };
}

/** Sets a case up at the control plane, with issuers of its own. */
async function setUp(decisionCase: DecisionCase) {
  const { gate, passport, circumstances, mode } = decisionCase;
  if (circumstances.includes('account suspended')) foreign = await newForeigner();
  const issuers = {
    own: (await api.createIssuer({}, ownKeys[passport.mode])).issuer_id,
    foreign: (await api.createIssuer({}, foreign.keys[passport.mode])).issuer_id,
  };
  const issuerKey = (passport.issued_by === 'own' ? ownKeys : foreign.keys)[passport.mode];
  const issue = () => api.issuePassport(passportBodyOf(passport, issuers), issuerKey);
  const own = await issue();
  const key = ownKeys[mode];
  const gateIds = {
    'the gate': gate === null ? null : (await api.createGate(gateBodyOf(gate, issuers), key)).gate_id,
    'another gate': hasEarlier(decisionCase) ? (await api.createGate({}, key)).gate_id : null,
    'no gate': null,
  };
  const another = hasEarlier(decisionCase) ? (await issue()).jwt : '';
  const tokens = { 'the passport': own.jwt as string, 'another passport': another as string };
  const issuerId = issuers[passport.issued_by];
  return { props: { tokens, gateIds, key }, passportId: own.passport_id as string, issuerId, issuerKey };
}

async function bringAbout(
  { circumstances }: DecisionCase,
  about: { readonly passportId: string; readonly issuerId: string; readonly issuerKey: string },
): Promise<void> {
  const { issuerKey } = about;
  const passportUrl = `/v1/passports/${about.passportId}`;
  const account = `/v1/accounts/${foreign.accountId}`;
  const suspended = { status: 'suspended' };
  for (const circumstance of circumstances) {
    if (circumstance === 'control plane away') continue;
    const reply = await {
      'passport revoked': () => api.call({ url: `${passportUrl}/revoke`, key: issuerKey, body: {} }),
      'passport suspended': () => api.call({ url: `${passportUrl}/suspend`, key: issuerKey, body: {} }),
      'issuer suspended': () =>
        api.call({ method: 'PUT', url: `/v1/issuers/${about.issuerId}`, key: issuerKey, body: suspended }),
      'account suspended': () => api.call({ method: 'PUT', url: account, body: suspended }),
      'key compromised': () => Promise.reject(new Error('no case that needs it is played here')),
    }[circumstance]();
    expect(reply.status).toBe(200);
  }
  if (circumstances.includes('account suspended')) foreign = await newForeigner();
}

/** Ids of the records that were promised by an answer. */
const promised = new Set<string>();

async function play(decisionCase: DecisionCase) {
  const { circumstances, forgery, sinceIssueMs, stateAgeMs } = decisionCase;
  const { props, ...about } = await setUp(decisionCase);
  const check = async (gateId: string | null, token: string, request: object) => {
    const reply = await sidecar.check(gateId, token, request, props.key);
    if (typeof reply.body.attestation_id === 'string') promised.add(reply.body.attestation_id);
    return reply;
  };
  const stage = httpStage(api, props, { check, caughtUp: () => sidecar.caughtUp() });
  if (hasEarlier(decisionCase)) await sidecar.caughtUp();
  const request = await playEarlier(stage, decisionCase);

  await bringAbout(decisionCase, about);
  await sidecar.caughtUp();
  const token = props.tokens['the passport'];
  const payload = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString());
  if (sinceIssueMs !== null) sidecar.stopClockAt(payload.iat * 1_000 + sinceIssueMs);
  if (stateAgeMs > 0) await sidecar.ageStateTo(stateAgeMs);
  if (circumstances.includes('control plane away')) sidecar.link.cut();
  const presented = forgery === null ? token : forgeToken(forgery, token, publicKey);
  const reply = await check(props.gateIds['the gate'], presented, request);
  sidecar.resume();
  return reply;
}

describe('the sidecar', () => {
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
        return now?.records === promised.size;
      },
      { what: `${promised.size} attestations, spool: ${JSON.stringify(await spooled())}` },
    );
    expect((await spooled()).voided_records).toEqual({ refused: 0, damaged: 0, missing: 0 });
  });
});
