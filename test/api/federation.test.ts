import { createHmac } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { lockIssuer } from '../../control-plane/issuers/issuer-store.ts';
import { federatedPassportId } from '../../shared/crypto/federated-id.ts';
import { must } from '../../shared/errors/assert.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { LoggedIn } from '../support/service/api.ts';
import { expectError } from '../support/service/expect-error.ts';
import { startTestSidecar } from '../support/service/sidecar.ts';
import { block, nowS, permit, request, useFederation } from '../support/service/use-federation.ts';

const { api, sidecar, registered, pasted, decide, evaluateNamed, gate, untilUsed, setUp } = useFederation();

describe('a token of another issuer', () => {
  it('is a passport', async () => {
    const { provider, issuerId } = await registered();
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
    expect(await decide(gateId, await provider.sign({ jti: 'another token' }))).toEqual(permit);
    await untilUsed(passportId, 6);
    const listed = (await api.call({ url: `/v1/passports?issuer_id=${issuerId}` })).body.items;
    expect(listed).toMatchObject([{ passport_id: passportId, federated: true }]);
  });

  it('gets its permissions, tier and owner from its claims', async () => {
    const { provider, issuerId } = await registered({
      permissions: [],
      claims: { agent_id: '/azp', permissions: '/realm_access/roles', trust_tier: '/tier', owner: '/email' },
      permission_map: { buyer: ['orders:create', 'orders:read'], clerk: ['orders:read'] },
      constraints: { spend_limits: { per_transaction_usd: 5 } },
    });
    const gateId = await gate();
    const sign = (claims: object) =>
      provider.sign({ azp: 'shop', email: 'ann@example.com', tier: 'L3', ...claims });
    const buyer = await sign({ realm_access: { roles: ['buyer', 'unmapped'] } });
    expect(await decide(gateId, buyer)).toEqual(permit);
    // As the scopes of an access token are written.
    expect(await decide(gateId, await sign({ realm_access: { roles: 'other buyer' } }))).toEqual(permit);
    expect(await decide(gateId, buyer, { ...request, amount: 6 })).toEqual(block('spend_limit_exceeded'));
    for (const claims of [{ realm_access: { roles: ['clerk'] } }, {}])
      expect(await decide(gateId, await sign(claims))).toEqual(block('permission_not_granted'));
    for (const claims of [{ realm_access: { roles: 7 } }, { azp: undefined }, { email: ['ann'] }])
      expect(await decide(gateId, await sign(claims))).toEqual(block('passport_malformed'));
    expect(await decide(await gate({ trust_level: 'L3' }), buyer)).toEqual(block('trust_level_insufficient'));
    const passportId = federatedPassportId(issuerId, 'shop');
    const shown = (await api.call({ url: '/v1/passports?owner=ann%40example.com' })).body.items;
    expect(shown.map((each: { passport_id: string }) => each.passport_id)).toEqual([passportId]);
  });

  it('shares one counter with all tokens of its subject', async () => {
    const { provider, gateId } = await setUp({ constraints: { rate_limits: { requests_per_day: 3 } } });
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
    const body = { passport: token, request };
    const answer = await api.call({ url: `/v1/gates/${gate_id}/check`, key: other.key, body });
    expect(answer.body.reason).toBe('passport_malformed');
    const test = (await api.createKey({ scopes: ['admin:*'], mode: 'test' })).key;
    const inTest = await api.call({ url: '/v1/enforce', key: test, body });
    expect(inTest.body.reason).toBe('issuer_untrusted');
    expect((await sidecar.check(null, token, request, test)).body.reason).toBe('issuer_untrusted');
  });
});

