import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Sidecar } from '../../clients/node/src/index.ts';
import { call } from '../support/base/http-client.ts';
import { until } from '../support/base/until.ts';
import { makeAgentKey, proofFor } from '../support/data/proofs.ts';
import { type TestDatabase, testDatabase } from '../support/database/postgres.ts';
import { type Installation, installation, type Running } from '../support/programs/installation.ts';
import { bundledPrograms, type Programs } from '../support/programs/programs.ts';
import { releaseBefore, releasedPrograms } from './released-programs.ts';

/** docs/operate/upgrade.md: what the release before knows goes on, and what it does not know it refuses. */
describe(`a sidecar of ${releaseBefore.version} behind a control plane of today`, () => {
  let database: TestDatabase;
  let world: Installation;
  let controlPlane: Running;
  let sidecar: Running;

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

  const decide = async (gateId: string, passport: string, request: object = {}, at = sidecar) => {
    const body = { passport, request: { permission_key: 'orders:create', ...request } };
    return (await call(`${at.origin}/v1/gates/${gateId}/check`, { key: world.adminKey, body })).body;
  };
  /** What it was told has come to it. */
  const hears = (gateId: string, passport: string, request: object = {}) =>
    until(async () => (await decide(gateId, passport, request)).decision === 'PERMIT', { what: 'a PERMIT' });

  it("answers today's client over a stream, with the trace of a call", async () => {
    const gateId = await world.createGate();
    const { token: passport } = await world.issuePassport();
    await hears(gateId, passport);
    const request = { permission_key: 'orders:create' };
    const trace = { traceparent: `00-${'a'.repeat(32)}-00f067aa0ba902b7-01` };
    const options = { url: sidecar.origin, apiKey: world.adminKey, deadlineMs: 30_000 };
    const client = new Sidecar({ ...options, transport: 'stream' });
    const decision = await client.check(gateId, { passport, request }, trace).finally(() => client.close());
    expect(decision).toMatchObject({ decision: 'PERMIT' });
  });

  it('decides as this version: proofs, wallets, and limits of money', async () => {
    const key = makeAgentKey();
    const wallet_id = await world.createWallet({ limits: { daily_usd: 20 } });
    const { token } = await world.issuePassport({ wallet_id, public_key: key.publicJwk });
    const plain = await world.createGate();
    const proving = await world.createGate({ constraints: { proof_of_possession: 'required' } });
    await hears(plain, token, { amount: 1 });
    expect(await decide(proving, token)).toMatchObject({ decision: 'BLOCK', reason: 'proof_missing' });
    const proof = proofFor({ jwt: token, key });
    expect(await decide(proving, token, { proof, amount: 1 })).toMatchObject({ decision: 'PERMIT' });
    expect(await decide(plain, token, { amount: 15 })).toMatchObject({ decision: 'PERMIT' });
    for (const at of [sidecar, controlPlane])
      expect(await decide(plain, token, { amount: 15 }, at)).toMatchObject({ decision: 'BLOCK' });
    // It ships what it has, and this version links and signs it.
    await sidecar.restart('SIGTERM');
    await world.verifyExport();
  });
});
