import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { decodeBase64url } from '../../shared/crypto/base64url.ts';
import { must } from '../../shared/errors/assert.ts';
import type { Mode } from '../../shared/model/mode.ts';
import { type Api, startApi } from '../support/api.ts';
import { startTestSidecar, type TestSidecar } from '../support/sidecar.ts';
import { until } from '../support/until.ts';
import type { DecisionCase } from './decision-case.ts';
import { forgeToken } from './forge-token.ts';
import { casesWithin, expectAnswer, gateBodyOf } from './load-cases.ts';

/**
 * The sidecar's clocks stand and jump as a case wants. A key that is declared compromised would take the passports of all
 * later cases with it; test/api/sidecar-operations plays that.
 */
const cases = casesWithin(['clock', 'state age']);

type Keys = Readonly<Record<Mode, string>>;

let api: Api;
let sidecar: TestSidecar;
let ownKeys: Keys;
let foreign: { readonly accountId: string; readonly keys: Keys };
let publicKey: Uint8Array;

beforeAll(async () => {
  api = await startApi();
  sidecar = await startTestSidecar({ api });
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
async function setUp({ gate, passport, circumstances, mode }: DecisionCase) {
  if (circumstances.includes('account suspended')) foreign = await newForeigner();
  const issuers = {
    own: (await api.createIssuer({}, ownKeys[passport.mode])).issuer_id,
    foreign: (await api.createIssuer({}, foreign.keys[passport.mode])).issuer_id,
  };
  const issuerKey = (passport.issued_by === 'own' ? ownKeys : foreign.keys)[passport.mode];
  const issued = await api.issuePassport(
    {
      issuer_id: issuers[passport.issued_by],
      permissions: passport.permissions,
      trust_tier: passport.trust_tier,
      constraints: passport.constraints,
      expires_in: '1h',
    },
    issuerKey,
  );
  const made = gate === null ? null : await api.createGate(gateBodyOf(gate, issuers), ownKeys[mode]);

  const passportUrl = `/v1/passports/${issued.passport_id}`;
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
  if (circumstances.includes('account suspended')) foreign = await newForeigner();
  return { token: issued.jwt as string, gateId: (made?.gate_id ?? null) as string | null };
}

async function play(decisionCase: DecisionCase) {
  const { forgery, sinceIssueMs, stateAgeMs, mode, request } = decisionCase;
  const { token, gateId } = await setUp(decisionCase);
  await sidecar.caughtUp();
  const payload = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString());
  if (sinceIssueMs !== null) sidecar.stopClockAt(payload.iat * 1_000 + sinceIssueMs);
  if (stateAgeMs > 0) await sidecar.ageStateTo(stateAgeMs);
  const presented = forgery === null ? token : forgeToken(forgery, token, publicKey);
  const reply = await sidecar.check(gateId, presented, request, ownKeys[mode]);
  sidecar.resume();
  return reply;
}

describe('the sidecar', () => {
  it('plays nearly all cases', () => {
    expect(cases.length).toBeGreaterThan(100);
  });

  it.each(cases)('$name', async (decisionCase) => {
    const reply = await play(decisionCase);
    expect(reply.status).toBe(200);
    expectAnswer(reply.body, decisionCase.want);
  });

  it('has every one of its decisions in a chain in the end', async () => {
    const spooled = async () => (await sidecar.call({ path: '/readyz', key: null })).body.spool;
    await sidecar.caughtUp();
    const [row] = await api.deps.sql<{ records: number }[]>`SELECT count(*) AS records FROM attestations`;
    expect(row?.records).toBeGreaterThan(0);
    await until(
      async () => {
        const [now] = await api.deps.sql<{ records: number }[]>`SELECT count(*) AS records FROM attestations`;
        return now?.records === cases.length;
      },
      { what: `${cases.length} attestations, spool: ${JSON.stringify(await spooled())}` },
    );
    expect((await spooled()).voided_records).toEqual({ refused: 0, damaged: 0, missing: 0 });
  });
});
