import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { decodeBase64url } from '../../shared/crypto/base64url.ts';
import { must } from '../../shared/errors/assert.ts';
import type { Mode } from '../../shared/model/mode.ts';
import { type Api, startApi } from '../support/api.ts';
import type { DecisionCase } from './decision-case.ts';
import { forgeToken } from './forge-token.ts';
import { casesWithin, expectAnswer, gateBodyOf } from './load-cases.ts';

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

/** Sets everything up by the public API, with issuers and an account of the case's own, and asks. */
async function play(decisionCase: DecisionCase) {
  const { gate, passport, circumstances, forgery, mode, request } = decisionCase;
  const foreign = await api.createAccount();
  const foreignKeys = await keysOf(foreign.key);
  const issuers = {
    own: (await api.createIssuer({}, ownKeys[passport.mode])).issuer_id,
    foreign: (await api.createIssuer({}, foreignKeys[passport.mode])).issuer_id,
  };
  const issuerKey = (passport.issued_by === 'own' ? ownKeys : foreignKeys)[passport.mode];
  const { jwt, passport_id: passportId } = await api.issuePassport(
    {
      issuer_id: issuers[passport.issued_by],
      permissions: passport.permissions,
      trust_tier: passport.trust_tier,
      constraints: passport.constraints,
      expires_in: '1h',
    },
    issuerKey,
  );
  const gateId =
    gate === null ? null : (await api.createGate(gateBodyOf(gate, issuers), ownKeys[mode])).gate_id;

  const passportUrl = `/v1/passports/${passportId}`;
  for (const circumstance of circumstances) {
    const reply = await {
      'passport revoked': () => api.call({ url: `${passportUrl}/revoke`, key: issuerKey, body: {} }),
      'passport suspended': () => api.call({ url: `${passportUrl}/suspend`, key: issuerKey, body: {} }),
      'issuer suspended': () =>
        api.call({
          method: 'PUT',
          url: `/v1/issuers/${issuers[passport.issued_by]}`,
          key: issuerKey,
          body: { status: 'suspended' },
        }),
      'account suspended': () =>
        api.call({ method: 'PUT', url: `/v1/accounts/${foreign.accountId}`, body: { status: 'suspended' } }),
      'key compromised': () => Promise.reject(new Error('no case that needs it is played here')),
    }[circumstance]();
    expect(reply.status).toBe(200);
  }

  return api.call({
    url: gateId === null ? '/v1/enforce' : `/v1/gates/${gateId}/check`,
    key: ownKeys[mode],
    body: { passport: forgery === null ? jwt : forgeToken(forgery, jwt, publicKey), request },
  });
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