describe('the subject of another issuer', () => {
  it('is seen while its issuer is locked: an event about it would wait for its row', async () => {
    const { provider, issuerId, gateId } = await setUp();
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
    const { provider, issuerId, gateId } = await setUp();
    expect(await decide(gateId, await provider.sign())).toEqual(permit);
    const passportId = federatedPassportId(issuerId, 'planner');
    await api.call({ url: `/v1/passports/${passportId}/revoke?wait_ms=5000`, body: {} });
    expect(await decide(gateId, await provider.sign({ jti: 'later' }))).toEqual(block('passport_revoked'));
    await api.call({ url: `/v1/passports/${passportId}/reactivate`, body: {} });
    await sidecar.caughtUp();
    expect(await decide(gateId, await provider.sign({ jti: 'last' }))).toEqual(permit);
  });

  it('has a passport whatever names other passports have taken', async () => {
    const { provider, issuerId, gateId } = await setUp();
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
    const { provider, issuerId, gateId } = await setUp({ claims: { owner: '/team' } });
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
    const { provider, issuerId, gateId } = await setUp();
    expect(await decide(gateId, await provider.sign({ sub: 'unnamed' }))).toEqual(permit);
    const passportId = federatedPassportId(issuerId, 'unnamed');
    expect((await api.call({ url: `/v1/passports/${passportId}` })).body.agent_id).toBe('unnamed');
    const longest = 'a'.repeat(255);
    expect(await decide(gateId, await provider.sign({ sub: longest }))).toEqual(permit);
    for (const filter of ['agent_id', 'agent_name'])
      expect((await api.call({ url: `/v1/passports?${filter}=${longest}` })).body.total).toBe(1);
    for (const id of ['unnamed', passportId])
      expectError(await evaluateNamed(gateId, id), 'passport_not_found', 'subject.id');
  });

  it('is suspended with its owner, and so is a passport of our own', async () => {
    const { provider, gateId } = await setUp({ claims: { owner: '/team' } });
    const own = await api.issuePassport({ owner: 'team a', permissions: ['orders:create'] });
    expect(own.owner).toBe('team a');
    const ofTeam = (sub: string) => provider.sign({ sub, team: 'team a' });
    expect(await decide(gateId, await ofTeam('one'))).toEqual(permit);
    expect(await decide(gateId, own.jwt)).toEqual(permit);
    const suspended = await api.call({ url: '/v1/owners/team%20a/suspend', body: {} });
    expect(suspended.body).toMatchObject({ owner: 'team a', status: 'suspended', passports: 2 });
    await sidecar.caughtUp();
    for (const token of [await ofTeam('one'), await ofTeam('not seen before'), own.jwt])
      expect(await decide(gateId, token)).toEqual(block('passport_suspended'));
    expect(await decide(gateId, await provider.sign({ team: 'team b' }))).toEqual(permit);
    const verified = await api.call({ url: `/v1/passports/${own.passport_id}/verify` });
    expect(verified.body).toMatchObject({ valid: false, reason: 'owner_suspended' });
    const named = await evaluateNamed(gateId, own.agent_id);
    expect(named.body).toMatchObject({ decision: false, context: { reason: 'passport_suspended' } });
    const asked = { subject: { type: 'agent' }, action: { name: 'orders:create' } };
    const { body: found } = await api.call({
      url: '/access/v1/search/subject',
      body: { ...asked, resource: { type: 'gate', id: gateId } },
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
      const url = `/v1/approvals/${approvalId}`;
      const { body } = await api.call({ url, key: null, headers: owner.headers });
      expect(body.you).toMatchObject({ may_answer: false, why_not: 'requester' });
    }
  });

  it('is decided on while the control plane is away, and known to it afterwards', async () => {
    const { provider, issuerId, gateId } = await setUp();
    sidecar.link.cut();
    const token = await provider.sign({ sub: 'unseen' });
    expect((await sidecar.check(gateId, token, request)).body.decision).toBe('PERMIT');
    const passportId = federatedPassportId(issuerId, 'unseen');
    expect((await api.call({ url: `/v1/passports/${passportId}` })).status).toBe(404);
    sidecar.link.restore();
    await untilUsed(passportId, 1);
  });
});

describe('a hostile token', () => {
  it('is never permitted, whatever form it takes', async () => {
    const { provider, issuerId, gateId } = await setUp({}, 'RS256');
    const good = await provider.sign();
    expect(await decide(gateId, good)).toEqual(permit);
    const [header = '', payload = '', signature = ''] = good.split('.');
    const encode = (value: unknown) =>
      Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64url');
    const head = JSON.parse(Buffer.from(header, 'base64url').toString());
    const withHead = (change: object) => `${encode({ ...head, ...change })}.${payload}.${signature}`;
    const [key] = provider.keys as [Record<string, string>];
    const hmacHead = encode({ ...head, alg: 'HS256' });
    const hmac = createHmac('sha256', String(key['n'])).update(`${hmacHead}.${payload}`).digest('base64url');
    const claims = JSON.parse(Buffer.from(payload, 'base64url').toString());
    const twice = encode(`{"iss":"${claims.iss}","sub":"other",${JSON.stringify(claims).slice(1)}`);
    const admin = encode({ ...claims, sub: 'admin' });
    const typed = (typ: string) => provider.sign({}, { typ });
    const longAgo = { iat: nowS() - 30 * 3_600, nbf: nowS() };
    const rows: [string, string, string][] = [
      ['no algorithm', `${encode({ ...head, alg: 'none' })}.${payload}.`, 'passport_malformed'],
      ['HMAC by the public key', `${hmacHead}.${payload}.${hmac}`, 'passport_malformed'],
      ['PS256 with a key for RS256', withHead({ alg: 'PS256' }), 'passport_unknown_key'],
      ['ES256 with an RSA key', withHead({ alg: 'ES256' }), 'passport_unknown_key'],
      ['RS384', withHead({ alg: 'RS384' }), 'passport_malformed'],
      ['a kid that is a path', withHead({ kid: '../../dev/null' }), 'passport_unknown_key'],
      ['a kid that is a list', withHead({ kid: [head.kid] }), 'passport_malformed'],
      ['jku', withHead({ jku: 'https://evil.example/keys' }), 'passport_malformed'],
      ['an embedded key', withHead({ jwk: key }), 'passport_malformed'],
      ['crit', withHead({ crit: ['exp'] }), 'passport_malformed'],
      ['the type of our own passports', await typed('passport+jwt'), 'passport_malformed'],
      ['the type with a prefix', await typed('application/Passport+JWT'), 'passport_malformed'],
      ['a security event', await typed('secevent+jwt'), 'passport_malformed'],
      ['duplicate members', `${header}.${twice}.${signature}`, 'passport_malformed'],
      ['another payload', `${header}.${admin}.${signature}`, 'passport_signature_invalid'],
      ['padding', `${header}=.${payload}.${signature}`, 'passport_malformed'],
      ['another audience', await provider.sign({ aud: 'other' }), 'issuer_untrusted'],
      ['an audience that contains ours', await provider.sign({ aud: 'gateway' }), 'issuer_untrusted'],
      ['no audience', await provider.sign({ aud: undefined }), 'passport_malformed'],
      ['another issuer', await provider.sign({ iss: `${provider.issuer}/` }), 'issuer_untrusted'],
      ['a list of issuers', await provider.sign({ iss: [provider.issuer] }), 'issuer_untrusted'],
      ['no end', await provider.sign({ exp: undefined }), 'passport_malformed'],
      ['an end that is text', await provider.sign({ exp: `${nowS() + 60}` }), 'passport_malformed'],
      ['a life of more than a day', await provider.sign({ exp: nowS() + 25 * 3_600 }), 'passport_malformed'],
      ['a life hidden by nbf', await provider.sign(longAgo), 'passport_malformed'],
      [
        'its end before its start',
        await provider.sign({ iat: nowS() - 60, exp: nowS() - 1 }),
        'passport_expired',
      ],
      ['its begin before it', await provider.sign({ nbf: nowS() + 600 }), 'passport_not_yet_valid'],
      ['a begin in iat', await provider.sign({ iat: nowS() + 600 }), 'passport_not_yet_valid'],
      ['a subject with a line break', await provider.sign({ sub: 'a\nb' }), 'passport_malformed'],
      ['no subject', await provider.sign({ sub: undefined }), 'passport_malformed'],
      ['a subject of 300 characters', await provider.sign({ sub: 'a'.repeat(300) }), 'passport_malformed'],
    ];
    for (const [what, token, reason] of rows)
      expect([what, await decide(gateId, token)]).toEqual([what, block(reason)]);
    expect((await api.call({ url: `/v1/passports?issuer_id=${issuerId}` })).body.total).toBe(1);
  });

  it('of one issuer is no token of another with the same key', async () => {
    const { provider, gateId } = await setUp();
    const iss = 'https://second.example';
    const second = await pasted(provider, { issuer: iss, audiences: ['second'] });
    expect(await decide(gateId, await provider.sign({ iss, aud: 'second' }))).toEqual(permit);
    expect(await decide(gateId, await provider.sign({ iss }))).toEqual(block('issuer_untrusted'));
    expect(await decide(gateId, await provider.sign({ aud: 'second' }))).toEqual(block('issuer_untrusted'));
    // Both fit now: neither is taken, also of a token that was known.
    const token = await provider.sign({ iss, aud: 'second' });
    expect(await decide(gateId, token)).toEqual(permit);
    const third = await pasted(provider, { issuer: iss, audiences: ['second', 'x'] });
    expect(await decide(gateId, token)).toEqual(block('issuer_untrusted'));
    const suspended = { method: 'PUT', url: `/v1/issuers/${third.issuer_id}`, body: { status: 'suspended' } };
    expect((await api.call(suspended)).status).toBe(200);
    await sidecar.caughtUp();
    expect(await decide(gateId, token)).toEqual(permit);
    expect(second.federation.keys).toHaveLength(1);
  });

  it('is no passport any more once its subject lies in a trust domain that is registered too', async () => {
    const { provider, gateId } = await setUp();
    const token = await provider.sign({ sub: 'spiffe://both.example/shop' });
    expect(await decide(gateId, token)).toEqual(permit);
    await pasted(provider, { type: 'jwt-svid', issuer: 'both.example' });
    expect(await decide(gateId, token)).toEqual(block('issuer_untrusted'));
  });

  it('is no JWT-SVID of another trust domain', async () => {
    const { provider, gateId } = await setUp();
    const subjects = ['spiffe://example.org/agents/*'];
    await pasted(provider, { type: 'jwt-svid', issuer: 'example.org', subjects });
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
    for (const path of ['agents/../admin', 'agents/./shop', 'agents//shop', 'agents/%2e%2e/admin', 'agents/'])
      expect([path, await decide(gateId, await svid(`spiffe://example.org/${path}`))]).toEqual([
        ...[path, block('passport_malformed')],
      ]);
  });
});
