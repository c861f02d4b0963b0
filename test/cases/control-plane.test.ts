import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { decodeBase64url } from '../../shared/crypto/base64url.ts';
import { must } from '../../shared/errors/assert.ts';
import type { Mode } from '../../shared/model/mode.ts';
import { type Api, startApi } from '../support/api.ts';
import { goToNoon } from '../support/approvals.ts';
import type { DecisionCase } from './decision-case.ts';
import { forgeToken } from './forge-token.ts';
import { httpStage } from './http-stage.ts';
import { casesWithin, expectAnswer, gateBodyOf, passportBodyOf } from './load-cases.ts';
import { hasEarlier, playEarlier } from './play-case.ts';

/**
 * The control plane decides on what it reads from the database at that moment, so that its state has no age. Its clock runs
 * on, which is too coarse for cases that ask for one millisecond.
 */
const cases = casesWithin([]);

type Keys = Readonly<Record<Mode, string>>;

let api: Api;
let ownKeys: Keys;
let publicKey: Uint8Array;

beforeAll(async () => {
  api = await startApi();
  goToNoon(api);
  ownKeys = await keysOf(api.adminKey);
  const jwks = await api.call({ url: '/.well-known/jwks.json', key: null });
  const jwk = jwks.body.keys.find((key: { purpose: string }) => key.purpose === 'passport');
  publicKey = must(decodeBase64url(jwk.x), 'the key of a JWK is base64url');
});
afterAll(() => api.close());

async function keysOf(adminKey: string): Promise<Keys> {
  const test = await api.createKey({ scopes: ['admin:*'], mode: 'test' }, adminKey);
  return { live: adminKey, test: test.key };
}

/** Sets everything up by the public API, with issuers and an account of the case's own, plays what came before, and asks. */
async function play(decisionCase: DecisionCase) {
  const { gate, passport, forgery, mode } = decisionCase;
  const foreign = await api.createAccount();
  const foreignKeys = await keysOf(foreign.key);
  const issuers = {
    own: (await api.createIssuer({}, ownKeys[passport.mode])).issuer_id,
    foreign: (await api.createIssuer({}, foreignKeys[passport.mode])).issuer_id,
  };
  const issuerKey = (passport.issued_by === 'own' ? ownKeys : foreignKeys)[passport.mode];
  const issue = () => api.issuePassport(passportBodyOf(passport, issuers), issuerKey);
  const own = await issue();
  const key = ownKeys[mode];
  const gateIds = {
    'the gate': gate === null ? null : (await api.createGate(gateBodyOf(gate, issuers), key)).gate_id,
    'another gate': hasEarlier(decisionCase) ? (await api.createGate({}, key)).gate_id : null,
    'no gate': null,
  };
  const another = hasEarlier(decisionCase) ? (await issue()).jwt : '';
  const check = (gateId: string | null, token: string, request: object) =>
    api.call({
      url: gateId === null ? '/v1/enforce' : `/v1/gates/${gateId}/check`,
      key,
      body: { passport: token, request },
    });
  const props = { tokens: { 'the passport': own.jwt, 'another passport': another }, gateIds, key };
  const stage = httpStage(api, props, { check, caughtUp: () => Promise.resolve() });

  const request = await playEarlier(stage, decisionCase);
  const about = { passportId: own.passport_id, issuerKey, issuerId: issuers[passport.issued_by] };
  await bringAbout(decisionCase, { ...about, foreignAccountId: foreign.accountId });
  const token = forgery === null ? own.jwt : forgeToken(forgery, own.jwt, publicKey);
  return check(gateIds['the gate'], token, request);
}

async function bringAbout(
  { circumstances }: DecisionCase,
  about: {
    readonly passportId: string;
    readonly issuerKey: string;
    readonly issuerId: string;
    readonly foreignAccountId: string;
  },
): Promise<void> {
  const { issuerKey } = about;
  const passportUrl = `/v1/passports/${about.passportId}`;
  const account = `/v1/accounts/${about.foreignAccountId}`;
  const suspended = { status: 'suspended' };
  for (const circumstance of circumstances) {
    const reply = await {
      'passport revoked': () => api.call({ url: `${passportUrl}/revoke`, key: issuerKey, body: {} }),
      'passport suspended': () => api.call({ url: `${passportUrl}/suspend`, key: issuerKey, body: {} }),
      'issuer suspended': () =>
        api.call({ method: 'PUT', url: `/v1/issuers/${about.issuerId}`, key: issuerKey, body: suspended }),
      'account suspended': () => api.call({ method: 'PUT', url: account, body: suspended }),
      'key compromised': () => Promise.reject(new Error('no case that needs it is played here')),
      'control plane away': () => Promise.reject(new Error('no case that needs it is played here')),
    }[circumstance]();
    expect(reply.status).toBe(200);
  }
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
});
