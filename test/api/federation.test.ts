import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { dueFederations, takeTurn } from '../../control-plane/issuers/federation-store.ts';
import { refreshKeys } from '../../control-plane/issuers/follow-keys.ts';
import { lockIssuer } from '../../control-plane/issuers/issuer-store.ts';
import { federatedPassportId } from '../../shared/crypto/federated-id.ts';
import { must } from '../../shared/errors/assert.ts';
import type { IssuerId } from '../../shared/model/ids.ts';
import type { Owner } from '../../shared/model/owner.ts';
import { minuteMs, secondMs, type UnixMillis } from '../../shared/model/time.ts';
import { type Api, type LoggedIn, startApi } from '../support/api.ts';
import { expectError } from '../support/expect-error.ts';
import { type ForeignProvider, startForeignProvider } from '../support/foreign-issuer.ts';
import { makeAgentKey } from '../support/proofs.ts';
import { startTestSidecar, type TestSidecar } from '../support/sidecar.ts';
import { brokenRules } from '../support/sound-database.ts';
import { expectSoundStore } from '../support/test-sidecar.ts';
import { until } from '../support/until.ts';

let api: Api;
let sidecar: TestSidecar;
const providers: ForeignProvider[] = [];
beforeAll(async () => {
  api = await startApi({ outbound: { allowPrivate: true } });
  sidecar = await startTestSidecar({ api });
});
afterAll(async () => {
  await sidecar.close();
  sidecar.removeFolder();
  await api.close();
  await Promise.all(providers.map((each) => each.close()));
});
afterEach(async () => {
  expect(await brokenRules(api.deps.sql)).toEqual({});
  await expectSoundStore(api);
});

const nowS = () => Math.floor(Date.now() / secondMs);

/** A provider with a key, registered; its tokens grant `orders:create`. */
async function registered(settings: object = {}, alg = 'RS256') {
  const provider = await startForeignProvider();
  providers.push(provider);
  await provider.addKey(alg);
  const issuer = await api.createIssuer({
    name: `Provider at ${provider.issuer}`,
    federation: {
      type: 'oidc',
      issuer: provider.issuer,
      audiences: ['gate'],
      permissions: ['orders:create'],
      trust_tier: 'L2',
      ...settings,
    },
  });
  await sidecar.caughtUp();
  return { provider, issuerId: issuer.issuer_id as IssuerId, issuer };
}

const request = { permission_key: 'orders:create', amount: 1 };

/** What both programs decide; they must agree. */
async function decide(gateId: string | null, token: string, asked: object = request) {
  const path = gateId === null ? '/v1/enforce' : `/v1/gates/${gateId}/check`;
  const body = { passport: token, request: asked };
  const here = await api.call({ url: path, body });
  const there = await sidecar.check(gateId, token, asked);
  expect(here.status, JSON.stringify(here.body)).toBe(200);
  expect(there.status, JSON.stringify(there.body)).toBe(200);
  expect(there.body.reason).toBe(here.body.reason);
  expect(there.body.decision).toBe(here.body.decision);
  return { decision: there.body.decision, reason: there.body.reason };
}

/** Without its token (contract §16). */
const evaluateNamed = (gateId: string, id: string) =>
  api.call({
    url: '/access/v1/evaluation',
    body: {
      subject: { type: 'agent', id },
      action: { name: 'orders:create', properties: { amount: 1 } },
      resource: { type: 'gate', id: gateId },
    },
  });

const gate = async (change: object = {}) => {
  const { gate_id } = await api.createGate(change);
  await sidecar.caughtUp();
  return gate_id as string;
};

const permit = { decision: 'PERMIT', reason: null };
const block = (reason: string) => ({ decision: 'BLOCK', reason });

describe('a token of another issuer', () => {
  it.each(['RS256', 'PS256', 'ES256', 'ES384', 'EdDSA'])(
    'is a passport where it is signed with %s',
    async (alg) => {
      const { provider, issuerId } = await registered({}, alg);
      const gateId = await gate({ trust_level: 'L2' });
      const token = await provider.sign();
      expect(await decide(gateId, token)).toEqual(permit);
      expect(await decide(null, token)).toEqual(permit);
      const passportId = federatedPassportId(issuerId, 'planner');
      const passport = (await api.call({ url: `/v1/passports/${passportId}` })).body;
      expect(passport).toMatchObject({
        federated: true,
        agent_id: expect.stringMatching(/^planner/),
        issuer_id: issuerId,
        permissions: ['orders:create'],
        trust_tier: 'L2',
        public_key: null,
        status: 'active',
      });
      expect(JSON.stringify(passport)).not.toContain(token);
      const spent = await provider.sign({ jti: 'another token' });
      expect(await decide(gateId, spent)).toEqual(permit);
      await until(async () => (await api.call({ url: `/v1/passports/${passportId}` })).body.use_count === 6, {
        what: 'each PERMIT of each program to be in the one chain',
      });
      const listed = (await api.call({ url: `/v1/passports?issuer_id=${issuerId}` })).body.items;
      expect(listed).toMatchObject([{ passport_id: passportId, federated: true }]);
    },
  );

  it('gets its permissions, tier and owner from its claims', async () => {
    const { provider, issuerId } = await registered({
      permissions: [],
      claims: {
        agent_id: '/azp',
        permissions: '/realm_access/roles',
        trust_tier: '/tier',
        owner: '/email',
      },
      permission_map: { buyer: ['orders:create', 'orders:read'], clerk: ['orders:read'] },
      constraints: { spend_limits: { per_transaction_usd: 5 } },
    });
    const gateId = await gate();
    const sign = (claims: object) =>
      provider.sign({ azp: 'shop', email: 'ann@example.com', tier: 'L3', ...claims });
    const buyer = await sign({ realm_access: { roles: ['buyer', 'unmapped'] } });
    expect(await decide(gateId, buyer)).toEqual(permit);
    expect(await decide(gateId, buyer, { ...request, amount: 6 })).toEqual(block('spend_limit_exceeded'));
    expect(await decide(gateId, await sign({ realm_access: { roles: ['clerk'] } }))).toEqual(
      block('permission_not_granted'),
    );
    expect(await decide(gateId, await sign({}))).toEqual(block('permission_not_granted'));
    expect(await decide(gateId, await sign({ realm_access: { roles: 7 } }))).toEqual(
      block('passport_malformed'),
    );
    expect(await decide(gateId, await sign({ azp: undefined }))).toEqual(block('passport_malformed'));
    expect(await decide(gateId, await sign({ email: ['ann'] }))).toEqual(block('passport_malformed'));
    expect(await decide(await gate({ trust_level: 'L3' }), buyer)).toEqual(block('trust_level_insufficient'));
    const passportId = federatedPassportId(issuerId, 'shop');
    const shown = (await api.call({ url: '/v1/passports?owner=ann%40example.com' })).body.items;
    expect(shown.map((each: { passport_id: string }) => each.passport_id)).toEqual([passportId]);
  });

  it('shares one counter with all tokens of its subject', async () => {
    const { provider } = await registered({ constraints: { rate_limits: { requests_per_day: 3 } } });
    const gateId = await gate();
    const decisions: string[] = [];
    for (let n = 0; n < 5; n++) {
      const token = await provider.sign({ jti: `token ${n}` });
      decisions.push((await sidecar.check(gateId, token, request)).body.decision);
    }
    expect(decisions).toEqual(['PERMIT', 'PERMIT', 'PERMIT', 'BLOCK', 'BLOCK']);
  });

  it('is one of our own account only, and of its mode', async () => {
    const { provider } = await registered();
    const token = await provider.sign();
    const other = await api.createAccount();
    const { gate_id } = await api.createGate({ constraints: { trusted_issuers: ['*'] } }, other.key);
    const answer = await api.call({
      url: `/v1/gates/${gate_id}/check`,
      key: other.key,
      body: { passport: token, request },
    });
    expect(answer.body.reason).toBe('passport_malformed');
    const test = (await api.createKey({ scopes: ['admin:*'], mode: 'test' })).key;
    const inTest = await api.call({ url: '/v1/enforce', key: test, body: { passport: token, request } });
    expect(inTest.body.reason).toBe('issuer_untrusted');
    expect((await sidecar.check(null, token, request, test)).body.reason).toBe('issuer_untrusted');
  });
});

