import { createHash, randomUUID } from 'node:crypto';
import * as jose from 'jose';
import { beforeAll, describe, expect, it } from 'vitest';
import { federatedPassportId } from '../../shared/crypto/federated-id.ts';
import { untilAnswer } from '../support/base/until.ts';
import { makeAgentKey, proofFor, type TestAgentKey } from '../support/data/proofs.ts';
import { startForeignProvider } from '../support/peers/foreign-issuer.ts';
import { expectError } from '../support/service/expect-error.ts';
import type { TestSidecar } from '../support/service/sidecar.ts';
import { useApi, useSidecar, useStarted } from '../support/service/use-api.ts';

const api = useApi();
let account: { readonly accountId: string; readonly key: string };
const provider = useStarted(startForeignProvider);
/** One of the gate's account, and one of another account that the gate names. */
const issuers = { own: '', other: '' };
beforeAll(async () => {
  account = await api.createAccount();
  await provider.addKey('ES256');
  issuers.own = await register('own', account.key);
  issuers.other = await register('other', api.adminKey);
});
const sidecars = [0, 1, 2].map(() =>
  useSidecar(() => ({ api, accountKey: account.key, quotaWaitMs: 2_500 })),
);

async function register(audience: string, key: string, constraints: object = {}): Promise<string> {
  const federation = {
    ...{ type: 'oidc', issuer: provider.issuer, audiences: [audience], trust_tier: 'L2', constraints },
    permissions: ['orders:create'],
  };
  return (await api.createIssuer({ name: `Takes ${audience}`, federation }, key)).issuer_id;
}

async function gateThat(demand: unknown, change: object = {}): Promise<string> {
  const constraints = { proof_of_possession: demand, trusted_issuers: ['own', issuers.other] };
  const { gate_id } = await api.createGate({ constraints, ...change }, account.key);
  for (const sidecar of sidecars) await sidecar.caughtUp();
  return gate_id;
}

/** A token of its own subject that names a key. */
async function tokenWith(cnf: unknown, aud: string, sub: string = randomUUID()): Promise<string> {
  return provider.sign({ aud, sub, jti: randomUUID(), ...(cnf === undefined ? {} : { cnf }) });
}

interface Agent {
  readonly jwt: string;
  readonly key: TestAgentKey;
}
async function agent(aud: string, kind: 'ed25519' | 'p256' = 'ed25519', sub?: string): Promise<Agent> {
  const key = makeAgentKey(kind);
  return { key, jwt: await tokenWith({ jwk: key.publicJwk }, aud, sub) };
}

const asked = (proof: unknown) => ({
  permission_key: 'orders:create',
  ...(proof === undefined ? {} : { proof }),
});

interface Answer {
  readonly decision: string;
  readonly reason: string | null;
  readonly attestation_id: string;
}
type Decide = (gateId: string, jwt: string, proof?: unknown) => Promise<Answer>;

const atSidecar =
  (place: number): Decide =>
  async (gateId, jwt, proof) =>
    (await (sidecars[place] as TestSidecar).check(gateId, jwt, asked(proof), account.key)).body;
const atControlPlane: Decide = async (gateId, jwt, proof) => {
  const body = { passport: jwt, request: asked(proof) };
  return (await api.call({ url: `/v1/gates/${gateId}/check`, key: account.key, body })).body;
};
const places: readonly (readonly [string, Decide])[] = [
  ['a sidecar', atSidecar(0)],
  ['the control plane', atControlPlane],
];

/**
 * Its token is known to each sidecar afterwards, and its wallets. A request that has to wait for that uses up
 * its proof, so each attempt has a new one.
 */
async function met(gateId: string, holder: Agent): Promise<void> {
  for (const place of sidecars.keys())
    await untilAnswer(
      () => atSidecar(place)(gateId, holder.jwt, proofFor(holder)),
      ({ decision }) => decision === 'PERMIT',
      { what: 'a PERMIT at each sidecar' },
    );
}

/** A DPoP proof for this token by whatever key, in the form that RFC 9449 wants. */
async function dpopBy({ privateKey, publicJwk }: TestAgentKey, jwt: string) {
  const url = 'https://shop.example/orders';
  const ath = createHash('sha256').update(jwt).digest('base64url');
  const dpop = await new jose.SignJWT({ htm: 'POST', htu: url, jti: randomUUID(), ath })
    .setProtectedHeader({ typ: 'dpop+jwt', alg: 'EdDSA', jwk: publicJwk })
    .setIssuedAt()
    .sign(privateKey);
  return { dpop, method: 'POST', url };
}

