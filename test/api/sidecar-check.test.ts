import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { must } from '../../shared/errors/assert.ts';
import { type Api, startApi } from '../support/api.ts';
import { adapters } from '../support/server-under-test.ts';
import { startTestSidecar, type TestSidecar } from '../support/sidecar.ts';
import { expectWithin, timeUntil } from '../support/time-promise.ts';
import { until } from '../support/until.ts';

const order = { permission_key: 'orders:create', amount: 12.5 };

/** Another signature: one of 65,536 ends in AAAA by itself. */
const forgedFrom = (jwt: string): string => jwt.slice(0, -4) + (jwt.endsWith('AAAA') ? 'AAAQ' : 'AAAA');

describe.each(adapters)('a sidecar behind $name', (adapter) => {
  let api: Api;
  let sidecar: TestSidecar;
  beforeAll(async () => {
    api = await startApi();
    sidecar = await startTestSidecar({ api, adapter });
  });
  afterAll(async () => {
    await sidecar?.close();
    sidecar?.removeFolder();
    await api?.close();
  });

  const isThere = async (id: string) => (await api.call({ url: `/v1/attestations/${id}` })).status === 200;
  const attestation = async (id: string) => {
    await until(() => isThere(id), { what: `attestation ${id} at the control plane` });
    return (await api.call({ url: `/v1/attestations/${id}` })).body;
  };

  it('permits, and the record can be read at the control plane within a second', async () => {
    const gate = await api.createGate();
    const passport = await api.issuePassport();
    await sidecar.caughtUp();
    const reply = await sidecar.check(gate.gate_id, passport.jwt, order);
    expect(reply.status).toBe(200);
    await expectWithin(1_000, 'a record is at the control plane', async () => {
      const { body } = await sidecar.check(gate.gate_id, passport.jwt, order);
      return timeUntil(() => isThere(body.attestation_id), 'the record');
    });
    expect(reply.body).toEqual({
      decision: 'PERMIT',
      reason: null,
      attestation_id: expect.stringMatching(/^att_[0-9a-z]{26}$/),
      constraints_evaluated: ['passport', 'trust_level', 'issuer', 'permission'],
    });
    expect(reply.headers['x-request-id']).toMatch(/^req_[0-9a-z]{26}$/);
    expect(reply.headers['content-type']).toBe('application/json; charset=utf-8');
    expect(await attestation(reply.body.attestation_id)).toMatchObject({
      passport_id: passport.passport_id,
      gate_id: gate.gate_id,
      chain_id: passport.passport_id,
      sequence: 1,
      decision: 'PERMIT',
      amount_micro_usd: 12_500_000,
      permission_key: 'orders:create',
      test: false,
      source: expect.stringMatching(/^side_/),
    });
  });

  it('answers and records as the control plane does', async () => {
    const gate = await api.createGate({ constraints: { spend_limits: { per_transaction_usd: 10 } } });
    const passport = await api.issuePassport();
    await sidecar.caughtUp();
    const body = { passport: passport.jwt, request: order };
    const theirs = await api.call({ url: `/v1/gates/${gate.gate_id}/check`, body });
    const ours = await sidecar.check(gate.gate_id, passport.jwt, order);
    expect({ ...ours.body, attestation_id: null }).toEqual({ ...theirs.body, attestation_id: null });
    const [first, second] = [
      await attestation(theirs.body.attestation_id),
      await attestation(ours.body.attestation_id),
    ];
    expect(second.request_hash).toBe(first.request_hash);
    expect(second.previous_attestation_hash).toBe(first.hash);
  });

  it('writes a token that does not verify into the chain of the gate, or of the account, and never of its passport', async () => {
    const gate = await api.createGate();
    const { jwt } = await api.issuePassport();
    await sidecar.caughtUp();
    const forged = forgedFrom(jwt);
    const atGate = await sidecar.check(gate.gate_id, forged, order);
    const alone = await sidecar.check(null, forged, order);
    const accountId = must((await api.call({ url: '/v1/accounts' })).body.items[0], 'an operator').account_id;
    expect(await attestation(atGate.body.attestation_id)).toMatchObject({
      chain_id: gate.gate_id,
      passport_id: null,
    });
    expect(await attestation(alone.body.attestation_id)).toMatchObject({
      chain_id: accountId,
      passport_id: null,
      gate_id: null,
    });
  });

  it('caches a verified passport, but no decision', async () => {
    const gate = await api.createGate();
    const passport = await api.issuePassport();
    await sidecar.caughtUp();
    expect((await sidecar.check(gate.gate_id, passport.jwt, order)).body.decision).toBe('PERMIT');
    expect(
      (await sidecar.check(gate.gate_id, passport.jwt, { permission_key: 'orders:delete' })).body.reason,
    ).toBe('permission_not_granted');
    const revoked = await api.call({
      url: `/v1/passports/${passport.passport_id}/revoke?wait_ms=5000`,
      body: {},
    });
    expect(revoked.status).toBe(200);
    expect((await sidecar.check(gate.gate_id, passport.jwt, order)).body.reason).toBe('passport_revoked');
  });

  it('enforces a changed gate, and answers 404 once it is deleted', async () => {
    const gate = await api.createGate();
    const passport = await api.issuePassport();
    await sidecar.caughtUp();
    expect((await sidecar.check(gate.gate_id, passport.jwt, order)).body.decision).toBe('PERMIT');
    const constraints = { spend_limits: { per_transaction_usd: 1 } };
    await api.call({ method: 'PUT', url: `/v1/gates/${gate.gate_id}`, body: { constraints } });
    await sidecar.caughtUp();
    expect((await sidecar.check(gate.gate_id, passport.jwt, order)).body.reason).toBe('spend_limit_exceeded');
    await api.call({ method: 'DELETE', url: `/v1/gates/${gate.gate_id}` });
    await sidecar.caughtUp();
    expect((await sidecar.check(gate.gate_id, passport.jwt, order)).status).toBe(404);
  });

  it('takes the gate of an enforcement from the request, and checks the passport alone without one', async () => {
    const gate = await api.createGate({ trust_level: 'L2' });
    const passport = await api.issuePassport();
    await sidecar.caughtUp();
    const named = await sidecar.check(null, passport.jwt, { ...order, gate_id: gate.gate_id });
    expect(named.body.reason).toBe('trust_level_insufficient');
    const alone = await sidecar.check(null, passport.jwt, order);
    expect(alone.body).toMatchObject({
      decision: 'PERMIT',
      constraints_evaluated: ['passport', 'issuer', 'permission'],
    });
    expect((await attestation(alone.body.attestation_id)).gate_id).toBeNull();
  });

  it('decides for many unknown passports at once', async () => {
    const gate = await api.createGate();
    const passports = await Promise.all(Array.from({ length: 40 }, () => api.issuePassport()));
    await sidecar.caughtUp();
    const replies = await Promise.all(
      passports.flatMap(({ jwt }, i) => [
        sidecar.check(gate.gate_id, jwt, order),
        sidecar.check(gate.gate_id, i % 2 === 0 ? jwt : forgedFrom(jwt), order),
      ]),
    );
    const reasons = replies.map(({ body }) => body.reason);
    expect(reasons.filter((reason) => reason === null)).toHaveLength(60);
    expect(reasons.filter((reason) => reason === 'passport_signature_invalid')).toHaveLength(20);
    expect(new Set(replies.map(({ body }) => body.attestation_id)).size).toBe(80);
  });
});
