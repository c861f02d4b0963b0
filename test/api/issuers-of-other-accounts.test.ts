import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { sha256Hex } from '../../shared/crypto/content-hash.ts';
import { federatedPassportId } from '../../shared/crypto/federated-id.ts';
import type { IssuerId } from '../../shared/model/ids.ts';
import { until, untilAnswer } from '../support/base/until.ts';
import { spooledRecord } from '../support/data/spooled-record.ts';
import { type ForeignProvider, startForeignProvider } from '../support/peers/foreign-issuer.ts';
import { StreamClient } from '../support/peers/stream-client.ts';
import { startOwnApi } from '../support/service/api.ts';
import { expectError } from '../support/service/expect-error.ts';
import { startTestEmbedded, startTestSidecar, type TestSidecar } from '../support/service/sidecar.ts';
import { brokenRules } from '../support/service/sound-database.ts';
import { connectSidecar, expectSoundStore } from '../support/service/test-sidecar.ts';
import { useApi, useSidecar } from '../support/service/use-api.ts';
import { makeWallet, moveToWallet } from '../support/service/wallets.ts';

const api = useApi(() => startOwnApi({ outbound: { allowPrivate: true } }));
/** The account whose gates trust issuers of the operator's account, and its sidecar. */
let trusting: { readonly accountId: string; readonly key: string };
const providers: ForeignProvider[] = [];
beforeAll(async () => {
  trusting = await api.createAccount();
});
const sidecar = useSidecar(() => ({ api, accountKey: trusting.key, quotaWaitMs: 1_000 }));
afterAll(async () => {
  expect(await brokenRules(api.deps.sql)).toEqual({});
  await expectSoundStore(api);
  await Promise.all(providers.map((each) => each.close()));
});

async function newProvider(alg = 'ES256'): Promise<ForeignProvider> {
  const provider = await startForeignProvider();
  providers.push(provider);
  await provider.addKey(alg);
  return provider;
}

const federationOf = ({ issuer }: ForeignProvider, settings: object = {}) => ({
  ...{ type: 'oidc', issuer, audiences: ['gate'], permissions: ['orders:create'], trust_tier: 'L2' },
  ...settings,
});
/** An issuer of others of the operator's account, or of the account whose key is given. */
async function register(provider: ForeignProvider, settings: object = {}, key = api.adminKey) {
  const federation = federationOf(provider, settings);
  const issuer = await api.createIssuer({ name: 'A provider', federation }, key);
  return issuer.issuer_id as IssuerId;
}

/** A gate of the trusting account. */
async function gate(trusted: readonly string[] | null, change: object = {}): Promise<string> {
  const constraints = trusted === null ? {} : { trusted_issuers: trusted };
  const { gate_id } = await api.createGate({ constraints, ...change }, trusting.key);
  await sidecar.caughtUp();
  return gate_id;
}

async function changeGate(gateId: string, trusted: readonly string[]): Promise<void> {
  const body = { constraints: { trusted_issuers: trusted } };
  const reply = await api.call({ method: 'PUT', url: `/v1/gates/${gateId}`, key: trusting.key, body });
  expect(reply.status, JSON.stringify(reply.body)).toBe(200);
  await sidecar.caughtUp();
}

async function changeIssuer(issuerId: string, body: object, key = api.adminKey): Promise<void> {
  const reply = await api.call({ method: 'PUT', url: `/v1/issuers/${issuerId}`, key, body });
  expect(reply.status, JSON.stringify(reply.body)).toBe(200);
  await sidecar.caughtUp();
}

const request = { permission_key: 'orders:create', amount: 1 };
const permit = { decision: 'PERMIT', reason: null };
const block = (reason: string) => ({ decision: 'BLOCK', reason });

/** What both programs decide; they must agree. */
async function decide(gateId: string | null, token: string, asked: object = request) {
  const path = gateId === null ? '/v1/enforce' : `/v1/gates/${gateId}/check`;
  const here = await api.call({ url: path, key: trusting.key, body: { passport: token, request: asked } });
  const there = await atSidecar(sidecar, gateId, token, asked);
  expect(here.status, JSON.stringify(here.body)).toBe(200);
  const [one, other] = [here.body, there].map(({ decision, reason }) => ({ decision, reason }));
  expect(other).toEqual(one);
  return other;
}

