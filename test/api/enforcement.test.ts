import { beforeAll, describe, expect, it } from 'vitest';
import { openPassportToken, signPassportToken } from '../../shared/crypto/passport-token.ts';
import { must } from '../../shared/errors/assert.ts';
import { makeId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { type Reply, startOwnApi } from '../support/service/api.ts';
import { expectError } from '../support/service/expect-error.ts';
import { useApi } from '../support/service/use-api.ts';

const api = useApi(startOwnApi);
let accountId: string;
beforeAll(async () => {
  accountId = (await api.call({ url: '/v1/accounts' })).body.items[0].account_id;
});

const order = { permission_key: 'orders:create', amount: 12.5 };

async function storedRecord(attestationId: string): Promise<Reply['body']> {
  const [row] = await api.deps.sql`
    SELECT chain_id, sequence, passport_id, gate_id, decision, reason, amount_micro_usd, constraints_evaluated, test, source
    FROM attestations WHERE attestation_id = ${attestationId}`;
  return must(row, 'the record is committed before the answer');
}

const check = (gateId: string, passport: string, request: object = order): Promise<Reply> =>
  api.call({ url: `/v1/gates/${gateId}/check`, body: { passport, request } });

const statsOf = async (gateId: string) => (await api.call({ url: `/v1/gates/${gateId}` })).body.stats;
const useCountOf = async (passportId: string) =>
  (await api.call({ url: `/v1/passports/${passportId}` })).body.use_count;

describe('POST /gates/:id/check', () => {
  it.each(['application/x-www-form-urlencoded', ';;', null])(
    'reads its body as JSON when the Content-Type is %j, as the sidecar does',
    async (contentType) => {
      const gate = await api.createGate();
      const { jwt } = await api.issuePassport();
      const response = await api.app.inject({
        method: 'POST',
        url: `/v1/gates/${gate.gate_id}/check`,
        headers: {
          authorization: `Bearer ${api.adminKey}`,
          ...(contentType === null ? {} : { 'content-type': contentType }),
        },
        payload: JSON.stringify({ passport: jwt, request: order }),
      });
      expect(response.json()).toMatchObject({ decision: 'PERMIT' });
    },
  );

  it('answers a PERMIT whose record is in the chain of the passport', async () => {
    const gate = await api.createGate();
    const passport = await api.issuePassport();
    const reply = await check(gate.gate_id, passport.jwt);
    expect(reply).toMatchObject({ status: 200, body: { decision: 'PERMIT', reason: null } });
    expect(await storedRecord(reply.body.attestation_id)).toEqual({
      chain_id: passport.passport_id,
      sequence: 1,
      passport_id: passport.passport_id,
      gate_id: gate.gate_id,
      decision: 'PERMIT',
      reason: null,
      amount_micro_usd: 12_500_000,
      constraints_evaluated: ['passport', 'trust_level', 'issuer', 'permission'],
      test: false,
      source: 'control-plane',
    });
  });

  it('puts what does not verify into the chain of the gate, without a passport', async () => {
    const gate = await api.createGate();
    const passport = await api.issuePassport();
    const reply = await check(gate.gate_id, `${passport.jwt}A`);
    expect(await storedRecord(reply.body.attestation_id)).toMatchObject({
      chain_id: gate.gate_id,
      passport_id: null,
      gate_id: gate.gate_id,
      reason: 'passport_malformed',
    });
  });

  it('blocks from the answer of the suspension or revocation on, and permits again once the suspension is lifted', async () => {
    const { gate_id: gateId } = await api.createGate();
    const { jwt, passport_id: id } = await api.issuePassport();
    for (const [change, reason] of [
      ['suspend', 'passport_suspended'],
      ['reactivate', null],
      ['revoke', 'passport_revoked'],
    ]) {
      await api.call({ url: `/v1/passports/${id}/${change}`, body: {} });
      expect((await check(gateId, jwt)).body.reason).toBe(reason);
    }
  });

  it('does not answer a decision whose record cannot be stored', async () => {
    const gate = await api.createGate();
    const passport = await api.issuePassport();
    const { sql } = api.deps;
    await sql`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'the disk is full'; END $$`;
    await sql`CREATE TRIGGER refuse BEFORE INSERT ON records EXECUTE FUNCTION refuse()`;
    try {
      expectError(await check(gate.gate_id, passport.jwt), 'internal_error');
    } finally {
      await sql`DROP FUNCTION refuse CASCADE`;
    }
    expect(await useCountOf(passport.passport_id)).toBe(0);
    // Nothing is left of the failed one: the next is the first.
    const reply = await check(gate.gate_id, passport.jwt);
    expect((await storedRecord(reply.body.attestation_id)).sequence).toBe(1);
  });
});

describe('a token that our key signed and that was not issued here', () => {
  const signed = (payload: object) => {
    const { kid, signer } = api.deps.signingKeys.current('passport');
    return signPassportToken(payload, { kid, signer });
  };
  const payloadOf = (jwt: string) => must(openPassportToken(jwt), 'an issued token is well-formed').payload;

  it('is blocked if the passport does not exist, and recorded in the chain of the gate', async () => {
    const gate = await api.createGate();
    const { jwt } = await api.issuePassport();
    const jti = makeId('pass', 0 as UnixMillis, new Uint8Array(10));
    const reply = await check(gate.gate_id, signed({ ...payloadOf(jwt), jti }));
    expect(reply.body.reason).toBe('passport_unknown_key');
    expect(await storedRecord(reply.body.attestation_id)).toMatchObject({
      chain_id: gate.gate_id,
      passport_id: null,
    });
  });

  it('is blocked if it claims more than the passport of that id', async () => {
    const gate = await api.createGate();
    const { jwt } = await api.issuePassport();
    const forged = signed({ ...payloadOf(jwt), permissions: ['orders:*'] });
    expect((await check(gate.gate_id, forged)).body.reason).toBe('passport_unknown_key');
    expect((await check(gate.gate_id, jwt)).body.decision).toBe('PERMIT');
  });
});

describe('POST /enforce', () => {
  it('trusts only issuers of its caller, and only the caller may read the record named in the answer', async () => {
    const [stranger, bystander] = [await api.createAccount(), await api.createAccount()];
    const { jwt, passport_id } = await api.issuePassport({}, stranger.key);
    const { body } = await enforce(jwt, {});
    expect(body).toMatchObject({ decision: 'BLOCK', reason: 'issuer_untrusted' });
    const read = (key: string, id = body.attestation_id) => api.call({ url: `/v1/attestations/${id}`, key });
    expect((await read(api.adminKey)).body).toMatchObject({ id: body.attestation_id, passport_id });
    expect((await read(stranger.key)).status).toBe(200);
    expect((await read(bystander.key)).body.error.code).toBe('attestation_not_found');
    const testKey = (await api.createKey({ scopes: ['admin:*'], mode: 'test' })).key;
    expect((await read(testKey)).body.error.code).toBe('attestation_not_found');
    // The stranger's own decisions about the same passport stay the stranger's.
    const own = await enforce(jwt, {}, stranger.key);
    expect(own.body.decision).toBe('PERMIT');
    expect((await read(api.adminKey, own.body.attestation_id)).body.error.code).toBe('attestation_not_found');
    const mismatch = await enforce(jwt, {}, testKey);
    expect(mismatch.body.reason).toBe('mode_mismatch');
    expect((await read(testKey, mismatch.body.attestation_id)).status).toBe(200);
    expect((await read(api.adminKey, mismatch.body.attestation_id)).body.error.code).toBe(
      'attestation_not_found',
    );
  });

  const enforce = (passport: string, request: object, key = api.adminKey): Promise<Reply> =>
    api.call({ url: '/v1/enforce', key, body: { passport, request } });

  it('decides about the passport alone, and attests no gate', async () => {
    const passport = await api.issuePassport();
    const reply = await enforce(passport.jwt, {});
    expect(reply.body).toMatchObject({ decision: 'PERMIT', constraints_evaluated: ['passport', 'issuer'] });
    expect(await storedRecord(reply.body.attestation_id)).toMatchObject({
      chain_id: passport.passport_id,
      passport_id: passport.passport_id,
      gate_id: null,
    });
  });

  it('puts what does not verify into the chain of the account that asked', async () => {
    const reply = await enforce('no passport', {});
    expect(await storedRecord(reply.body.attestation_id)).toMatchObject({
      chain_id: accountId,
      passport_id: null,
      gate_id: null,
    });
  });

  it('never decides without a gate where one is named that is unknown, or of another account', async () => {
    const foreign = await api.createGate({}, (await api.createAccount()).key);
    const { jwt } = await api.issuePassport();
    for (const gate_id of ['gate_1', '', 'gate_00000000000000000000000000', foreign.gate_id])
      expect((await enforce(jwt, { ...order, gate_id })).body.error.code).toBe('gate_not_found');
  });
});

describe('POST /gates/:id/test', () => {
  const test = (gateId: string, body: object): Promise<Reply> =>
    api.call({ url: `/v1/gates/${gateId}/test`, body });

  it('answers allow in the words of the contract, and counts nowhere', async () => {
    const gate = await api.createGate({
      constraints: { allowed_domains: ['*.example.com'], spend_limits: { per_transaction_usd: 50 } },
    });
    const passport = await api.issuePassport({ agent_id: 'tested' });
    const evaluated = 'passport trust_level issuer permission domain_allowlist spend_limit';
    const reply = await test(gate.gate_id, {
      passport_token: passport.jwt,
      requested_action: 'orders:create',
      context: { domain: 'api.example.com', estimated_cost_usd: 25 },
    });
    expect(reply).toMatchObject({
      status: 200,
      body: {
        decision: 'allow',
        agent_id: 'tested',
        gate_id: gate.gate_id,
        attestation_id: expect.stringMatching(/^att_/),
        timestamp: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
        guardrails_evaluated: evaluated.split(' '),
        all_passed: true,
      },
    });
    expect(await storedRecord(reply.body.attestation_id)).toMatchObject({ test: true, decision: 'PERMIT' });
    expect(await statsOf(gate.gate_id)).toMatchObject({ total_requests: 0, permits: 0, blocks: 0 });
    expect(await useCountOf(passport.passport_id)).toBe(0);
  });

  it('names no agent where no passport verified', async () => {
    const gate = await api.createGate();
    const reply = await test(gate.gate_id, { passport_token: 'no passport' });
    expect(reply.body).toMatchObject({
      ...{ decision: 'block', agent_id: null, reason: 'passport_malformed' },
      ...{ detail: expect.any(String), all_passed: false },
    });
  });
});