describe('the subject of another issuer', () => {
  it('is seen while its issuer is locked: an event about it would wait for its row', async () => {
    const { provider, issuerId } = await registered();
    const gateId = await gate();
    const token = await provider.sign();
    const { sql } = api.deps;
    const [owner] = await sql<Owner[]>`
      SELECT account_id AS "accountId", mode FROM issuers WHERE issuer_id = ${issuerId}`;
    await sql.begin(async (tx) => {
      expect(await lockIssuer(tx, must(owner, 'it is registered'), issuerId)).not.toBeNull();
      expect(await decide(gateId, token)).toEqual(permit);
    });
  });

  it('is revoked with every token, future ones too, until it is reactivated', async () => {
    const { provider, issuerId } = await registered();
    const gateId = await gate();
    expect(await decide(gateId, await provider.sign())).toEqual(permit);
    const passportId = federatedPassportId(issuerId, 'planner');
    await api.call({ url: `/v1/passports/${passportId}/revoke?wait_ms=5000`, body: {} });
    expect(await decide(gateId, await provider.sign({ jti: 'later' }))).toEqual(block('passport_revoked'));
    await api.call({ url: `/v1/passports/${passportId}/reactivate`, body: {} });
    await sidecar.caughtUp();
    expect(await decide(gateId, await provider.sign({ jti: 'last' }))).toEqual(permit);
  });

  it('is revoked before it was ever seen', async () => {
    const { provider, issuerId } = await registered();
    const gateId = await gate();
    const revoked = await api.call({
      url: `/v1/issuers/${issuerId}/revoke-subject?wait_ms=5000`,
      body: { subject: 'thief', reason: 'stolen laptop' },
    });
    expect(revoked.status).toBe(200);
    expect(await decide(gateId, await provider.sign({ sub: 'thief' }))).toEqual(block('passport_revoked'));
    expect(await decide(gateId, await provider.sign())).toEqual(permit);
  });

  it('has a passport whatever names other passports have taken', async () => {
    const { provider, issuerId } = await registered();
    const gateId = await gate();
    const passportId = federatedPassportId(issuerId, 'a taken name');
    for (const sub of ['a taken name', `a taken name ${passportId.slice(-16)}`])
      await api.issuePassport({ agent_id: sub });
    expect(await decide(gateId, await provider.sign({ sub: 'a taken name' }))).toEqual(permit);
    const shown = (await api.call({ url: `/v1/passports/${passportId}` })).body;
    expect(shown).toMatchObject({ federated: true, agent_name: 'a taken name' });
    await api.call({ url: `/v1/issuers/${issuerId}/revoke-subject`, body: { subject: 'a taken name' } });
    await sidecar.caughtUp();
    expect(await decide(gateId, await provider.sign({ sub: 'a taken name' }))).toEqual(
      block('passport_revoked'),
    );
  });

  it('is revoked, and its owner suspended, at a sidecar that starts later', async () => {
    const { provider, issuerId } = await registered({ claims: { owner: '/team' } });
    const gateId = await gate();
    await api.call({ url: `/v1/issuers/${issuerId}/revoke-subject`, body: { subject: 'never seen' } });
    await api.call({ url: '/v1/owners/never%20seen/suspend', body: {} });
    const later = await startTestSidecar({ api });
    try {
      await later.caughtUp();
      const reasonFor = async (claims: object) =>
        (await later.check(gateId, await provider.sign({ ...claims }), request)).body.reason;
      expect(await reasonFor({ sub: 'never seen' })).toBe('passport_revoked');
      expect(await reasonFor({ team: 'never seen' })).toBe('passport_suspended');
      expect(await reasonFor({ team: 'never seen ' })).toBeNull();
    } finally {
      await later.close();
      later.removeFolder();
    }
  });

  it('is named by nobody without its token: what it may do is in the token alone', async () => {
    const { provider, issuerId } = await registered();
    const gateId = await gate();
    expect(await decide(gateId, await provider.sign({ sub: 'unnamed' }))).toEqual(permit);
    const passportId = federatedPassportId(issuerId, 'unnamed');
    expect((await api.call({ url: `/v1/passports/${passportId}` })).body.agent_id).toBe('unnamed');
    for (const id of ['unnamed', passportId])
      expectError(await evaluateNamed(gateId, id), 'passport_not_found', 'subject.id');
  });

  it('is suspended with its owner, and so is a passport of our own', async () => {
    const { provider } = await registered({ claims: { owner: '/team' } });
    const gateId = await gate();
    const own = await api.issuePassport({ owner: 'team a', permissions: ['orders:create'] });
    expect(own.owner).toBe('team a');
    const ofTeam = (sub: string) => provider.sign({ sub, team: 'team a' });
    expect(await decide(gateId, await ofTeam('one'))).toEqual(permit);
    expect(await decide(gateId, own.jwt)).toEqual(permit);
    const suspended = await api.call({ url: '/v1/owners/team%20a/suspend', body: {} });
    expect(suspended.body).toEqual({ owner: 'team a', status: 'suspended', passports: 2 });
    await sidecar.caughtUp();
    for (const token of [await ofTeam('one'), await ofTeam('not seen before'), own.jwt])
      expect(await decide(gateId, token)).toEqual(block('passport_suspended'));
    expect(await decide(gateId, await provider.sign({ team: 'team b' }))).toEqual(permit);
    const verified = await api.call({ url: `/v1/passports/${own.passport_id}/verify` });
    expect(verified.body).toMatchObject({ valid: false, reason: 'owner_suspended' });
    const named = await evaluateNamed(gateId, own.agent_id);
    expect(named.body).toMatchObject({ decision: false, context: { reason: 'passport_suspended' } });
    const { body: found } = await api.call({
      url: '/access/v1/search/subject',
      body: {
        subject: { type: 'agent' },
        action: { name: 'orders:create' },
        resource: { type: 'gate', id: gateId },
      },
    });
    expect(found.results.map(({ id }: { id: string }) => id)).not.toContain(own.agent_id);
    await api.call({ url: '/v1/owners/team%20a/reactivate', body: {} });
    await sidecar.caughtUp();
    expect(await decide(gateId, own.jwt)).toEqual(permit);
  });

  it('keeps whom its token names from answering for it, whatever another token names meanwhile', async () => {
    const { provider } = await registered({ claims: { owner: '/email' } });
    const [ada, ben] = [
      await api.createUser({ role: 'approver' }),
      await api.createUser({ role: 'approver' }),
    ];
    const gateId = await gate({
      constraints: { approvals: { above_usd: 1, approvers: { not_owner: true } } },
    });
    const ask = async ({ email }: LoggedIn, amount: number) =>
      (await sidecar.check(gateId, await provider.sign({ email }), { ...request, amount })).body;
    // One subject: its passport has but one of the two owners.
    const asked = await Promise.all([ask(ada, 2), ask(ben, 3)]);
    for (const [place, owner] of [ada, ben].entries()) {
      const { approval_id: approvalId } = asked[place] ?? {};
      const { body } = await api.call({
        url: `/v1/approvals/${approvalId}`,
        key: null,
        headers: owner.headers,
      });
      expect(body.you).toMatchObject({ may_answer: false, why_not: 'requester' });
    }
  });

  it('is decided on while the control plane is away, and known to it afterwards', async () => {
    const { provider, issuerId } = await registered();
    const gateId = await gate();
    sidecar.link.cut();
    const token = await provider.sign({ sub: 'unseen' });
    expect((await sidecar.check(gateId, token, request)).body.decision).toBe('PERMIT');
    const passportId = federatedPassportId(issuerId, 'unseen');
    expect((await api.call({ url: `/v1/passports/${passportId}` })).status).toBe(404);
    sidecar.link.restore();
    await until(async () => (await api.call({ url: `/v1/passports/${passportId}` })).body.use_count === 1, {
      what: 'the record in the chain of its passport',
    });
  });
});

