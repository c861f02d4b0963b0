import { describe, expect, it } from 'vitest';
import { expectWithin, timed } from '../support/base/time-promise.ts';
import { adapters } from '../support/peers/server-under-test.ts';
import { expectError } from '../support/service/expect-error.ts';
import { startTestSidecar } from '../support/service/sidecar.ts';
import { useApi, useSidecar } from '../support/service/use-api.ts';

/** Whether a passport stands, asked of a sidecar without a decision (contract §16). */
describe.each(adapters)('a sidecar behind $name', (adapter) => {
  const api = useApi();
  const sidecar = useSidecar(() => ({ api, adapter }));

  const ask = (gateId: string, body: object, key?: string | null) =>
    sidecar.call({ path: `/v1/gates/${gateId}/standing`, body, ...(key !== undefined && { key }) });
  const issue = async (body: object = {}) => {
    const gate = await api.createGate({ trust_level: 'L1' });
    const passport = await api.issuePassport(body);
    await sidecar.caughtUp();
    return { gate: gate.gate_id as string, passport };
  };
  const revoke = (id: string) => api.call({ method: 'POST', url: `/v1/passports/${id}/revoke`, body: {} });

  it('tells who waits that a passport has ended, within the bound of a revocation', async () => {
    await expectWithin(200, 'a revocation and its news', async () => {
      const { gate, passport } = await issue();
      const asked = ask(gate, { passport: passport.jwt, wait_ms: 20_000 });
      // Answered after it has begun to wait.
      expect((await ask(gate, { passport: passport.jwt })).body.stands).toBe(true);
      await revoke(passport.passport_id);
      const { result, ...time } = await timed(() => asked);
      expect(result.body).toMatchObject({ stands: false, reason: 'passport_revoked' });
      return time;
    });
  });

  // The rest is the same behind each server.
  if (adapter !== adapters.at(-1)) return;

  it('says that it stands and whose it is, or why it does not, and records nothing', async () => {
    const since = new Date().toISOString();
    const { gate, passport } = await issue();
    expect((await ask(gate, { passport: passport.jwt })).body).toEqual({
      ...{ stands: true, reason: null, detail: null, retryable: false, federated: false },
      ...{ passport_id: passport.passport_id, agent_id: passport.agent_id, account_id: expect.any(String) },
    });
    const forged = `${passport.jwt.slice(0, -8)}AAAAAAAA`;
    expect((await ask(gate, { passport: forged })).body).toMatchObject({
      ...{ stands: false, reason: 'passport_signature_invalid', passport_id: null },
    });
    expect((await ask(gate, { passport: '' })).body.reason).toBe('passport_malformed');
    const { issuer_id } = await api.createIssuer({ name: 'Other' });
    const strict = await api.createGate({ constraints: { trusted_issuers: [issuer_id] } });
    await sidecar.caughtUp();
    expect((await ask(strict.gate_id, { passport: passport.jwt })).body.reason).toBe('issuer_untrusted');
    await revoke(passport.passport_id);
    await sidecar.caughtUp();
    expect((await ask(gate, { passport: passport.jwt, wait_ms: 20_000 })).body.reason).toBe(
      'passport_revoked',
    );
    const { attestations } = (await api.call({ url: '/v1/attestations?limit=500' })).body;
    expect(attestations.filter((each: { timestamp: string }) => each.timestamp >= since)).toEqual([]);
  });

  it('serves whom a check serves, and nobody else', async () => {
    const { gate, passport } = await issue();
    const body = { passport: passport.jwt };
    const { key } = await api.createKey({ name: 'reader', scopes: ['gates:read'] });
    await sidecar.caughtUp();
    expectError(await ask(gate, body, null), 'unauthorized');
    expectError(await ask(gate, body, key), 'insufficient_scope');
    expectError(await ask('gate_none', body), 'gate_not_found');
    expectError(await ask(gate, {}), 'invalid_request', 'passport');
    for (const wait_ms of [-1, 1.5, 30_001])
      expectError(await ask(gate, { ...body, wait_ms }), 'invalid_request', 'wait_ms');
    expectError(await ask(gate, { ...body, request: {} }), 'invalid_request', 'request');
  });

  it('answers those who wait when their key or gate ends, and when the sidecar stops', async () => {
    const { gate, passport } = await issue();
    const { key, keyId } = await api.createKey({ name: 'guard', scopes: ['enforcement:check'] });
    const own = await startTestSidecar({ api });
    await own.caughtUp();
    const wait = (origin: typeof sidecar, gateId: string, by?: string) =>
      origin.call({
        path: `/v1/gates/${gateId}/standing`,
        body: { passport: passport.jwt, wait_ms: 30_000 },
        ...(by !== undefined && { key: by }),
      });
    const [byKey, byGate, byStop] = [wait(own, gate, key), wait(sidecar, gate), wait(own, gate)];
    for (const each of [sidecar, own])
      await each.call({ path: `/v1/gates/${gate}/standing`, body: { passport: passport.jwt } });
    await api.call({ method: 'DELETE', url: `/v1/api-keys/${keyId}` });
    expectError(await byKey, 'unauthorized');
    await own.close();
    own.removeFolder();
    expect((await byStop).body.stands).toBe(true);
    await api.call({ method: 'DELETE', url: `/v1/gates/${gate}` });
    expectError(await byGate, 'gate_not_found');
  });
});
