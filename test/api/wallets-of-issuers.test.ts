import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { federatedPassportId } from '../../shared/crypto/federated-id.ts';
import type { IssuerId } from '../../shared/model/ids.ts';
import { until, untilAnswer } from '../support/base/until.ts';
import { type ForeignProvider, startForeignProvider } from '../support/peers/foreign-issuer.ts';
import { startOwnApi } from '../support/service/api.ts';
import { goToNoon } from '../support/service/approvals.ts';
import { expectError } from '../support/service/expect-error.ts';
import { startTestSidecar } from '../support/service/sidecar.ts';
import { isPassing } from '../support/service/sidecar-pair.ts';
import { brokenRules } from '../support/service/sound-database.ts';
import { expectSoundStore } from '../support/service/test-sidecar.ts';
import { useApi, useSidecar } from '../support/service/use-api.ts';
import { makeWallet, moveToWallet, walletOf } from '../support/service/wallets.ts';

const api = useApi(startOwnApi);
let provider: ForeignProvider;
beforeAll(() => goToNoon(api));
const sidecar = useSidecar(() => ({ api, quotaWaitMs: 1_000 }));
beforeAll(async () => {
  provider = await startForeignProvider();
  await provider.addKey('ES256');
});
afterAll(() => provider.close());
afterAll(async () => {
  expect(await brokenRules(api.deps.sql)).toEqual({});
  await expectSoundStore(api);
});

let made = 0;
/** An issuer of others of its own `iss`, and its tokens. */
async function register(body: object = {}, federation: object = {}) {
  const iss = `https://provider-${++made}.example`;
  const issuer = await api.createIssuer({
    name: `Provider ${made}`,
    ...body,
    federation: {
      type: 'jwks',
      issuer: iss,
      jwks: { keys: provider.keys },
      audiences: ['gate'],
      permissions: ['orders:create'],
      ...federation,
    },
  });
  const nowS = () => Math.floor(api.deps.clock.now() / 1_000);
  return {
    issuer,
    issuerId: issuer.issuer_id as IssuerId,
    sign: (sub: string) =>
      provider.signExactly({
        iss,
        sub,
        aud: 'gate',
        iat: nowS(),
        exp: nowS() + 3_600,
        jti: `${Math.random()}`,
      }),
  };
}

async function newGate(): Promise<string> {
  const { gate_id } = await api.createGate();
  await sidecar.caughtUp();
  return gate_id;
}

const request = { permission_key: 'orders:create', amount: 1 };

/** As a client does, it asks again where the sidecar is busy. */
async function decide(gateId: string, token: string, asked: object = request) {
  const { body } = await untilAnswer(
    () => sidecar.check(gateId, token, asked),
    (reply) => !isPassing(reply),
    { what: 'an answer that stays' },
  );
  return { decision: body.decision, reason: body.reason };
}

const walletOfPassport = async (passportId: string) =>
  (await api.call({ url: `/v1/passports/${passportId}` })).body.wallet_id;

const change = async (issuerId: string, body: object) => {
  const reply = await api.call({ method: 'PUT', url: `/v1/issuers/${issuerId}`, body });
  await sidecar.caughtUp();
  return reply;
};

const permit = { decision: 'PERMIT', reason: null };
const block = (reason: string) => ({ decision: 'BLOCK', reason });