describe('a hostile token', () => {
  it('is never permitted, whatever form it takes', async () => {
    const { provider, issuerId } = await registered();
    const gateId = await gate();
    const good = await provider.sign();
    expect(await decide(gateId, good)).toEqual(permit);
    const [header = '', payload = '', signature = ''] = good.split('.');
    const encode = (value: unknown) =>
      Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64url');
    const head = JSON.parse(Buffer.from(header, 'base64url').toString());
    const withHead = (change: object) => `${encode({ ...head, ...change })}.${payload}.${signature}`;
    const [key] = provider.keys as [Record<string, string>];
    const { createHmac } = await import('node:crypto');
    const hmacHead = encode({ ...head, alg: 'HS256' });
    const hmac = createHmac('sha256', String(key['n'])).update(`${hmacHead}.${payload}`).digest('base64url');
    const claims = JSON.parse(Buffer.from(payload, 'base64url').toString());
    const twice = encode(`{"iss":"${claims.iss}","sub":"other",${JSON.stringify(claims).slice(1)}`);
    const rows: [string, string, string][] = [
      ['no algorithm', `${encode({ ...head, alg: 'none' })}.${payload}.`, 'passport_malformed'],
      ['no algorithm in capitals', `${encode({ ...head, alg: 'NONE' })}.${payload}.`, 'passport_malformed'],
      ['HMAC by the public key', `${hmacHead}.${payload}.${hmac}`, 'passport_malformed'],
      ['PS256 with a key for RS256', withHead({ alg: 'PS256' }), 'passport_unknown_key'],
      ['ES256 with an RSA key', withHead({ alg: 'ES256' }), 'passport_unknown_key'],
      ['RS384', withHead({ alg: 'RS384' }), 'passport_malformed'],
      ['a kid that is a path', withHead({ kid: '../../dev/null' }), 'passport_unknown_key'],
      ['a kid with SQL', withHead({ kid: "' OR 1=1 --" }), 'passport_unknown_key'],
      ['a kid that is a list', withHead({ kid: [head.kid] }), 'passport_malformed'],
      ['jku', withHead({ jku: 'https://evil.example/keys' }), 'passport_malformed'],
      ['x5u', withHead({ x5u: 'https://evil.example/cert' }), 'passport_malformed'],
      ['an embedded key', withHead({ jwk: key }), 'passport_malformed'],
      ['crit', withHead({ crit: ['exp'] }), 'passport_malformed'],
      [
        'the type of our own passports',
        await provider.sign({}, { typ: 'passport+jwt' }),
        'passport_malformed',
      ],
      [
        'the type with a prefix',
        await provider.sign({}, { typ: 'application/Passport+JWT' }),
        'passport_malformed',
      ],
      ['a logout token', await provider.sign({}, { typ: 'logout+jwt' }), 'passport_malformed'],
      ['a security event', await provider.sign({}, { typ: 'secevent+jwt' }), 'passport_malformed'],
      ['duplicate members', `${header}.${twice}.${signature}`, 'passport_malformed'],
      [
        'another payload',
        `${header}.${encode({ ...claims, sub: 'admin' })}.${signature}`,
        'passport_signature_invalid',
      ],
      ['padding', `${header}=.${payload}.${signature}`, 'passport_malformed'],
      ['another audience', await provider.sign({ aud: 'other' }), 'issuer_untrusted'],
      ['an audience that contains ours', await provider.sign({ aud: 'gateway' }), 'issuer_untrusted'],
      ['no audience', await provider.sign({ aud: undefined }), 'passport_malformed'],
      ['another issuer', await provider.sign({ iss: `${provider.issuer}/` }), 'issuer_untrusted'],
      ['a list of issuers', await provider.sign({ iss: [provider.issuer] }), 'issuer_untrusted'],
      ['no end', await provider.sign({ exp: undefined }), 'passport_malformed'],
      [
        'an end that is text',
        await provider.sign({ exp: String(nowS() + 60) as never }),
        'passport_malformed',
      ],
      ['a life of more than a day', await provider.sign({ exp: nowS() + 25 * 3_600 }), 'passport_malformed'],
      [
        'a life hidden by nbf',
        await provider.sign({ iat: nowS() - 30 * 3_600, nbf: nowS() }),
        'passport_malformed',
      ],
      ['its end behind it', await provider.sign({ iat: nowS() - 60, exp: nowS() - 1 }), 'passport_expired'],
      ['its begin before it', await provider.sign({ nbf: nowS() + 600 }), 'passport_not_yet_valid'],
      [
        'a begin in iat',
        await provider.sign({ iat: nowS() + 600, exp: nowS() + 900 }),
        'passport_not_yet_valid',
      ],
      ['a subject with a line break', await provider.sign({ sub: 'a\nb' }), 'passport_malformed'],
      ['no subject', await provider.sign({ sub: undefined }), 'passport_malformed'],
      ['a subject of 300 characters', await provider.sign({ sub: 'a'.repeat(300) }), 'passport_malformed'],
    ];
    for (const [what, token, reason] of rows)
      expect([what, await decide(gateId, token)]).toEqual([what, block(reason)]);
    expect((await api.call({ url: `/v1/passports?issuer_id=${issuerId}` })).body.total).toBe(1);
  });

  it('of one issuer is no token of another with the same key', async () => {
    const { provider } = await registered();
    const gateId = await gate();
    const second = await api.createIssuer({
      name: 'The same keys',
      federation: {
        type: 'jwks',
        issuer: 'https://second.example',
        jwks: { keys: provider.keys },
        audiences: ['second'],
        permissions: ['orders:create'],
      },
    });
    await sidecar.caughtUp();
    const iss = 'https://second.example';
    expect(await decide(gateId, await provider.sign({ iss, aud: 'second' }))).toEqual(permit);
    expect(await decide(gateId, await provider.sign({ iss }))).toEqual(block('issuer_untrusted'));
    expect(await decide(gateId, await provider.sign({ aud: 'second' }))).toEqual(block('issuer_untrusted'));
    // Both fit now: neither is taken, also of a token that was known.
    const token = await provider.sign({ iss, aud: 'second' });
    expect(await decide(gateId, token)).toEqual(permit);
    const third = await api.createIssuer({
      name: 'Twice',
      federation: { type: 'jwks', issuer: iss, jwks: { keys: provider.keys }, audiences: ['second', 'x'] },
    });
    await sidecar.caughtUp();
    expect(await decide(gateId, token)).toEqual(block('issuer_untrusted'));
    const suspended = { method: 'PUT', url: `/v1/issuers/${third.issuer_id}`, body: { status: 'suspended' } };
    expect((await api.call(suspended)).status).toBe(200);
    await sidecar.caughtUp();
    expect(await decide(gateId, token)).toEqual(permit);
    expect(second.federation.keys).toHaveLength(1);
  });

  it('is no passport any more once its subject lies in a trust domain that is registered too', async () => {
    const { provider } = await registered();
    const gateId = await gate();
    const token = await provider.sign({ sub: 'spiffe://both.example/shop' });
    expect(await decide(gateId, token)).toEqual(permit);
    await api.createIssuer({
      name: 'SPIRE beside it',
      federation: {
        type: 'jwt-svid',
        issuer: 'both.example',
        jwks: { keys: provider.keys },
        audiences: ['gate'],
      },
    });
    await sidecar.caughtUp();
    expect(await decide(gateId, token)).toEqual(block('issuer_untrusted'));
  });

  it('is no JWT-SVID of another trust domain', async () => {
    const { provider } = await registered();
    const gateId = await gate();
    await api.createIssuer({
      name: 'SPIRE',
      federation: {
        type: 'jwt-svid',
        issuer: 'example.org',
        jwks: { keys: provider.keys },
        audiences: ['gate'],
        subjects: ['spiffe://example.org/agents/*'],
        permissions: ['orders:create'],
      },
    });
    await sidecar.caughtUp();
    const svid = (sub: string) => provider.sign({ iss: undefined, sub });
    expect(await decide(gateId, await svid('spiffe://example.org/agents/shop'))).toEqual(permit);
    for (const sub of [
      'spiffe://example.org.evil/agents/shop',
      'spiffe://evil/example.org/agents/shop',
      'spiffe://example.org',
      'spiffe://example.org/other/shop',
      'SPIFFE://example.org/agents/shop',
    ])
      expect([sub, await decide(gateId, await svid(sub))]).toEqual([sub, block('issuer_untrusted')]);
  });
});

