import { randomUUID } from 'node:crypto';
import * as jose from 'jose';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Sidecar } from '../../clients/node/src/index.ts';
import { call } from '../support/base/http-client.ts';
import { until } from '../support/base/until.ts';
import { makeAgentKey } from '../support/data/proofs.ts';
import { type TestDatabase, testDatabase } from '../support/database/postgres.ts';
import { StreamClient } from '../support/peers/stream-client.ts';
import { type Installation, installation, type Running } from '../support/programs/installation.ts';
import { bundledPrograms, type Programs } from '../support/programs/programs.ts';
import { releaseBefore, releasedPrograms } from './released-programs.ts';

/** docs/operate/upgrade.md: what 0.2.0 does not know, it refuses. */
describe(`a sidecar of ${releaseBefore.version} behind a control plane of today`, () => {
  let database: TestDatabase;
  let world: Installation;
  let sidecar: Running;
  let controlPlane: Running;

  beforeAll(async () => {
    const old = await releasedPrograms(releaseBefore, (line) => console.log(line));
    const today = await bundledPrograms();
    const mixed: Programs = {
      start: (args, env) => (args[0] === 'sidecar' ? old : today).start(args, env),
    };
    database = await testDatabase();
    world = await installation(mixed, { databaseUrl: database.url });
    controlPlane = await world.startControlPlane();
    sidecar = await world.startSidecar();
  }, 1_200_000);
  afterAll(async () => {
    await world?.close();
    await database?.drop();
  });

  const decide = async (gateId: string, passport: string) => {
    const body = { passport, request: { permission_key: 'orders:create' } };
    return call(`${sidecar.origin}/v1/gates/${gateId}/check`, { key: world.adminKey, body });
  };
  /** What it was told has come to it. */
  const hears = (gateId: string, passport: string, decision = 'PERMIT') =>
    until(async () => (await decide(gateId, passport)).body.decision === decision, {
      what: `${decision} at the sidecar`,
    });
  const issue = async (body: Readonly<Record<string, unknown>>) => (await world.issuePassport(body)).token;

  it('permits no passport that requires proof, or has a key of P-256, and goes on with others', async () => {
    const gateId = await world.createGate();
    const plain = await issue({});
    await hears(gateId, plain);
    const required = await issue({ constraints: { proof_of_possession: 'required' } });
    const exact = { mode: 'required', replay: 'exact' };
    const exactly = await issue({ constraints: { proof_of_possession: exact } });
    const p256 = await issue({ public_key: makeAgentKey('p256').publicJwk });
    for (const token of [required, exactly, p256])
      expect((await decide(gateId, token)).body).toMatchObject({
        decision: 'BLOCK',
        reason: 'passport_malformed',
      });
    expect((await decide(gateId, plain)).body.decision).toBe('PERMIT');
  });

  it("answers today's client over a stream, which then leaves the trace of a call out", async () => {
    const passport = await issue({});
    const gateId = await world.createGate();
    await hears(gateId, passport);
    const request = { permission_key: 'orders:create' };
    const trace = { traceparent: `00-${'a'.repeat(32)}-00f067aa0ba902b7-01` };
    const stream = await StreamClient.open(sidecar.origin, world.adminKey);
    const answer = await stream.ask({ gate_id: gateId, passport, request, ...trace });
    expect(answer.error).toMatchObject({ code: 'invalid_request' });
    await stream.leave();
    const options = { url: sidecar.origin, apiKey: world.adminKey, deadlineMs: 30_000 };
    const client = new Sidecar({ ...options, transport: 'stream' });
    const decision = await client.check(gateId, { passport, request }, trace).finally(() => client.close());
    expect(decision).toMatchObject({ decision: 'PERMIT' });
  });

  it.each([
    ['required', {}],
    [{ mode: 'required', replay: 'exact' }, {}],
    ['required', { trusted_issuers: ['*'] }],
  ])('blocks at a gate that requires proof, and follows all others: %j %j', async (demand, more) => {
    const plain = await issue({});
    const turned = await world.createGate({ constraints: more });
    await hears(turned, plain);
    const body = { constraints: { ...more, proof_of_possession: demand } };
    expect((await world.api('PUT', `/gates/${turned}`, body)).status).toBe(200);
    const blocked = { decision: 'BLOCK', reason: 'issuer_untrusted' };
    await hears(turned, plain, 'BLOCK');
    expect((await decide(turned, plain)).body).toMatchObject(blocked);
    const made = await world.createGate(body);
    const after = await world.createGate();
    await hears(after, plain);
    expect((await decide(made, plain)).body).toMatchObject(blocked);
    // From a snapshot, too.
    await sidecar.restart('SIGTERM');
    await hears(after, plain);
    for (const gateId of [turned, made]) expect((await decide(gateId, plain)).body).toMatchObject(blocked);
    await world.api('PUT', `/gates/${turned}`, { constraints: { proof_of_possession: null } });
    await hears(turned, plain);
  });

  it('permits no token of an issuer of another account that a gate names, and goes on', async () => {
    const origin = `${controlPlane.origin}/v1`;
    const account = await call(`${origin}/accounts`, {
      key: world.adminKey,
      body: { name: 'Another', plan: 'enterprise' },
    });
    expect(account.status, JSON.stringify(account.body)).toBe(201);
    const { key } = account.body.api_key;
    const pair = await jose.generateKeyPair('ES256');
    const jwk = { ...(await jose.exportJWK(pair.publicKey)), alg: 'ES256', kid: 'one' };
    const federation = {
      ...{ type: 'jwks', issuer: 'https://idp.example', audiences: ['gate'], jwks: { keys: [jwk] } },
      ...{ permissions: ['orders:create'], trust_tier: 'L2' },
    };
    const issuer = await call(`${origin}/issuers`, { key, body: { name: 'Theirs', federation } });
    expect(issuer.status, JSON.stringify(issuer.body)).toBe(201);
    const issuerId: string = issuer.body.issuer_id;
    const sign = () =>
      new jose.SignJWT({ iss: federation.issuer, sub: 'planner', aud: 'gate', jti: randomUUID() })
        .setProtectedHeader({ alg: 'ES256', kid: 'one', typ: 'JWT' })
        .setIssuedAt()
        .setExpirationTime('1h')
        .sign(pair.privateKey);
    const plain = await issue({});
    const naming = { constraints: { trusted_issuers: ['own', issuerId] } };
    const turned = await world.createGate();
    expect((await world.api('PUT', `/gates/${turned}`, naming)).status).toBe(200);
    const made = await world.createGate(naming);
    const alone = await world.createGate({ constraints: { trusted_issuers: [issuerId] } });
    const gates = [turned, made, alone];
    const change = (body: object) =>
      call(`${origin}/issuers/${issuerId}`, { method: 'PUT', key, body }).then(({ status }) => status);

    const permitted = (gateId: string) => hears(gateId, plain);
    const blocksAll = async () => {
      // After all that was told before it.
      await permitted(await world.createGate());
      await permitted(turned);
      for (const gateId of gates) {
        const token = await sign();
        const blocked = { decision: 'BLOCK', reason: 'passport_malformed' };
        expect((await decide(gateId, token)).body).toMatchObject(blocked);
      }
    };
    // The token is good where it is known.
    const body = { passport: await sign(), request: { permission_key: 'orders:create' } };
    const check = await call(`${origin}/gates/${made}/check`, { key: world.adminKey, body });
    expect(check.body).toMatchObject({ decision: 'PERMIT' });
    await blocksAll();
    // From a snapshot, too.
    await sidecar.restart('SIGTERM');
    await blocksAll();
    expect(await change({ status: 'suspended' })).toBe(200);
    expect(await change({ status: 'active' })).toBe(200);
    await blocksAll();
    expect(
      (await world.api('PUT', `/gates/${made}`, { constraints: { trusted_issuers: null } })).status,
    ).toBe(200);
    await permitted(made);
    await blocksAll();
  });
});
