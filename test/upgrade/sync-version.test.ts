import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { syncVersion, syncVersionHeader } from '../../shared/wire/sync/sync.ts';
import { call } from '../support/base/http-client.ts';
import { until } from '../support/base/until.ts';
import { type TestDatabase, testDatabase } from '../support/database/postgres.ts';
import { type HttpLink, httpLink } from '../support/peers/http-link.ts';
import { type Installation, installation, type Running } from '../support/programs/installation.ts';
import { bundledPrograms } from '../support/programs/programs.ts';

describe('a sidecar whose control plane does not speak its version', () => {
  let database: TestDatabase;
  let world: Installation;
  let link: HttpLink;
  let sidecar: Running;
  /** What the control plane takes the sidecar's version for. */
  let version: string | null = null;

  beforeAll(async () => {
    database = await testDatabase();
    world = await installation(await bundledPrograms(), { databaseUrl: database.url });
    const { origin } = await world.startControlPlane();
    link = await httpLink(
      () => origin,
      (arrived, deliver) => {
        const headers = version === null ? {} : { [syncVersionHeader]: version };
        return deliver({ ...arrived, headers: { ...arrived.headers, ...headers } });
      },
    );
    sidecar = await world.startSidecar({ CONTROL_PLANE_URL: link.origin });
  });
  afterAll(async () => {
    await world?.close();
    await link?.close();
    await database?.drop();
  });
  const readiness = async () => (await call(`${sidecar.origin}/readyz`)).body;

  it('says so in /readyz, logs it once, decides on, and ships its records when it is spoken again', async () => {
    const gateId = await world.createGate();
    const { token } = await world.issuePassport();
    const decide = async () => {
      const body = { passport: token, request: { permission_key: 'orders:create' } };
      const url = `${sidecar.origin}/v1/gates/${gateId}/check`;
      return (await call(url, { key: world.adminKey, body })).body;
    };
    await until(async () => (await decide()).decision === 'PERMIT', { what: 'the gate at the sidecar' });

    version = String(syncVersion + 1);
    const saysSo = async () =>
      /sync_version_unsupported: This control plane speaks version \d+ .* Upgrade the older/.test(
        (await readiness()).control_plane.last_problem ?? '',
      );
    await until(saysSo, { what: 'the problem in /readyz' });
    expect(await readiness()).toMatchObject({ status: 'ready', control_plane: { connected: false } });
    const { attestation_id: attestationId } = await decide();
    await until(async () => (await readiness()).spool.shipping !== 'shipping', { what: 'a refused batch' });
    await sidecar.program.waitFor(/changes cannot be fetched from the control plane.*\n/);
    const lines = sidecar.program.output().split('\n');
    const told = lines.filter((line) => line.includes('changes cannot be fetched from the control plane'));
    expect(told).toHaveLength(1);
    expect(told[0]).toContain('sync_version_unsupported');

    version = null;
    await until(async () => (await world.api('GET', `/attestations/${attestationId}`)).status === 200, {
      what: 'the record of that decision',
    });
    await until(async () => (await readiness()).control_plane.last_problem === null, {
      what: 'changes that are received again',
    });
    expect((await readiness()).control_plane.connected).toBe(true);
  });
});