describe('the keys of another issuer', () => {
  it('are read again for an unknown kid, once a minute', async () => {
    const { provider } = await registered();
    const gateId = await gate();
    await provider.addKey();
    const token = await provider.sign();
    const before = provider.keyRequests;
    api.advance(2 * minuteMs);
    expect((await sidecar.check(gateId, token, request)).body.reason).toBe('passport_unknown_key');
    await until(async () => (await sidecar.check(gateId, token, request)).body.decision === 'PERMIT', {
      what: 'the new key at the sidecar',
    });
    expect(provider.keyRequests).toBe(before + 1);
    for (let n = 0; n < 5; n++) {
      const made = await provider.sign({}, { kid: `made up ${n}` });
      expect(await decide(gateId, made)).toEqual(block('passport_unknown_key'));
    }
    expect(provider.keyRequests).toBe(before + 1);
  });

  it('end with their withdrawal, also for tokens that verified before', async () => {
    const { provider, issuerId } = await registered();
    const gateId = await gate();
    const token = await provider.sign();
    expect(await decide(gateId, token)).toEqual(permit);
    provider.keys = [];
    await provider.addKey();
    api.advance(2 * minuteMs);
    expect(await refreshKeys(api.deps, issuerId)).toBe(true);
    await sidecar.caughtUp();
    expect(await decide(gateId, token)).toEqual(block('passport_unknown_key'));
  });

  it('stay through an outage up to max_key_age_s, and then block', async () => {
    const { provider, issuerId } = await registered({ max_key_age_s: 300 });
    const gateId = await gate();
    for (const answer of [
      (_: unknown, response: { writeHead(status: number): { end(): void } }) => response.writeHead(500).end(),
      (_: unknown, response: { end(text: string): void }) => response.end('{"keys": []}'),
      (_: unknown, response: { end(text: string): void }) =>
        response.end(`{"keys": ["${'x'.repeat(300_000)}"]}`),
    ]) {
      provider.answer = answer as never;
      api.advance(minuteMs + 5 * secondMs);
      expect(await refreshKeys(api.deps, issuerId)).toBe(true);
      await sidecar.caughtUp();
      expect(await decide(gateId, await provider.sign())).toEqual(permit);
    }
    const { federation } = (await api.call({ url: `/v1/issuers/${issuerId}` })).body;
    expect(federation.keys_fault).toContain('answered more than');
    api.advance(3 * minuteMs);
    await sidecar.caughtUp();
    expect(await decide(gateId, await provider.sign())).toEqual(block('issuer_keys_stale'));
    provider.answer = null;
    expect(await refreshKeys(api.deps, issuerId)).toBe(true);
    await sidecar.caughtUp();
    expect(await decide(gateId, await provider.sign())).toEqual(permit);
  });

  it('grow too old at a sidecar that has started from its disk alone', async () => {
    const { provider } = await registered({ max_key_age_s: 300 });
    const gateId = await gate({ trust_level: 'L1' });
    const before = await startTestSidecar({ api });
    await before.caughtUp();
    await before.close();
    const after = await startTestSidecar({ api, folder: before.folder, isCutOff: true });
    try {
      const token = await provider.sign();
      await until(async () => (await after.check(gateId, token, request)).body.decision === 'PERMIT', {
        what: 'the state on disk in force',
      });
      api.advance(5 * minuteMs + secondMs);
      expect((await after.check(gateId, token, request)).body.reason).toBe('issuer_keys_stale');
    } finally {
      await after.close();
      before.removeFolder();
    }
  });

  it('block where a clock that jumped leaves their age unknown, until they are read again', async () => {
    const { provider, issuerId } = await registered({ max_key_age_s: 300 });
    const gateId = await gate();
    const token = await provider.sign();
    expect(await decide(gateId, token)).toEqual(permit);
    // Ahead, and they are read there.
    api.advance(10 * minuteMs);
    await sidecar.caughtUp();
    expect(await decide(gateId, token)).toEqual(block('issuer_keys_stale'));
    expect(await refreshKeys(api.deps, issuerId)).toBe(true);
    await sidecar.caughtUp();
    expect(await decide(gateId, token)).toEqual(permit);
    // Back again, while the provider is away.
    provider.answer = (_request, response) => response.writeHead(500).end();
    api.advance(-10 * minuteMs);
    await sidecar.caughtUp();
    expect(await decide(gateId, token)).toEqual(block('issuer_keys_stale'));
    expect(await refreshKeys(api.deps, issuerId)).toBe(true);
    expect(await decide(gateId, token)).toEqual(block('issuer_keys_stale'));
    provider.answer = null;
    api.advance(2 * minuteMs);
    expect(await refreshKeys(api.deps, issuerId)).toBe(true);
    await sidecar.caughtUp();
    expect(await decide(gateId, token)).toEqual(permit);
  });

  it('are read by one replica a minute, and again at once where the clock was ahead', async () => {
    const { issuerId } = await registered();
    const { sql } = api.deps;
    const nowMs = (Date.now() + 3_600_000) as UnixMillis;
    const asked = { nowMs, gapMs: minuteMs };
    const both = await Promise.all([takeTurn(sql, issuerId, asked), takeTurn(sql, issuerId, asked)]);
    expect(both.toSorted()).toEqual([false, true]);
    const isDueAt = async (atMs: number) => {
      const due = { nowMs: atMs as UnixMillis, gapMs: minuteMs, refreshMs: 10 * minuteMs, max: 100 };
      return (await dueFederations(sql, due)).includes(issuerId);
    };
    expect(await isDueAt(nowMs + minuteMs - 1)).toBe(false);
    expect(await isDueAt(nowMs + minuteMs)).toBe(true);
    // As if a clock had been a year ahead when they were read.
    const aheadMs = nowMs + 365 * 86_400_000;
    await sql`UPDATE federations SET asked_at_ms = ${aheadMs}, keys_at_ms = ${aheadMs} WHERE issuer_id = ${issuerId}`;
    expect(await isDueAt(nowMs)).toBe(true);
    expect(await takeTurn(sql, issuerId, asked)).toBe(true);
    expect(await takeTurn(sql, issuerId, asked)).toBe(false);
  });

  it('of one kid and algorithm verify nothing', async () => {
    const { provider, issuerId } = await registered();
    const gateId = await gate();
    await provider.addKey('RS256', 'twin');
    await provider.addKey('RS256', 'twin');
    await provider.addKey('ES256', 'twin');
    api.advance(2 * minuteMs);
    await refreshKeys(api.deps, issuerId);
    await sidecar.caughtUp();
    expect(await decide(gateId, await provider.sign())).toEqual(permit);
    expect(await decide(gateId, await provider.sign({}, { alg: 'ES256' }))).toEqual(permit);
    await provider.addKey('RS256', 'twin');
    expect(await decide(gateId, await provider.sign())).toEqual(block('passport_unknown_key'));
  });
});

