import { describe, expect, it } from 'vitest';
import { expectWithin, timeUntil } from '../support/base/time-promise.ts';
import { until } from '../support/base/until.ts';
import { adapters } from '../support/peers/server-under-test.ts';
import { ownerOf } from '../support/service/exports.ts';
import { useApi, useSidecar } from '../support/service/use-api.ts';

const order = { permission_key: 'orders:create', amount: 12.5 };

/** Another signature: one of 65,536 ends in AAAA by itself. */
const forgedFrom = (jwt: string): string => jwt.slice(0, -4) + (jwt.endsWith('AAAA') ? 'AAAQ' : 'AAAA');

describe.each(adapters)('a sidecar behind $name', (adapter) => {
  const api = useApi();
  const sidecar = useSidecar(() => ({ api, adapter }));

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

  // The rest is the same behind each server.
  if (adapter !== adapters.at(-1)) return;

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

  it('writes a token that does not verify into the chain of the gate, or of the account, and never of its passport', async () => {
    const gate = await api.createGate();
    const { jwt } = await api.issuePassport();
    await sidecar.caughtUp();
    const forged = forgedFrom(jwt);
    const atGate = await sidecar.check(gate.gate_id, forged, order);
    const alone = await sidecar.check(null, forged, order);
    const { accountId } = await ownerOf(api);
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
});
