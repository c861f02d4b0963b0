import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { call } from '../support/base/http-client.ts';
import { until } from '../support/base/until.ts';
import { testDatabase } from '../support/database/postgres.ts';
import { type Installation, installation, type Running } from '../support/programs/installation.ts';
import { bundledPrograms } from '../support/programs/programs.ts';

/** What a sidecar has acknowledged is on its disk: it decides by that though nothing else is left to ask. */
describe('kill -9 of a sidecar right after an acknowledgement', () => {
  let database: Awaited<ReturnType<typeof testDatabase>>;
  let world: Installation;
  let controlPlane: Running;
  let sidecar: Running;

  beforeAll(async () => {
    const programs = await bundledPrograms();
    database = await testDatabase();
    world = await installation(programs, { databaseUrl: database.url });
    controlPlane = await world.startControlPlane();
    sidecar = await world.startSidecar();
  });
  afterAll(async () => {
    await world?.close();
    await database?.drop();
  });

  const check = async (gateId: string, token: string, key = world.adminKey) => {
    const { body } = await call(`${sidecar.origin}/v1/gates/${gateId}/check`, {
      key,
      body: { passport: token, request: { permission_key: 'orders:create' } },
    });
    return body.decision === 'PERMIT' ? 'PERMIT' : (body.reason ?? body.error?.code);
  };
  const acknowledged = () =>
    until(async () => (await world.api('GET', '/sidecars')).body.items[0].changes_behind === 0, {
      what: 'the acknowledgement',
      pauseMsMax: 1,
    });

  it('keeps revocations in force, time after time', async () => {
    const gateId = await world.createGate();
    for (let time = 0; time < 2; time++) {
      const passport = await world.issuePassport();
      await until(async () => (await check(gateId, passport.token)) === 'PERMIT', { what: 'a decision' });
      await until(async () => (await call(`${sidecar.origin}/readyz`)).body.control_plane.connected, {
        what: 'its connection',
      });
      const { body } = await world.api('POST', `/passports/${passport.id}/revoke?wait_ms=5000`, {});
      await sidecar.stop('SIGKILL');
      expect(body.propagation).toMatchObject({ sidecars: 1, acknowledged: 1 });
      await controlPlane.stop('SIGKILL');
      await sidecar.start();
      expect(await check(gateId, passport.token)).toBe('passport_revoked');
      await controlPlane.start();
    }
  });

  it('keeps suspensions, the ends of gates and keys, and changed gates', async () => {
    const [kept, deleted, changed] = [
      await world.createGate(),
      await world.createGate(),
      await world.createGate(),
    ];
    const [suspended, passport] = [await world.issuePassport(), await world.issuePassport()];
    const { body: ended } = await world.api('POST', '/api-keys', {
      name: 'k',
      scopes: ['enforcement:check'],
    });
    const decides = async () =>
      (await check(changed, passport.token, ended.key)) === 'PERMIT' &&
      (await check(deleted, suspended.token)) === 'PERMIT';
    await until(decides, { what: 'decisions' });
    const takenAway = [
      await world.api('POST', `/passports/${suspended.id}/suspend`, {}),
      await world.api('DELETE', `/gates/${deleted}`),
      await world.api('PUT', `/gates/${changed}`, { constraints: { allowed_domains: ['nobody.example'] } }),
      await world.api('DELETE', `/api-keys/${ended.key_id}`),
    ];
    expect(takenAway.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
    await acknowledged();
    await sidecar.stop('SIGKILL');
    await controlPlane.stop('SIGKILL');
    await sidecar.start();
    expect(await check(kept, passport.token)).toBe('PERMIT');
    expect({
      suspended: await check(kept, suspended.token),
      deleted: await check(deleted, passport.token),
      changed: await check(changed, passport.token),
      ended: await check(kept, passport.token, ended.key),
    }).toEqual({
      suspended: 'passport_suspended',
      deleted: 'gate_not_found',
      changed: expect.stringContaining('domain'),
      ended: 'unauthorized',
    });
    await controlPlane.start();
  });
});