describe('an issuer of others', () => {
  const create = (federation: object) => api.call({ url: '/v1/issuers', body: { name: 'x', federation } });

  it('is refused where its keys cannot be had, with the reason', async () => {
    const { provider } = await registered();
    const oidc = { type: 'oidc', issuer: provider.issuer, audiences: ['gate'] };
    const refusals: [object, string, RegExp][] = [
      [{ ...oidc, audiences: [] }, 'federation.audiences', /./],
      [{ ...oidc, issuer: `${provider.issuer}/` }, 'federation.issuer', /another issuer/],
      [{ ...oidc, issuer: 'not a url' }, 'federation.issuer', /URL/],
      [{ ...oidc, jwks_uri: 'http://127.0.0.1:1/' }, 'federation.jwks_uri', /could not be called/],
      [{ ...oidc, type: 'jwks' }, 'federation.jwks_uri', /needs jwks_uri or jwks/],
      [{ ...oidc, jwks: { keys: [] } }, 'federation.jwks', /has no key/],
      [{ ...oidc, jwks: { keys: [{ kty: 'oct', k: 'AAAA' }] } }, 'federation.jwks', /private or symmetric/],
      [{ ...oidc, algorithms: ['HS256'] }, 'federation.algorithms.0', /./],
      [{ ...oidc, claims: { agent_id: 'sub' } }, 'federation.claims.agent_id', /pointer/],
      [{ ...oidc, permissions: ['Orders'] }, 'federation.permissions', /area/],
      [{ ...oidc, max_key_age_s: 10 }, 'federation.max_key_age_s', /./],
      [{ ...oidc, type: 'jwt-svid', jwks: { keys: provider.keys } }, 'federation.issuer', /trust domain/],
    ];
    for (const [federation, param, message] of refusals) {
      const { status, body } = await create(federation);
      expect([federation, status, body.error?.param]).toEqual([federation, 400, param]);
      expect(body.error.message).toMatch(message);
    }
    provider.answer = (_request, response) => response.writeHead(302, { location: provider.issuer }).end();
    expect((await create(oidc)).body.error.message).toContain('answered 302');
    provider.answer = () => undefined;
    expect((await create(oidc)).body.error.message).toMatch(/no answer within/);
    provider.answer = null;
    const guarded = await startApi();
    try {
      const refused = await guarded.call({ url: '/v1/issuers', body: { name: 'x', federation: oidc } });
      expect(refused.body.error.message).toMatch(/only https is called/);
      const https = { ...oidc, jwks_uri: 'https://127.0.0.1/keys' };
      const inside = await guarded.call({ url: '/v1/issuers', body: { name: 'x', federation: https } });
      expect(inside.body.error.message).toMatch(/public address/);
    } finally {
      await guarded.close();
    }
  });

  it('says what a token would become, claim by claim', async () => {
    const { provider, issuerId } = await registered({ claims: { owner: '/email' } });
    const explain = async (token: string) =>
      (await api.call({ url: `/v1/issuers/${issuerId}/try-token`, body: { token } })).body;
    const good = await explain(await provider.sign({ email: 'ann@example.com' }));
    expect(good).toMatchObject({
      reason: null,
      passport: {
        agent_id: 'planner',
        owner: 'ann@example.com',
        permissions: ['orders:create'],
        trust_tier: 'L2',
      },
    });
    expect(good.steps.every((step: { is_good: boolean }) => step.is_good)).toBe(true);
    const bad = await explain(await provider.sign({ aud: 'other' }));
    expect(bad).toMatchObject({ reason: 'issuer_untrusted', passport: null });
    expect(bad.steps.at(-1)).toMatchObject({ claim: 'iss, aud', is_good: false });
    expect((await explain('nonsense')).reason).toBe('passport_malformed');
    expect((await api.call({ url: `/v1/passports?issuer_id=${issuerId}` })).body.total).toBe(0);
  });

  it('says what a gate would make of a token, and what it lacks there', async () => {
    const { provider, issuerId } = await registered();
    const other = await api.createIssuer();
    const made = async (change: object) => (await api.createGate(change)).gate_id as string;
    const token = await provider.sign();
    const key = makeAgentKey();
    const bound = await provider.sign({ cnf: { jwk: key.publicJwk } });
    const url = `/v1/issuers/${issuerId}/try-token`;
    const explain = async (gate_id: string, shown = token) =>
      (await api.call({ url, body: { token: shown, gate_id } })).body;
    const demanding = { proof_of_possession: 'required' };
    const gates = [
      [await made({}), token, null, 'gate.constraints.trusted_issuers'],
      [await made({ constraints: { trusted_issuers: [issuerId] } }), token, null],
      [await made({ constraints: { trusted_issuers: [other.issuer_id] } }), token, 'issuer_untrusted'],
      [await made({ trust_level: 'L3' }), token, 'trust_level_insufficient', 'gate.trust_level'],
      [await made({ constraints: demanding }), token, 'proof_invalid', 'cnf.jwk'],
      [await made({ constraints: demanding }), bound, null, 'cnf.jwk'],
    ] as const;
    for (const [gateId, shown, reason, claim = 'gate.constraints.trusted_issuers'] of gates) {
      const told = await explain(gateId, shown);
      expect(told).toMatchObject({ reason, passport: { agent_id: 'planner' } });
      expect(told.steps.at(-1)).toMatchObject({ claim, is_good: reason === null });
      // A check with a proof that is bad comes to the same; where nothing is wrong it asks for a good one.
      const proof = { dpop: 'a.b.c', method: 'POST', url: 'https://shop.example/' };
      const body = { passport: shown, request: { ...request, proof } };
      const checked = (await api.call({ url: `/v1/gates/${gateId}/check`, body })).body;
      expect(checked.reason).toBe(shown === bound ? 'proof_invalid' : reason);
    }
    expect((await explain(gates[0][0], 'nonsense')).reason).toBe('passport_malformed');
    expectError(await api.call({ url, body: { token, gate_id: 'gate_x' } }), 'gate_not_found');
    const { key: foreign } = await api.createAccount();
    const { gate_id: theirs } = await api.createGate({}, foreign);
    expectError(await api.call({ url, body: { token, gate_id: theirs } }), 'gate_not_found', 'gate_id');
    const { key: narrow } = await api.createKey({ scopes: ['issuers:read'] });
    const refused = await api.call({ url, body: { token, gate_id: gates[0][0] }, key: narrow });
    expectError(refused, 'insufficient_scope', 'gate_id');

    // An issuer of another account fits as well, at the gate that names it.
    const federation = { type: 'oidc', issuer: provider.issuer, audiences: ['gate'], trust_tier: 'L2' };
    const twin = await api.createIssuer({ name: 'Twin', federation }, foreign);
    const both = await made({ constraints: { trusted_issuers: ['own', twin.issuer_id] } });
    expect(await explain(both)).toMatchObject({ reason: 'issuer_untrusted', passport: null });
    expect((await explain(gates[0][0])).reason).toBe(null);
    await api.call({ method: 'PUT', url: `/v1/issuers/${issuerId}`, body: { status: 'suspended' } });
    const suspended = (await api.call({ url, body: { token } })).body;
    expect(suspended).toMatchObject({ reason: 'issuer_untrusted', passport: null });
    expect(suspended.steps.at(-1).becomes).toBe('This issuer is suspended.');
  });

  it('can change what its tokens become, at once for tokens that are known', async () => {
    const { provider, issuerId, issuer } = await registered();
    const gateId = await gate();
    const token = await provider.sign();
    expect(await decide(gateId, token)).toEqual(permit);
    const url = `/v1/issuers/${issuerId}`;
    const changed = await api.call({
      method: 'PUT',
      url,
      body: { federation: { ...issuer.federation, permissions: ['orders:read'] } },
    });
    expect(changed.body.federation.permissions).toEqual(['orders:read']);
    await sidecar.caughtUp();
    expect(await decide(gateId, token)).toEqual(block('permission_not_granted'));
    const other = { ...issuer.federation, issuer: 'https://other.example' };
    expect((await api.call({ method: 'PUT', url, body: { federation: other } })).status).toBe(400);
  });

  it('holds known subjects to constraints that are new, at sidecars that met them before', async () => {
    const { provider, issuerId, issuer } = await registered();
    const gateId = await gate();
    const token = await provider.sign();
    expect((await sidecar.check(gateId, token, request)).body.decision).toBe('PERMIT');
    const passportId = federatedPassportId(issuerId, 'planner');
    await until(async () => (await api.call({ url: `/v1/passports/${passportId}` })).body.use_count === 1, {
      what: 'the passport at the control plane',
    });
    for (const allowed of [2, 5]) {
      const constraints = { rate_limits: { requests_per_day: allowed } };
      const body = { federation: { ...issuer.federation, constraints } };
      expect((await api.call({ method: 'PUT', url: `/v1/issuers/${issuerId}`, body })).status).toBe(200);
      await sidecar.caughtUp();
      const decisions: string[] = [];
      for (let n = 0; n < 4; n++)
        decisions.push((await sidecar.check(gateId, token, request)).body.reason ?? 'PERMIT');
      // What the first limit let pass counts for the second.
      const permitted = allowed === 2 ? 2 : 3;
      expect(decisions).toEqual(decisions.map((_, n) => (n < permitted ? 'PERMIT' : 'rate_limit_exceeded')));
    }
  });

  it('verifies nothing with pasted keys for an algorithm that it no longer accepts', async () => {
    const { provider } = await registered();
    await provider.addKey('ES256', 'curve');
    const iss = 'https://pasted-keys.example';
    const issuer = await api.createIssuer({
      name: 'Pasted',
      federation: {
        type: 'jwks',
        issuer: iss,
        jwks: { keys: provider.keys },
        audiences: ['gate'],
        permissions: ['orders:create'],
      },
    });
    const gateId = await gate();
    const byCurve = await provider.sign({ iss });
    await provider.addKey('RS256', 'unpublished');
    expect(await decide(gateId, byCurve)).toEqual(permit);
    const change = (algorithms: string[]) =>
      api.call({
        method: 'PUT',
        url: `/v1/issuers/${issuer.issuer_id}`,
        body: { federation: { ...issuer.federation, algorithms } },
      });
    expect((await change(['RS256'])).body.federation.keys).toMatchObject([{ algorithm: 'RS256' }]);
    await sidecar.caughtUp();
    expect(await decide(gateId, byCurve)).toEqual(block('passport_unknown_key'));
    const refused = await change(['PS256']);
    expect([refused.status, refused.body.error.param]).toEqual([400, 'federation.jwks']);
  });
});

