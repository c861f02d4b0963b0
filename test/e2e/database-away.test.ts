import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { call } from '../support/http-client.ts';
import { type Installation, installation, type Running } from '../support/installation.ts';
import { testDatabaseServer } from '../support/postgres.ts';
import { bundledPrograms, type Programs } from '../support/programs.ts';
import { until } from '../support/until.ts';

/** The database goes away while everything serves, and comes back. */
describe('a database that goes away', () => {
  let programs: Programs;
  let server: Awaited<ReturnType<typeof testDatabaseServer>>;
  let world: Installation;
  let controlPlane: Running;
  let sidecar: Running;

  beforeAll(async () => {
    programs = await bundledPrograms();
    // As users run it.
    server = await testDatabaseServer({ isDebian: true });
    world = await installation(programs, { databaseUrl: server.url });
    controlPlane = await world.startControlPlane();
    sidecar = await world.startSidecar();
  });
  afterAll(async () => {
    await world?.close();
    await server?.stop();
  });

  it('answers 503 at the control plane, goes on deciding at the sidecar, and loses no record', async () => {
    const gateId = await world.createGate();
    const { token } = await world.issuePassport();
    const check = () =>
      call(`${sidecar.origin}/v1/gates/${gateId}/check`, {
        key: world.adminKey,
        body: { passport: token, request: { permission_key: 'orders:create' } },
      });
    await until(async () => (await check()).status === 200, { what: 'the gate at the sidecar' });

    await server.stopServer();
    await until(async () => (await world.api('GET', '/gates')).status === 503, {
      what: '503 without a database',
    });
    const refused = await world.api('GET', '/gates');
    expect(refused.body.error).toMatchObject({ code: 'service_unavailable', status: 503 });
    expect(refused.body.error.request_id).toMatch(/^req_/);
    expect((await call(`${controlPlane.origin}/livez`)).status).toBe(200);
    expect((await call(`${controlPlane.origin}/readyz`)).status).toBe(503);

    const ids: string[] = [];
    for (let n = 0; n < 50; n++) {
      const reply = await check();
      expect(reply.body).toMatchObject({ decision: 'PERMIT' });
      ids.push(reply.body.attestation_id);
    }

    await server.startServer();
    await until(async () => (await world.api('GET', '/gates')).status === 200, {
      what: 'recovery',
    });
    for (const id of ids) {
      await until(async () => (await world.api('GET', `/attestations/${id}`)).status === 200, {
        what: `record ${id}`,
      });
    }
    // The first check waited for the gate; it has a record too.
    expect(await world.verifyExport()).toContain(`${ids.length + 1} records`);
  });
});