describe('the wallet of an issuer', () => {
  it('pays for each subject of a provider from its first decision on', async () => {
    const wallet = await makeWallet(api, { limits: { daily_usd: 4 } });
    const { issuer, issuerId, sign } = await register({}, { wallet_id: wallet.wallet_id });
    expect(issuer.wallet_id).toBe(wallet.wallet_id);
    const gateId = await newGate();
    const decisions: string[] = [];
    for (const subject of ['ann', 'ben', 'cat', 'ann', 'dan', 'eve'])
      decisions.push((await decide(gateId, await sign(subject))).decision);
    expect(decisions).toEqual(['PERMIT', 'PERMIT', 'PERMIT', 'PERMIT', 'BLOCK', 'BLOCK']);
    const here = await api.call({
      url: `/v1/gates/${gateId}/check`,
      body: { passport: await sign('seen by the control plane first'), request },
    });
    expect(here.body.reason).toBe('wallet_limit_exceeded');
    await until(async () => (await walletOf(api, wallet.wallet_id)).usage.daily_usd.used === 4, {
      what: 'what was taken in the ledger',
    });
    expect(await walletOfPassport(federatedPassportId(issuerId, 'ann'))).toBe(wallet.wallet_id);
    const records = await api.call({ url: `/v1/attestations?gate_id=${gateId}&decision=PERMIT` });
    for (const record of records.body.attestations) expect(record.wallet_id).toBe(wallet.wallet_id);
  });

  it('is the one of subjects that come from now on; others stay where they are', async () => {
    const [first, second, chosen] = [
      await makeWallet(api, { limits: {} }),
      await makeWallet(api, { limits: { daily_usd: 1 } }),
      await makeWallet(api, { limits: {} }),
    ];
    const { issuerId, sign } = await register();
    const gateId = await newGate();
    const idOf = (subject: string) => federatedPassportId(issuerId, subject);
    const met = async (subject: string) => {
      const decided = await decide(gateId, await sign(subject));
      await until(
        async () => (await api.call({ url: `/v1/passports/${idOf(subject)}` })).body.use_count > 0,
        { what: 'its record' },
      );
      return decided;
    };
    expect(await met('before')).toEqual(permit);
    expect((await change(issuerId, { wallet_id: first.wallet_id })).body.wallet_id).toBe(first.wallet_id);
    expect(await met('first')).toEqual(permit);
    expect((await moveToWallet(api, idOf('first'), chosen.wallet_id)).status).toBe(200);
    await change(issuerId, { wallet_id: second.wallet_id });
    expect(await met('second')).toEqual(permit);
    expect(await decide(gateId, await sign('second'))).toEqual(block('wallet_limit_exceeded'));
    // With none again, those that have one are still held to it.
    expect((await change(issuerId, { wallet_id: null })).body.wallet_id).toBeNull();
    expect(await met('after')).toEqual(permit);
    expect(await decide(gateId, await sign('second'))).toEqual(block('wallet_limit_exceeded'));
    for (const subject of ['before', 'first']) expect(await met(subject)).toEqual(permit);
    const wallets = await Promise.all(
      ['before', 'first', 'second', 'after'].map((subject) => walletOfPassport(idOf(subject))),
    );
    expect(wallets).toEqual([null, chosen.wallet_id, second.wallet_id, null]);
    const later = await startTestSidecar({ api, quotaWaitMs: 1_000 });
    try {
      await later.caughtUp();
      const token = await sign('second');
      const { body } = await untilAnswer(
        () => later.check(gateId, token, request),
        (reply) => !isPassing(reply),
        { what: 'an answer that stays' },
      );
      expect(body.reason).toBe('wallet_limit_exceeded');
    } finally {
      await later.close();
      later.removeFolder();
    }
  });

  it('permits no subject outside of it while the control plane is away', async () => {
    const wallet = await makeWallet(api, { limits: { daily_usd: 1 } });
    const { sign } = await register({ wallet_id: wallet.wallet_id });
    const gateId = await newGate();
    const token = await sign('unseen');
    sidecar.link.cut();
    const reply = await sidecar.check(gateId, token, request);
    expect(reply.body.decision ?? reply.body.error.code).not.toBe('PERMIT');
    sidecar.link.restore();
    await sidecar.caughtUp();
    expect(await decide(gateId, token)).toEqual(permit);
    expect(await decide(gateId, token)).toEqual(block('wallet_limit_exceeded'));
  });

  it('pays for passports that are issued here, unless they name another or none', async () => {
    const wallet = await makeWallet(api, { limits: { daily_usd: 1 } });
    const other = await makeWallet(api, { limits: {} });
    const issuer = await api.createIssuer({ wallet_id: wallet.wallet_id });
    const { issuer_id: issuerId } = issuer;
    const gateId = await newGate();
    const passports = [
      await api.issuePassport({ issuer_id: issuerId }),
      await api.issuePassport({ issuer_id: issuerId, wallet_id: other.wallet_id }),
      await api.issuePassport({ issuer_id: issuerId, wallet_id: null }),
    ];
    expect(passports.map((each) => each.wallet_id)).toEqual([wallet.wallet_id, other.wallet_id, null]);
    expect(await decide(gateId, passports[0].jwt)).toEqual(permit);
    expect(await decide(gateId, passports[0].jwt)).toEqual(block('wallet_limit_exceeded'));
    for (const { jwt } of passports.slice(1)) expect(await decide(gateId, jwt)).toEqual(permit);
  });

  it('is not deleted while it is one, and is one of the own account and mode', async () => {
    const wallet = await makeWallet(api, { limits: {} });
    const issuer = await api.createIssuer({ wallet_id: wallet.wallet_id });
    const remove = { method: 'DELETE', url: `/v1/wallets/${wallet.wallet_id}` };
    const refused = await api.call(remove);
    expectError(refused, 'invalid_request');
    expect(refused.body.error.message).toContain('1 issuers');
    expect((await change(issuer.issuer_id, { wallet_id: null })).status).toBe(200);
    expect((await api.call(remove)).status).toBe(200);
    const stranger = await api.createAccount();
    const foreign = await makeWallet(api, { limits: {} }, stranger.key);
    const testKey = (await api.createKey({ scopes: ['admin:*'], mode: 'test' })).key;
    const ofTest = await makeWallet(api, { limits: {} }, testKey);
    for (const id of [wallet.wallet_id, foreign.wallet_id, ofTest.wallet_id, 'wal_x']) {
      expectError(await change(issuer.issuer_id, { wallet_id: id }), 'wallet_not_found', 'wallet_id');
      const body = { name: 'None', wallet_id: id };
      expectError(await api.call({ url: '/v1/issuers', body }), 'wallet_not_found', 'wallet_id');
    }
    const { issuerId } = await register();
    const federation = { type: 'jwks', issuer: `https://provider-${made}.example`, audiences: ['gate'] };
    const both = { wallet_id: null, federation: { ...federation, wallet_id: foreign.wallet_id } };
    expectError(await change(issuerId, both), 'invalid_request', 'wallet_id');
  });
});