describe('Shared Signals', () => {
  const caep = 'https://schemas.openid.net/secevent/caep/event-type/';
  const risc = 'https://schemas.openid.net/secevent/risc/event-type/';
  const push = (issuerId: string, token: string, type = 'application/secevent+jwt') =>
    api.call({
      url: `/v1/issuers/${issuerId}/events`,
      key: null,
      body: token,
      headers: { 'content-type': type },
    });
  let made = 0;
  const event = (provider: ForeignProvider, type: string, subject: object, claims: object = {}) =>
    provider.signExactly(
      {
        iss: provider.issuer,
        aud: 'gate',
        iat: nowS(),
        jti: `event ${++made}`,
        events: { [type]: { subject } },
        ...claims,
      },
      { typ: 'secevent+jwt' },
    );

  it('suspend a subject, seen or not, and reactivate it', async () => {
    const { provider, issuerId } = await registered();
    const gateId = await gate();
    const about = (sub: string) => ({ format: 'iss_sub', iss: provider.issuer, sub });
    expect(await decide(gateId, await provider.sign())).toEqual(permit);
    const revoked = await event(provider, `${caep}session-revoked`, about('planner'));
    expect((await push(issuerId, revoked)).status).toBe(202);
    expect(
      (await push(issuerId, await event(provider, `${caep}credential-change`, about('unseen')))).status,
    ).toBe(202);
    await sidecar.caughtUp();
    for (const sub of ['planner', 'unseen'])
      expect(await decide(gateId, await provider.sign({ sub }))).toEqual(block('passport_suspended'));
    const enabled = await event(provider, `${risc}account-enabled`, about('planner'));
    expect((await push(issuerId, enabled)).status).toBe(202);
    await sidecar.caughtUp();
    expect(await decide(gateId, await provider.sign())).toEqual(permit);
    // The suspension counts, in whichever order one event names both.
    const both = await event(
      provider,
      '',
      {},
      {
        events: Object.fromEntries(
          [`${caep}session-revoked`, `${risc}account-enabled`].map((type) => [
            type,
            { subject: about('of two minds') },
          ]),
        ),
      },
    );
    expect((await push(issuerId, both)).status).toBe(202);
    await sidecar.caughtUp();
    expect(await decide(gateId, await provider.sign({ sub: 'of two minds' }))).toEqual(
      block('passport_suspended'),
    );
    // A repeat is accepted and changes nothing.
    expect((await push(issuerId, revoked)).status).toBe(202);
    await sidecar.caughtUp();
    expect(await decide(gateId, await provider.sign())).toEqual(permit);
    const entries = (await api.call({ url: `/v1/audit?operation=receiveSecurityEvent&target=${issuerId}` }))
      .body;
    expect(entries.entries).toHaveLength(4);
    expect(entries.entries[3]).toMatchObject({
      actor: { type: 'issuer', id: issuerId },
      after: { effects: ['suspend subject planner'] },
    });
  });

  it('reactivate nobody whom the issuer has suspended since', async () => {
    const { provider, issuerId } = await registered({ claims: { owner: '/email' } });
    const gateId = await gate();
    const subjects = [
      { format: 'iss_sub', iss: provider.issuer, sub: 'planner' },
      { format: 'email', email: 'ann@example.com' },
    ];
    const decideBoth = async () => [
      (await decide(gateId, await provider.sign())).reason,
      (await decide(gateId, await provider.sign({ sub: 'other', email: 'ann@example.com' }))).reason,
    ];
    const pushBoth = async (type: string, iat: number) => {
      for (const subject of subjects)
        expect((await push(issuerId, await event(provider, type, subject, { iat }))).status).toBe(202);
      await sidecar.caughtUp();
    };
    const suspendedS = nowS() - 60;
    await pushBoth(`${risc}account-disabled`, suspendedS);
    expect(await decideBoth()).toEqual(['passport_suspended', 'passport_suspended']);
    await pushBoth(`${risc}account-enabled`, suspendedS - 1);
    expect(await decideBoth()).toEqual(['passport_suspended', 'passport_suspended']);
    await pushBoth(`${risc}account-enabled`, suspendedS + 1);
    expect(await decideBoth()).toEqual([null, null]);
  });

  it('suspend an owner by address, and take events that they do not know', async () => {
    const { provider, issuerId } = await registered({ claims: { owner: '/email' } });
    const gateId = await gate();
    const token = await provider.sign({ sub: 'agent of bob', email: 'bob@example.com' });
    const disabled = await event(provider, `${risc}account-disabled`, {
      format: 'email',
      email: 'bob@example.com',
    });
    expect((await push(issuerId, disabled)).status).toBe(202);
    await sidecar.caughtUp();
    expect(await decide(gateId, token)).toEqual(block('passport_suspended'));
    const unknown = await event(provider, 'https://example.com/something-else', {});
    expect((await push(issuerId, unknown)).status).toBe(202);
  });

  it('are refused where they prove nothing', async () => {
    const { provider, issuerId } = await registered();
    const { provider: other } = await registered();
    const subject = { format: 'iss_sub', iss: provider.issuer, sub: 'planner' };
    const type = `${caep}session-revoked`;
    const refused: [string, string][] = [
      ['of another key', await event(other, type, subject, { iss: provider.issuer })],
      ['of another issuer', await event(provider, type, subject, { iss: other.issuer })],
      ['for another receiver', await event(provider, type, subject, { aud: 'other' })],
      ['without an id', await event(provider, type, subject, { jti: undefined })],
      ['of last month', await event(provider, type, subject, { iat: nowS() - 30 * 86_400 })],
      ['of tomorrow', await event(provider, type, subject, { iat: nowS() + 86_400 })],
      ['that is an access token', await provider.sign({ events: { [type]: { subject } } })],
      ['that is nonsense', 'nonsense'],
    ];
    for (const [what, token] of refused)
      expect([what, (await push(issuerId, token)).status]).toEqual([what, 400]);
    expect((await push(issuerId, await event(provider, type, subject), 'application/json')).status).toBe(400);
    expect((await push('iss_01m7w8f9fn41y1y6091p33efsg', 'x')).status).toBe(404);
    expect((await api.call({ url: `/v1/passports?issuer_id=${issuerId}` })).body.total).toBe(0);
  });
});
