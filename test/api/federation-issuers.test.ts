import { describe, expect, it, vi } from 'vitest';
import { dueFederations, takeTurn } from '../../control-plane/issuers/federation-store.ts';
import { refreshKeys } from '../../control-plane/issuers/follow-keys.ts';
import { issuersLimits } from '../../control-plane/issuers/limits.ts';
import { federatedPassportId } from '../../shared/crypto/federated-id.ts';
import { minuteMs, secondMs, type UnixMillis } from '../../shared/model/time.ts';
import { until } from '../support/base/until.ts';
import { makeAgentKey } from '../support/data/proofs.ts';
import type { ForeignProvider } from '../support/peers/foreign-issuer.ts';
import { startOwnApi } from '../support/service/api.ts';
import { expectError } from '../support/service/expect-error.ts';
import { startTestSidecar } from '../support/service/sidecar.ts';
import { block, nowS, permit, request, useFederation } from '../support/service/use-federation.ts';

const { api, sidecar, registered, pasted, decide, gate, untilUsed, setUp } = useFederation();

describe('the keys of another issuer', () => {
  it('are read again for an unknown kid, once a minute', async () => {
    const { provider, gateId } = await setUp();
    await provider.addKey('ES256');
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

  it('are read for an unknown kid at once after a reading that none has caused', async () => {
    const { provider, issuerId, gateId } = await setUp();
    const before = provider.keyRequests;
    expect(await refreshKeys(api.deps, issuerId, 'schedule')).toBe('read');
    await provider.addKey('ES256');
    const token = await provider.sign();
    await until(async () => (await sidecar.check(gateId, token, request)).body.decision === 'PERMIT', {
      what: 'the new key at the sidecar',
    });
    expect(provider.keyRequests).toBe(before + 2);
    expect(await refreshKeys(api.deps, issuerId)).toBeNull();
  });

  it('are read again for a kid that is of another key now', async () => {
    const { provider, gateId } = await setUp();
    const { kid, alg } = provider.keys[0] as { readonly kid: string; readonly alg: string };
    provider.keys = [];
    await provider.addKey(alg, kid);
    const token = await provider.sign();
    const before = provider.keyRequests;
    expect((await sidecar.check(gateId, token, request)).body.reason).toBe('passport_signature_invalid');
    await until(async () => (await sidecar.check(gateId, token, request)).body.decision === 'PERMIT', {
      what: 'the new key at the sidecar',
    });
    expect(provider.keyRequests).toBe(before + 1);
  });

  it('count where what stands beside them is odd, which is named', async () => {
    const { provider, issuerId, gateId } = await setUp();
    const shown = async () => (await api.call({ url: `/v1/issuers/${issuerId}` })).body.federation;
    const read = async () => {
      expect(await refreshKeys(api.deps, issuerId, 'schedule')).toBe('read');
      await sidecar.caughtUp();
      return decide(gateId, await provider.sign());
    };
    const [key] = provider.keys;
    provider.keys = [key ?? {}, { ...key, x5c: ['AAAA'] }, { ...key, kid: 'another name' }];
    expect(await read()).toEqual(permit);
    expect(await decide(gateId, await provider.sign({}, { kid: undefined }))).toEqual(permit);
    expect((await shown()).keys_fault).toBeNull();
    const odd = (text: string) => `\ufeff{"n":1e999,"n":12345678901234567890,"keys":${text}}`;
    const entries = [{ kty: 'oct', k: 'AAAA', kid: 'hmac' }, key, ...Array.from({ length: 64 }, () => key)];
    const documents = [
      [odd(JSON.stringify(entries)), /symmetric key.*65 keys; at most 64/],
      [odd(JSON.stringify(provider.keys).replace('{', '{"x":1e400,"x5c":1312345678901234561,')), null],
    ] as const;
    for (const [document, fault] of documents) {
      provider.answer = (asked, response) =>
        response.end(
          asked.url === '/keys'
            ? document
            : odd(`[],"issuer":"${provider.issuer}","jwks_uri":"${provider.issuer}/keys"`),
        );
      expect(await read()).toEqual(permit);
      expect((await shown()).keys_fault).toEqual(fault === null ? null : expect.stringMatching(fault));
    }
    // So does whoever registers it; what is pasted is refused.
    const body = {
      name: 'x',
      federation: { type: 'jwks', issuer: 'https://odd.example', audiences: ['odd'] },
    };
    const made = await api.createIssuer({
      ...{ name: 'x', federation: { ...body.federation, jwks_uri: `${provider.issuer}/keys` } },
    });
    expect(made.federation).toMatchObject({ keys_fault: null });
    const pasting = { ...body, federation: { ...body.federation, jwks: { keys: entries } } };
    expectError(await api.call({ url: '/v1/issuers', body: pasting }), 'invalid_request', 'federation.jwks');
  });

  it('end with their withdrawal, also for tokens that verified before', async () => {
    const { provider, issuerId, gateId } = await setUp();
    const token = await provider.sign();
    expect(await decide(gateId, token)).toEqual(permit);
    provider.keys = [];
    await provider.addKey('ES256');
    api.advance(2 * minuteMs);
    expect(await refreshKeys(api.deps, issuerId)).toBe('read');
    await sidecar.caughtUp();
    expect(await decide(gateId, token)).toEqual(block('passport_unknown_key'));
  });

  it('stay through an outage up to max_key_age_s, and then block', async () => {
    const { provider, issuerId, gateId } = await setUp({ max_key_age_s: 300 });
    for (const text of [null, '{"keys": []}', `{"keys": ["${'x'.repeat(300_000)}"]}`]) {
      provider.answer = (_request, response) =>
        text === null ? response.writeHead(500).end() : response.end(text);
      api.advance(minuteMs + 5 * secondMs);
      expect(await refreshKeys(api.deps, issuerId)).toBe('failed');
      await sidecar.caughtUp();
      expect(await decide(gateId, await provider.sign())).toEqual(permit);
    }
    const { federation } = (await api.call({ url: `/v1/issuers/${issuerId}` })).body;
    expect(federation.keys_fault).toContain('answered more than');
    api.advance(3 * minuteMs);
    await sidecar.caughtUp();
    expect(await decide(gateId, await provider.sign())).toEqual(block('issuer_keys_stale'));
    provider.answer = null;
    expect(await refreshKeys(api.deps, issuerId)).toBe('read');
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
    const { provider, issuerId, gateId } = await setUp({ max_key_age_s: 300 });
    const token = await provider.sign();
    expect(await decide(gateId, token)).toEqual(permit);
    // Ahead, and they are read there.
    api.advance(10 * minuteMs);
    await sidecar.caughtUp();
    expect(await decide(gateId, token)).toEqual(block('issuer_keys_stale'));
    expect(await refreshKeys(api.deps, issuerId)).toBe('read');
    await sidecar.caughtUp();
    expect(await decide(gateId, token)).toEqual(permit);
    // Back again, while the provider is away.
    provider.answer = (_request, response) => response.writeHead(500).end();
    api.advance(-10 * minuteMs);
    await sidecar.caughtUp();
    expect(await decide(gateId, token)).toEqual(block('issuer_keys_stale'));
    expect(await refreshKeys(api.deps, issuerId)).toBe('failed');
    expect(await decide(gateId, token)).toEqual(block('issuer_keys_stale'));
    provider.answer = null;
    api.advance(2 * minuteMs);
    expect(await refreshKeys(api.deps, issuerId)).toBe('read');
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
    const { provider, issuerId, gateId } = await setUp();
    await provider.addKey('ES256', 'twin');
    await provider.addKey('ES256', 'twin');
    await provider.addKey('EdDSA', 'twin');
    api.advance(2 * minuteMs);
    await refreshKeys(api.deps, issuerId);
    await sidecar.caughtUp();
    expect(await decide(gateId, await provider.sign())).toEqual(permit);
    await provider.addKey('ES256', 'twin');
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
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    const asked = new Promise<void>((resolve) => {
      provider.answer = () => resolve();
    });
    const late = create(oidc);
    await asked;
    vi.advanceTimersByTime(issuersLimits.keyCallMsMax);
    vi.useRealTimers();
    expect((await late).body.error.message).toMatch(/no answer within/);
    provider.answer = null;
    const guarded = await startOwnApi();
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
      passport: { agent_id: 'planner', owner: 'ann@example.com', permissions: ['orders:create'] },
    });
    expect(good.steps.every((step: { is_good: boolean }) => step.is_good)).toBe(true);
    const bad = await explain(await provider.sign({ aud: 'other' }));
    expect(bad).toMatchObject({ reason: 'issuer_untrusted', passport: null });
    expect(bad.steps.at(-1)).toMatchObject({ claim: 'iss, aud', is_good: false });
    expect((await explain('nonsense')).reason).toBe('passport_malformed');
    expect((await api.call({ url: `/v1/passports?issuer_id=${issuerId}` })).body.total).toBe(0);
  });

  it('says of each token that a gate refuses why it does, and where a claim went', async () => {
    const claims = { permissions: '/groups', owner: '/email', trust_tier: '/tier' };
    const { provider, issuerId, gateId } = await setUp({
      claims,
      permission_map: { 'Team A': ['orders:read'] },
    });
    const explain = async (token: string) =>
      (await api.call({ url: `/v1/issuers/${issuerId}/try-token`, body: { token, gate_id: gateId } })).body;
    const good = await provider.sign();
    const { kid } = provider.keys[0] as { kid: string };
    // The clock of the service was moved by others.
    const nowS = Math.floor(api.deps.clock.now() / secondMs);
    const ahead = nowS + 600;
    const refused: [string, string, string, RegExp][] = [
      ['/iat', 'passport_not_yet_valid', await provider.sign({ iat: ahead }), /not valid before/],
      ['/nbf', 'passport_not_yet_valid', await provider.sign({ nbf: ahead }), /not valid before/],
      [
        '/exp',
        'passport_not_yet_valid',
        await provider.sign({ iat: undefined, exp: nowS + 25 * 3_600 }),
        /not valid/,
      ],
      ['/exp', 'passport_expired', await provider.sign({ iat: nowS - 9, exp: nowS - 1 }), /ended/],
      ['aud', 'passport_malformed', await provider.sign({ aud: undefined }), /missing/],
      ['iss, aud', 'issuer_untrusted', await provider.sign({ aud: [['gate']] }), /takes/],
      [
        'header',
        'passport_malformed',
        await provider.sign({ note: 'x'.repeat(8 * 1024) }),
        /longer than 8192/,
      ],
      ['header', 'passport_malformed', `${good}\n`, /base64url/],
      ['header', 'passport_malformed', await provider.sign({}, { typ: 'logout+jwt' }), /Typ must be/],
      ['header.kid', 'passport_unknown_key', await provider.sign({}, { kid: `${kid}x` }), /no single key/],
      ['signature', 'passport_signature_invalid', `${good.slice(0, -8)}AAAAAAAA`, /verify/],
      ['/tier', 'passport_malformed', await provider.sign({ tier: 'gold' }), /one of L1/],
      ['/email', 'passport_malformed', await provider.sign({ email: 7 }), /1 to 256/],
      ['/sub', 'passport_malformed', await provider.sign({ sub: 'spiffe://x/a/../b' }), /URI/],
    ];
    for (const [claim, reason, token, words] of refused) {
      const told = await explain(token);
      expect(told).toMatchObject({ reason, passport: null });
      expect(told.steps.at(-1)).toMatchObject({
        claim,
        is_good: false,
        becomes: expect.stringMatching(words),
      });
      expect(await decide(gateId, token)).toEqual(block(reason));
    }
    const elsewhere = { endpoint: 'https://graph.example/groups' };
    const said: [object, RegExp][] = [
      [{ groups: 'Team A' }, /split at its blanks/],
      [{ hasgroups: true }, /too many \(hasgroups\)/],
      [{ _claim_names: { groups: 'src1' }, _claim_sources: { src1: elsewhere } }, /graph\.example/],
      [{ _claim_names: { groups: 'src1' } }, /another place/],
    ];
    for (const [more, words] of said) {
      const told = await explain(await provider.sign({ ...more }));
      expect(told).toMatchObject({ reason: null, passport: { trust_tier: 'L1', owner: null } });
      const step = told.steps.find((each: { claim: string }) => each.claim === '/groups');
      expect(step.becomes).toMatch(words);
    }
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

  it('holds known subjects to constraints that are new, at sidecars that met them before', async () => {
    const { provider, issuerId, issuer, gateId } = await setUp();
    const token = await provider.sign();
    expect((await sidecar.check(gateId, token, request)).body.decision).toBe('PERMIT');
    const passportId = federatedPassportId(issuerId, 'planner');
    await untilUsed(passportId, 1);
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
    const body = { federation: { ...issuer.federation, issuer: 'https://other.example' } };
    expect((await api.call({ method: 'PUT', url: `/v1/issuers/${issuerId}`, body })).status).toBe(400);
  });

  it('verifies nothing with pasted keys for an algorithm that it no longer accepts', async () => {
    const { provider } = await registered({}, 'EdDSA');
    await provider.addKey('ES256', 'curve');
    const iss = 'https://pasted-keys.example';
    const issuer = await pasted(provider, { issuer: iss });
    const gateId = await gate();
    const byCurve = await provider.sign({ iss });
    await provider.addKey('ES256', 'unpublished');
    expect(await decide(gateId, byCurve)).toEqual(permit);
    const change = (algorithms: string[]) => {
      const body = { federation: { ...issuer.federation, algorithms } };
      return api.call({ method: 'PUT', url: `/v1/issuers/${issuer.issuer_id}`, body });
    };
    expect((await change(['EdDSA'])).body.federation.keys).toMatchObject([{ algorithm: 'EdDSA' }]);
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
  const taken = async (issuerId: string, ...tokens: readonly string[]) => {
    for (const token of tokens) expect((await push(issuerId, token)).status).toBe(202);
    await sidecar.caughtUp();
  };
  let made = 0;
  const event = (provider: ForeignProvider, type: string, subject: object, claims: object = {}) =>
    provider.signExactly(
      {
        ...{ iss: provider.issuer, aud: 'gate', iat: nowS(), jti: `event ${++made}` },
        ...{ events: { [type]: { subject } }, ...claims },
      },
      { typ: 'secevent+jwt' },
    );

  it('suspend a subject, seen or not, and reactivate it', async () => {
    const { provider, issuerId, gateId } = await setUp();
    const about = (sub: string) => ({ format: 'iss_sub', iss: provider.issuer, sub });
    expect(await decide(gateId, await provider.sign())).toEqual(permit);
    const revoked = await event(provider, `${caep}session-revoked`, about('planner'));
    await taken(issuerId, revoked, await event(provider, `${caep}credential-change`, about('unseen')));
    for (const sub of ['planner', 'unseen'])
      expect(await decide(gateId, await provider.sign({ sub }))).toEqual(block('passport_suspended'));
    await taken(issuerId, await event(provider, `${risc}account-enabled`, about('planner')));
    expect(await decide(gateId, await provider.sign())).toEqual(permit);
    // The suspension counts, in whichever order one event names both.
    const subject = about('of two minds');
    const events = { [`${caep}session-revoked`]: { subject }, [`${risc}account-enabled`]: { subject } };
    await taken(issuerId, await event(provider, '', {}, { events }));
    expect(await decide(gateId, await provider.sign({ sub: 'of two minds' }))).toEqual(
      block('passport_suspended'),
    );
    // A repeat is accepted and changes nothing.
    await taken(issuerId, revoked);
    expect(await decide(gateId, await provider.sign())).toEqual(permit);
    const url = `/v1/audit?operation=receiveSecurityEvent&target=${issuerId}`;
    const { entries } = (await api.call({ url })).body;
    expect(entries).toHaveLength(4);
    expect(entries[3]).toMatchObject({
      actor: { type: 'issuer', id: issuerId },
      after: { effects: ['suspend subject planner'] },
    });
  });

  it('reactivate nobody whom the issuer has suspended since', async () => {
    const { provider, issuerId, gateId } = await setUp({ claims: { owner: '/email' } });
    const subjects = [
      { format: 'iss_sub', iss: provider.issuer, sub: 'planner' },
      { format: 'email', email: 'ann@example.com' },
    ];
    const decideBoth = async () => [
      (await decide(gateId, await provider.sign())).reason,
      (await decide(gateId, await provider.sign({ sub: 'other', email: 'ann@example.com' }))).reason,
    ];
    const pushBoth = async (type: string, iat: number) => {
      for (const subject of subjects) await taken(issuerId, await event(provider, type, subject, { iat }));
    };
    const suspendedS = nowS() - 60;
    await pushBoth(`${risc}account-disabled`, suspendedS);
    expect(await decideBoth()).toEqual(['passport_suspended', 'passport_suspended']);
    await pushBoth(`${risc}account-enabled`, suspendedS - 1);
    expect(await decideBoth()).toEqual(['passport_suspended', 'passport_suspended']);
    await pushBoth(`${risc}account-enabled`, suspendedS + 1);
    expect(await decideBoth()).toEqual([null, null]);
    // What nobody knows is taken, and does nothing.
    await taken(issuerId, await event(provider, 'https://example.com/something-else', {}));
    expect(await decideBoth()).toEqual([null, null]);
  });

  it('say whom they are about in each format, or are refused for a sender to read', async () => {
    const { provider, issuerId, gateId } = await setUp({ claims: { owner: '/email' } });
    const type = `${caep}session-revoked`;
    const aliases = [{ format: 'jwt_id' }, { format: 'account', uri: 'acct:Bo@example.com' }];
    await taken(issuerId, await event(provider, type, { format: 'aliases', identifiers: aliases }));
    expect(await decide(gateId, await provider.sign({ email: 'bo@example.com' }))).toEqual(
      block('passport_suspended'),
    );
    const other = await event(provider, 'https://example.com/other', { format: 'new', id: '\u0000' });
    await taken(issuerId, other);
    const { entries } = (await api.call({ url: `/v1/audit?target=${issuerId}` })).body;
    expect(entries[0].after).toMatchObject({
      effects: [],
      without_effect: [{ type: 'https://example.com/other', subject: expect.stringContaining('"new"') }],
    });
    const planner = { format: 'iss_sub', iss: provider.issuer, sub: 'planner' };
    const told = { sub_id: { ...planner, sub: 'another' } };
    const refused: [string, string, string][] = [
      ['sub_id', 'invalid_request', await event(provider, type, { format: 'jwt_id', iss: 'x', jti: 'y' })],
      ['sub_id', 'invalid_request', await event(provider, type, planner, told)],
      [
        'sub_id',
        'invalid_request',
        await event(provider, type, { format: 'phone_number', phone_number: '+1' }),
      ],
      ['iss', 'invalid_issuer', await event(provider, type, planner, { iss: 'https://other.example' })],
      ['aud', 'invalid_audience', await event(provider, type, planner, { aud: [['gate']] })],
      [
        'signature',
        'authentication_failed',
        `${(await event(provider, type, planner)).slice(0, -8)}AAAAAAAA`,
      ],
      ['body', 'invalid_request', 'nonsense'],
    ];
    for (const [param, err, token] of refused) {
      const answer = await push(issuerId, token);
      expectError(answer, 'invalid_request', param);
      expect(answer.body.err).toBe(err);
      expect(answer.headers['content-language']).toBe('en');
    }
    expect((await push('iss_01m7w8f9fn41y1y6091p33efsg', 'x')).body.err).toBe('invalid_issuer');
    await api.call({ method: 'PUT', url: `/v1/issuers/${issuerId}`, body: { status: 'suspended' } });
    const late = await push(issuerId, await event(provider, type, planner));
    expect([late.status, late.body.err]).toEqual([400, 'access_denied']);
  });

  it('are judged by a key that is new, or put off until it can be read', async () => {
    const { provider, issuerId, gateId } = await setUp();
    const about = (sub: string) =>
      event(provider, `${caep}session-revoked`, { format: 'iss_sub', iss: provider.issuer, sub });
    const isSuspended = async (sub: string) =>
      expect(await decide(gateId, await provider.sign({ sub }))).toEqual(block('passport_suspended'));
    expect(await refreshKeys(api.deps, issuerId, 'schedule')).toBe('read');
    await provider.addKey('ES256');
    await taken(issuerId, await about('first'));
    await isSuspended('first');
    // The provider changes its keys again, and the minute of unknown keys is not over.
    await provider.addKey('ES256');
    const second = await about('second');
    const waiting = await push(issuerId, second);
    expectError(waiting, 'service_unavailable');
    expect(Number(waiting.headers['retry-after'])).toBeGreaterThan(30);
    expect(waiting.body.err).toBeUndefined();
    provider.answer = (_request, response) => response.writeHead(500).end();
    api.advance(minuteMs);
    const failed = await push(issuerId, second);
    expect([failed.status, Number(failed.headers['retry-after'])]).toEqual([503, 60]);
    provider.answer = null;
    api.advance(minuteMs);
    await taken(issuerId, second);
    await isSuspended('second');
    // What is unknown by keys that were read for it is unknown.
    api.advance(minuteMs);
    const made = await event(provider, `${caep}session-revoked`, {}, {});
    const [header = '', ...rest] = made.split('.');
    const head = JSON.parse(Buffer.from(header, 'base64url').toString());
    const renamed = Buffer.from(JSON.stringify({ ...head, kid: 'unknown' })).toString('base64url');
    const unknown = await push(issuerId, [renamed, ...rest].join('.'));
    expect([unknown.status, unknown.body.err]).toEqual([400, 'invalid_key']);
  });

  it('wait for keys that were read for them, whenever another replica says that it has read some', async () => {
    const { provider, issuerId } = await setUp();
    const about = (sub: string) =>
      event(provider, `${caep}session-revoked`, { format: 'iss_sub', iss: provider.issuer, sub });
    const read = provider.keyRequests;
    // Its clock is ahead, or it has asked before the keys changed and stores them just now.
    for (const aheadMs of [5 * secondMs, 0]) {
      await provider.addKey('ES256');
      const nowMs = api.deps.clock.now();
      await api.deps.sql`
        UPDATE federations SET asked_at_ms = ${nowMs}, keys_at_ms = ${nowMs + aheadMs}
        WHERE issuer_id = ${issuerId}`;
      expectError(await push(issuerId, await about('early')), 'service_unavailable');
    }
    expect(provider.keyRequests).toBe(read);
    // Nor where they could not be read for it.
    provider.answer = (_request, response) => response.writeHead(500).end();
    const late = await about('late');
    const aheadMs = api.deps.clock.now() + 5 * secondMs;
    await api.deps.sql`
      UPDATE federations SET asked_at_ms = 0, keys_at_ms = ${aheadMs} WHERE issuer_id = ${issuerId}`;
    expectError(await push(issuerId, late), 'service_unavailable');
    provider.answer = null;
    api.advance(minuteMs);
    await taken(issuerId, late);
  });

  it('are judged by another key of the same kid, and refused by that one', async () => {
    const { provider, issuerId } = await setUp();
    const { kid, alg } = provider.keys[0] as { readonly kid: string; readonly alg: string };
    const about = (sub: string) =>
      event(provider, `${caep}session-revoked`, { format: 'iss_sub', iss: provider.issuer, sub });
    const former = await about('former');
    provider.keys = [];
    await provider.addKey(alg, kid);
    await taken(issuerId, await about('renewed'));
    // Within the minute nobody knows whether it has changed once more.
    expectError(await push(issuerId, former), 'service_unavailable');
    api.advance(minuteMs);
    const refused = await push(issuerId, former);
    expect([refused.status, refused.body.description]).toEqual([400, expect.stringMatching(/signature/)]);
  });

  it('without a kid are judged by a key that took the place of another', async () => {
    const { provider, issuerId } = await registered();
    provider.keys = [];
    await provider.addKey('ES256', 'next');
    const claims = { iss: provider.issuer, aud: 'gate', iat: nowS(), jti: 'of no kid', events: { x: {} } };
    await taken(issuerId, await provider.signExactly(claims, { typ: 'secevent+jwt', kid: undefined }));
    const keys = [{ ...provider.keys[0], kid: undefined }];
    const own = await pasted({ ...provider, keys }, { issuer: 'https://own.example' });
    await provider.addKey('ES256', 'unpublished');
    const told = { ...claims, iss: 'https://own.example' };
    const signed = await provider.signExactly(told, { typ: 'secevent+jwt', kid: undefined });
    expect((await push(own.issuer_id, signed)).body).toMatchObject({ err: 'invalid_key' });
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