describe.each(places)('at %s a token of a provider', (_name, decide) => {
  it.each([
    ['own', 'httpsig'],
    ['own', 'dpop'],
    ['other', 'dpop'],
  ] as const)('of the %s account is permitted with a good %s proof, once', async (aud, proof) => {
    const gateId = await gateThat('required');
    const holder = await agent(aud, proof === 'dpop' ? 'p256' : 'ed25519');
    await met(gateId, holder);
    expect(await decide(gateId, holder.jwt)).toMatchObject({ reason: 'proof_missing' });
    const good = proofFor(holder, undefined, { proof });
    expect(await decide(gateId, holder.jwt, good)).toMatchObject({ decision: 'PERMIT', reason: null });
    expect(await decide(gateId, holder.jwt, good)).toMatchObject({ reason: 'proof_replayed' });
    const other = { ...proofFor(holder, undefined, { proof }), method: 'DELETE' };
    expect(await decide(gateId, holder.jwt, other)).toMatchObject({ reason: 'proof_invalid' });
    const elsewhere = { ...proofFor(holder, undefined, { proof }), url: 'https://evil.example/orders' };
    expect(await decide(gateId, holder.jwt, elsewhere)).toMatchObject({ reason: 'proof_invalid' });
  });

  it('is worth nothing to a thief, whatever the thief signs with', async () => {
    const gateId = await gateThat('required');
    const sub = randomUUID();
    const holder = await agent('own', 'ed25519', sub);
    const thief = makeAgentKey();
    const own = await dpopBy(holder.key, holder.jwt);
    // A later token of the same subject has another key, and each is bound to its own.
    const second = await agent('own', 'ed25519', sub);
    for (const each of [holder, second]) await met(gateId, each);
    const proofs: unknown[] = [
      await dpopBy(thief, holder.jwt),
      await dpopBy(second.key, holder.jwt),
      { ...own, dpop: `${own.dpop.slice(0, -6)}AAAAAA` },
      proofFor(second),
      proofFor(second, undefined, { proof: 'dpop' }),
      { ...own, method: 'GET' },
    ];
    for (const proof of proofs)
      expect(await decide(gateId, holder.jwt, proof)).toMatchObject({
        ...{ decision: 'BLOCK', reason: 'proof_invalid' },
      });
    expect(await decide(gateId, holder.jwt, own)).toMatchObject({ decision: 'PERMIT' });
    expect(await decide(gateId, second.jwt, proofFor(second))).toMatchObject({ decision: 'PERMIT' });
  });
});

it('a token of a provider has one PERMIT for a proof over three sidecars and the control plane where the gate says exact', async () => {
  const gateId = await gateThat({ mode: 'required', replay: 'exact' });
  const doors = [atSidecar(0), atSidecar(1), atSidecar(2), atControlPlane];
  const holder = await agent('other');
  await met(gateId, holder);
  const shown = proofFor(holder, undefined, { proof: 'dpop' });
  const answers = await Promise.all([...doors, ...doors].map((ask) => ask(gateId, holder.jwt, shown)));
  const reasons = answers.map(({ reason }) => reason).toSorted();
  expect(reasons).toEqual([null, ...Array(7).fill('proof_replayed')].toSorted());
  expect(answers.filter(({ decision }) => decision === 'PERMIT')).toHaveLength(1);
});

describe('a token that is bound to no key', () => {
  it.each(places)(
    'proves nothing at %s where it names no key that proofs are made with',
    async (_name, decide) => {
      const gateId = await gateThat('required');
      const aud = 'own';
      const { key } = await agent(aud);
      const { d: _d, ...rsa } = await jose.exportJWK((await jose.generateKeyPair('RS256')).publicKey);
      const thumbprint = await jose.calculateJwkThumbprint(key.publicJwk);
      const forms: unknown[] = [
        undefined,
        'text',
        { jkt: thumbprint },
        { kid: 'agent' },
        { jku: 'https://evil.example/keys', jwk: null },
        { jwk: rsa },
        { jwk: { kty: 'oct', k: 'AAAA' } },
        { jwk: { ...key.publicJwk, x: '' } },
        { jwk: { kty: 'OKP', crv: 'X25519', x: key.publicJwk['x'] } },
      ];
      for (const cnf of forms) {
        const jwt = await tokenWith(cnf, aud);
        const answer = await decide(gateId, jwt, await dpopBy(key, jwt));
        expect([answer.decision, answer.reason], JSON.stringify(cnf)).toEqual(['BLOCK', 'proof_invalid']);
        expect(await decide(gateId, jwt)).toMatchObject({ reason: 'proof_missing' });
      }
    },
  );

  it.each(places)('proves nothing at %s with a key that anybody can sign for', async (_name, decide) => {
    const gateId = await gateThat('required');
    // The neutral point of Ed25519. For it R = S·B holds for each message, as with S = 1.
    const x = Buffer.from([1, ...Array(31).fill(0)]).toString('base64url');
    const jwk = { kty: 'OKP', crv: 'Ed25519', x };
    const base = [0x58, ...Array(31).fill(0x66)];
    const signature = Buffer.from([...base, 1, ...Array(31).fill(0)]).toString('base64url');
    const jwt = await tokenWith({ jwk }, 'own');
    const proof = await dpopBy({ ...makeAgentKey(), publicJwk: jwk }, jwt);
    const dpop = [...proof.dpop.split('.').slice(0, 2), signature].join('.');
    const answer = await decide(gateId, jwt, { ...proof, dpop });
    expect(answer).toMatchObject({ decision: 'BLOCK', reason: 'proof_invalid' });
  });
});

it('a provider whose passports require proof has no bearer tokens, at no gate, and not by a name in place of the token', async () => {
  const aud = randomUUID();
  const issuerId = await register(aud, account.key, { proof_of_possession: 'required' });
  const gateId = await gateThat('off');
  const sub = randomUUID();
  const holder = await agent(aud, 'ed25519', sub);
  await met(gateId, holder);
  for (const [, decide] of places) {
    expect(await decide(gateId, holder.jwt)).toMatchObject({ decision: 'BLOCK', reason: 'proof_missing' });
    expect(await decide(gateId, holder.jwt, proofFor(holder))).toMatchObject({ decision: 'PERMIT' });
  }
  const scopes = ['enforcement:check', 'enforcement:delegate'];
  const { key } = await api.createKey({ scopes }, account.key);
  for (const id of [sub, federatedPassportId(issuerId as never, sub)]) {
    const body = {
      subject: { type: 'agent', id },
      action: { name: 'orders:create' },
      resource: { type: 'gate', id: gateId },
      context: { proof: proofFor(holder) },
    };
    expectError(
      await api.call({ url: '/access/v1/evaluation', body, key }),
      'passport_not_found',
      'subject.id',
    );
  }
});