/** As a client does, it asks again where the sidecar is busy. */
async function atSidecar(at: TestSidecar, gateId: string | null, token: string, asked: object = request) {
  const reply = await untilAnswer(
    () => at.check(gateId, token, asked, trusting.key),
    ({ status, body }) => status === 200 && body.reason !== 'quota_unavailable',
    { what: 'a decision' },
  );
  return reply.body;
}

describe('an issuer of others of another account', () => {
  it('is known at gates that name it by its id, and nowhere else', async () => {
    const provider = await newProvider();
    const unnamed = await gate(['*']);
    const issuerId = await register(provider);
    const token = await provider.sign();
    expect(await decide(unnamed, token)).toEqual(block('passport_malformed'));
    const named = await gate([issuerId], { trust_level: 'L2' });
    expect(await decide(named, token)).toEqual(permit);
    expect(await decide(unnamed, token)).toEqual(block('passport_malformed'));
    expect(await decide(null, token)).toEqual(block('passport_malformed'));
    expect(await decide(await gate(['own']), token)).toEqual(block('passport_malformed'));
    // Tokens of this service are what they are everywhere.
    const own = await api.issuePassport({}, trusting.key);
    expect(await decide(await gate(['own', issuerId]), own.jwt)).toEqual(permit);
    expect(await decide(named, own.jwt)).toEqual(block('trust_level_insufficient'));
    const passportId = federatedPassportId(issuerId, 'planner');
    await until(async () => (await api.call({ url: `/v1/passports/${passportId}` })).body.use_count === 2, {
      what: 'the PERMITs of both programs in the chain of the passport, which its account reads',
    });
    const foreign = await api.call({ url: `/v1/passports/${passportId}`, key: trusting.key });
    expectError(foreign, 'passport_not_found');
    const issuer = await api.call({ url: `/v1/issuers/${issuerId}`, key: trusting.key });
    expectError(issuer, 'issuer_not_found');
    const url = `/v1/attestations?gate_id=${named}`;
    const records = await api.call({ url, key: trusting.key });
    expect(records.status, JSON.stringify(records.body)).toBe(200);
    expect(records.body.attestations.map((each: { passport_id: string }) => each.passport_id)).toContain(
      passportId,
    );
  });

  it('is known at every way in', async () => {
    const provider = await newProvider();
    const issuerId = await register(provider);
    const gateId = await gate([issuerId]);
    const token = await provider.sign();
    expect(await decide(gateId, token)).toEqual(permit);
    const fresh = (jti: string) => provider.sign({ jti });
    const batch = await sidecar.call({
      path: `/v1/gates/${gateId}/check/batch`,
      key: trusting.key,
      body: { checks: [{ passport: await fresh('batch'), request }] },
    });
    expect(batch.body.results).toMatchObject([permit]);
    const evaluation = {
      subject: { type: 'agent', id: 'planner', properties: { passport: await fresh('authzen') } },
      action: { name: 'orders:create', properties: { amount: 1 } },
      resource: { type: 'gate', id: gateId },
    };
    const path = '/access/v1/evaluation';
    const evaluated = await sidecar.call({ path, key: trusting.key, body: evaluation });
    expect(evaluated.body.decision).toBe(true);
    expect((await api.call({ url: path, key: trusting.key, body: evaluation })).body.decision).toBe(true);
    const stream = await StreamClient.open(sidecar.origin, trusting.key);
    expect(await stream.ask({ gate_id: gateId, passport: await fresh('stream'), request })).toMatchObject(
      permit,
    );
    stream.socket.close();
    const forwarded = await sidecar.call({
      path: `/${gateId}`,
      key: null,
      headers: { 'x-agent-passport': await fresh('proxy') },
    });
    expect(forwarded.headers['x-gate-reason']).toBe('permission_missing');
    const tested = await api.call({
      url: `/v1/gates/${gateId}/test`,
      key: trusting.key,
      body: { passport_token: await fresh('test'), context: request },
    });
    expect(tested.body, JSON.stringify(tested.body)).toMatchObject({ decision: 'allow' });
    const inProcess = await startTestEmbedded({ api, accountKey: trusting.key, quotaWaitMs: 1_000 });
    expect(await atSidecar(inProcess, gateId, await fresh('in process'))).toMatchObject(permit);
    await inProcess.close();
    inProcess.removeFolder();
  });

  it('must be the only one to fit, among those that the gate knows', async () => {
    const provider = await newProvider();
    const third = await api.createAccount();
    const one = await register(provider);
    const other = await register(provider, { audiences: ['gate', 'other'] }, third.key);
    const both = await gate([one, other]);
    const first = await gate([one]);
    const second = await gate([other]);
    const token = await provider.sign();
    const forOther = await provider.sign({ aud: 'other' });
    for (let turn = 0; turn < 2; turn++) {
      expect(await decide(both, token)).toEqual(block('issuer_untrusted'));
      expect(await decide(first, token)).toEqual(permit);
      expect(await decide(second, token)).toEqual(permit);
      expect(await decide(both, forOther)).toEqual(permit);
      expect(await decide(first, forOther)).toEqual(block('issuer_untrusted'));
    }
    // Each maps it as its own account does.
    const uses = async (issuerId: IssuerId, key: string) => {
      const id = federatedPassportId(issuerId, 'planner');
      return (await api.call({ url: `/v1/passports/${id}`, key })).body.use_count;
    };
    await until(async () => (await uses(one, api.adminKey)) === 4 && (await uses(other, third.key)) === 8, {
      what: 'the records of each PERMIT in the chain of its own passport',
    });
    // The own registration of the same provider is known at all gates.
    const own = await register(provider, {}, trusting.key);
    await sidecar.caughtUp();
    expect(await decide(first, token)).toEqual(block('issuer_untrusted'));
    expect(await decide(await gate(null), token)).toEqual(permit);
    await changeIssuer(own, { status: 'suspended' }, trusting.key);
    expect(await decide(first, token)).toEqual(permit);
    // A gate that begins to name another one that fits has tokens verified anew.
    await changeGate(first, [one, other]);
    expect(await decide(first, token)).toEqual(block('issuer_untrusted'));
    await changeGate(first, [one]);
    expect(await decide(first, token)).toEqual(permit);
    await changeGate(first, ['own']);
    expect(await decide(first, token)).toEqual(block('issuer_untrusted'));
  });

  it('is of its mode', async () => {
    const provider = await newProvider();
    const testKey = (await api.createKey({ scopes: ['admin:*'], mode: 'test' })).key;
    const inTest = await register(provider, {}, testKey);
    expect(await decide(await gate([inTest]), await provider.sign())).toMatchObject({ decision: 'BLOCK' });
  });

  it('ends what its account ends, at gates of others too', async () => {
    const provider = await newProvider();
    const owning = await api.createAccount();
    const issuerId = await register(provider, { claims: { owner: '/team' } }, owning.key);
    const gateId = await gate([issuerId]);
    const token = await provider.sign({ team: 'buyers' });
    expect(await decide(gateId, token)).toEqual(permit);
    const post = async (url: string, key: string) => {
      const reply = await api.call({ url: `/v1${url}`, key, body: {} });
      await sidecar.caughtUp();
      return reply.status;
    };
    const passport = `/passports/${federatedPassportId(issuerId, 'planner')}`;
    // The account of the gate ends nothing there.
    expect(await post(`${passport}/suspend`, trusting.key)).toBe(404);
    expect(await post('/owners/buyers/suspend', trusting.key)).toBe(200);
    expect(await decide(gateId, token)).toEqual(permit);
    expect(await post('/owners/buyers/suspend', owning.key)).toBe(200);
    expect(await decide(gateId, token)).toEqual(block('passport_suspended'));
    expect(await post('/owners/buyers/reactivate', owning.key)).toBe(200);
    expect(await decide(gateId, token)).toEqual(permit);
    expect(await post(`${passport}/revoke`, owning.key)).toBe(200);
    expect(await decide(gateId, await provider.sign({ team: 'buyers' }))).toEqual(block('passport_revoked'));
    expect(await post(`${passport}/reactivate`, owning.key)).toBe(200);
    expect(await decide(gateId, token)).toEqual(permit);
    await changeIssuer(issuerId, { status: 'suspended' }, owning.key);
    expect(await decide(gateId, token)).toMatchObject({ decision: 'BLOCK' });
    await changeIssuer(issuerId, { status: 'active' }, owning.key);
    expect(await decide(gateId, token)).toEqual(permit);
    const account = { method: 'PUT', url: `/v1/accounts/${owning.accountId}`, body: { status: 'suspended' } };
    expect((await api.call(account)).status).toBe(200);
    await sidecar.caughtUp();
    expect(await decide(gateId, token)).toEqual(block('passport_suspended'));
  });

  it('takes from its own wallets and limits, at sidecars of others too', async () => {
    const provider = await newProvider();
    const issuerId = await register(provider, { constraints: { spend_limits: { daily_usd: 6 } } });
    const gateId = await gate([issuerId]);
    const token = await provider.sign();
    expect(await decide(gateId, token)).toEqual(permit);
    const wallet = await makeWallet(api, { limits: { daily_usd: 3 } });
    const passportId = federatedPassportId(issuerId, 'planner');
    expect((await moveToWallet(api, passportId, wallet.wallet_id)).status).toBe(200);
    await sidecar.caughtUp();
    expect(await decide(gateId, token)).toEqual(permit);
    const third = await atSidecar(sidecar, gateId, token);
    expect(third.decision).toBe('PERMIT');
    expect(await atSidecar(sidecar, gateId, token)).toMatchObject(block('wallet_limit_exceeded'));
    expect((await moveToWallet(api, passportId, null)).status).toBe(200);
    await sidecar.caughtUp();
    expect((await atSidecar(sidecar, gateId, token)).decision).toBe('PERMIT');
    expect(await atSidecar(sidecar, gateId, token)).toMatchObject(block('spend_limit_exceeded'));
  });

  it('is known to a sidecar that starts later, with what has changed since', async () => {
    const provider = await newProvider();
    const issuerId = await register(provider);
    const gateId = await gate([issuerId]);
    const early = await provider.sign();
    expect(await decide(gateId, early)).toEqual(permit);
    provider.keys.splice(0);
    await provider.addKey('ES256');
    await changeIssuer(issuerId, { federation: federationOf(provider, { audiences: ['moved'] }) });
    const later = await startTestSidecar({ api, accountKey: trusting.key, quotaWaitMs: 1_000 });
    try {
      await later.caughtUp();
      const moved = await provider.sign({ aud: 'moved' });
      for (const each of [sidecar, later]) {
        expect(await atSidecar(each, gateId, early)).toMatchObject(block('issuer_untrusted'));
        expect(await atSidecar(each, gateId, moved)).toMatchObject(permit);
      }
      const [body] = (await api.changes(trusting.accountId))
        .filter(({ body: { federation: told } }) => told?.issuer_id === issuerId)
        .map(({ body: { federation: told } }) => told.settings);
      expect(body.audiences).toEqual(['gate']);
      expect(body).not.toHaveProperty('jwks_uri');
    } finally {
      await later.close();
      later.removeFolder();
    }
  });

  it('is as it was told last while a sidecar is cut off, for subjects that were seen', async () => {
    const provider = await newProvider();
    const issuerId = await register(provider);
    const gateId = await gate([issuerId]);
    const token = await provider.sign();
    const cut = await startTestSidecar({ api, bus: null, accountKey: trusting.key });
    try {
      await cut.caughtUp();
      expect(await atSidecar(cut, gateId, token)).toMatchObject(permit);
      cut.link.cut();
      // Weaker, by another key, and with more granted: nothing of it is known there.
      await provider.addKey('RS256', 'weaker');
      provider.keys.splice(0, 1);
      const more = { algorithms: ['RS256'], permissions: ['orders:*', 'refunds:create'] };
      await changeIssuer(issuerId, { federation: federationOf(provider, more) });
      const weak = await provider.sign();
      expect((await cut.check(gateId, weak, request, trusting.key)).body.reason).toBe('passport_unknown_key');
      expect((await cut.check(gateId, token, request, trusting.key)).body).toMatchObject(permit);
      // A subject that the control plane has not seen gets no PERMIT: its record would be of nobody.
      cut.link.restore();
      await cut.caughtUp();
      expect(await atSidecar(cut, gateId, token)).toMatchObject(block('passport_unknown_key'));
      expect(await atSidecar(cut, gateId, weak)).toMatchObject(permit);
      cut.link.cut();
      const unseen = await provider.sign({ sub: 'unseen' });
      const answer = await cut.check(gateId, unseen, request, trusting.key);
      expect(answer.body.decision ?? answer.body.error.code).not.toBe('PERMIT');
      cut.link.restore();
      expect(await atSidecar(cut, gateId, unseen)).toMatchObject(permit);
    } finally {
      cut.link.restore();
      await cut.close();
      cut.removeFolder();
    }
  });

  it('has no passports but those whose tokens a sidecar of another account has shown', async () => {
    const provider = await newProvider();
    const issuerId = await register(provider);
    const unnamed = await register(provider, { audiences: ['elsewhere'] });
    const gateId = await gate([issuerId]);
    const connected = await connectSidecar(api, { key: trusting.key });
    const show = async (tokens: readonly string[], issuer: string) => {
      const shown = tokens.map((token) => ({ token, mode: 'live', issuer_id: issuer }));
      const body = { tokens: shown, unknown_keys: [] };
      return (await api.call({ url: '/v1/sync/tokens', key: connected.key, body })).body;
    };
    const record = async (subject: string, token: string) => {
      const sender = await connectSidecar(api, { key: trusting.key });
      const nowMs = api.deps.clock.now();
      const passportId = federatedPassportId(issuerId, subject);
      const sent = {
        ...{ ...spooledRecord(), id: api.deps.random.newId('att', nowMs), gate_id: gateId },
        ...{ chain_id: passportId, passport_id: passportId, token_hash: sha256Hex(token) },
        ...{ federated: { issuer_id: issuerId, subject }, timestamp_ms: nowMs },
      };
      return sender.send(1, [sent]);
    };
    const isTaken = async (subject: string, token: string) =>
      (await record(subject, token)).body.error === undefined;
    const good = await provider.sign({ sub: 'shown' });
    expect(await isTaken('shown', good)).toBe(false);
    const forged = good.replace(/.{6}$/, 'AAAAAA');
    expect(await show([forged, 'nonsense'], issuerId)).toEqual({ seen: 0 });
    const elsewhere = await provider.sign({ aud: 'elsewhere', sub: 'elsewhere' });
    expect(await show([elsewhere], unnamed)).toEqual({ seen: 0 });
    expect(await show([good], issuerId)).toEqual({ seen: 1 });
    expect(await isTaken('shown', good)).toBe(true);
    expect(await isTaken('made up', good)).toBe(false);
    // Known by now, and shown by another account alone.
    const theirs = await provider.sign({ sub: 'theirs' });
    const { gate_id: theirGate } = await api.createGate();
    const check = { url: `/v1/gates/${theirGate}/check`, body: { passport: theirs, request } };
    expect((await api.call(check)).body.decision).toBe('PERMIT');
    expect(await isTaken('theirs', theirs)).toBe(false);
    const foreign = await api.call({
      url: `/v1/issuers/${unnamed}/revoke-subject`,
      key: trusting.key,
      body: { subject: 'elsewhere' },
    });
    expectError(foreign, 'issuer_not_found');
  });

  it('may be named whether it exists or not, and up to a bound', async () => {
    const provider = await newProvider('EdDSA');
    const pasted = { type: 'jwks', jwks: { keys: provider.keys } };
    const third = await api.createAccount();
    const fourth = await api.createAccount();
    const ids: string[] = [];
    for (let n = 0; n < 33; n++) ids.push(await register(provider, pasted, third.key));
    const create = (trusted_issuers: readonly string[]) => {
      const body = { name: 'Many', trust_level: 'L1', constraints: { trusted_issuers } };
      return api.call({ url: '/v1/gates', key: fourth.key, body });
    };
    expect((await create(['iss_01m7w8f9fn41y1y6091p33efsg'])).status).toBe(201);
    expect((await create(ids.slice(0, 32))).status).toBe(201);
    expectError(await create(ids.slice(32)), 'invalid_request', 'constraints.trusted_issuers');
    expect((await create(ids.slice(0, 1))).status).toBe(201);
  });
});
