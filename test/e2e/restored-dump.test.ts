import { execFile } from 'node:child_process';
import { realpathSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { call } from '../support/base/http-client.ts';
import { temporaryFolder } from '../support/base/temporary-folder.ts';
import { expectOnceWithin, timed } from '../support/base/time-promise.ts';
import { until } from '../support/base/until.ts';
import { type Installation, installation, type Running } from '../support/programs/installation.ts';
import { bundledPrograms } from '../support/programs/programs.ts';
import { testDebianPostgres } from '../support/run/debian-postgres.ts';
import { sharedService } from '../support/run/shared-services.ts';

const run = promisify(execFile);

/** An older dump takes the place of the database, while the sidecar runs on and is then started again. */
describe('a restored pg_dump', () => {
  const folder = temporaryFolder();
  let server: Awaited<ReturnType<typeof testDebianPostgres>>;
  let tools: string;
  let world: Installation;
  let controlPlane: Running;
  let sidecar: Running;
  let gateId: string;

  beforeAll(async () => {
    const programs = await bundledPrograms();
    tools = dirname(realpathSync(await sharedService('initdb')));
    server = await testDebianPostgres();
    world = await installation(programs, { databaseUrl: server.url });
    controlPlane = await world.startControlPlane();
    sidecar = await world.startSidecar();
    gateId = await world.createGate();
  });
  afterAll(async () => {
    await world?.close();
    await server?.stop();
    folder.remove();
  });

  const check = async (token: string) => {
    const { body } = await call(`${sidecar.origin}/v1/gates/${gateId}/check`, {
      key: world.adminKey,
      body: { passport: token, request: { permission_key: 'orders:create' } },
    });
    return body.reason ?? body.decision ?? body.error?.code;
  };
  const readyz = async () => (await call(`${controlPlane.origin}/readyz`)).body;
  const sidecarReadyz = async () => (await call(`${sidecar.origin}/readyz`)).body;
  const allOf = async (passportId: string): Promise<readonly { id: string; sequence: number }[]> =>
    (await world.api('GET', `/attestations?passport_id=${passportId}&limit=500`)).body.attestations;
  const idsOf = (records: readonly { readonly id: string }[]) => records.map(({ id }) => id);
  const includesAll = (all: readonly string[], some: readonly string[]) =>
    some.every((id) => all.includes(id));
  const recordsOf = async (passportId: string) => (await allOf(passportId)).length;

  it('is noticed within 10 s, lets no revoked agent in, and is recovered from', async () => {
    const [kept, ended] = [await world.issuePassport(), await world.issuePassport()];
    await until(async () => (await check(ended.token)) === 'PERMIT', { what: 'a decision' });
    await until(async () => (await recordsOf(ended.id)) > 0, { what: 'its record' });
    const dump = join(folder.path, 'older.dump');
    await run(join(tools, 'pg_dump'), ['--format=custom', `--file=${dump}`, server.url]);
    for (let count = 0; count < 20; count++) expect(await check(kept.token)).toBe('PERMIT');
    await until(async () => (await recordsOf(kept.id)) === 20, { what: 'all records' });
    const told = idsOf(await allOf(kept.id));
    await world.api('POST', `/passports/${ended.id}/revoke?wait_ms=5000`, {});
    // What it has acknowledged survives this.
    await sidecar.restart('SIGKILL');
    await controlPlane.stop('SIGTERM');
    await run(join(tools, 'pg_restore'), ['--clean', '--if-exists', `--dbname=${server.url}`, dump]);
    await controlPlane.start();
    const seen = new Set<string>();
    const noticed = await timed(() =>
      until(
        async () => {
          seen.add(await check(ended.token));
          return (await readyz()).history.state === 'regressed';
        },
        { what: 'it is noticed' },
      ),
    );
    expectOnceWithin(10_000, 'it is noticed', noticed);
    await until(async () => (await readyz()).history.missing.records >= 20, { what: 'its extent' });
    expect((await readyz()).status).toBe('ready');
    await until(async () => (await sidecarReadyz()).history.state === 'regressed', {
      what: 'the sidecar says so',
    });
    expect((await sidecarReadyz()).status).toBe('ready');
    const ofSidecar = await (await fetch(`${sidecar.origin}/metrics`)).text();
    expect(ofSidecar).toContain('agent_trust_sidecar_history_regressed 1');
    const metrics = await (await fetch(`${controlPlane.origin}/metrics`)).text();
    expect(metrics).toContain('agent_trust_history_regressed 1');
    expect((await world.api('POST', '/gates', { name: 'g', trust_level: 'L1' })).status).toBe(503);

    await sidecar.restart('SIGKILL');
    for (let count = 0; count < 20; count++) seen.add(await check(ended.token));
    // A busy machine may send one away, which lets nobody in.
    seen.delete('overloaded');
    expect(seen).toEqual(new Set(['passport_revoked']));

    const recover = (apply: boolean) => world.api('POST', '/sync/history/recover', { apply });
    await until(async () => (await recover(false)).body.taken_back.length === 1, {
      what: 'what to take back',
    });
    const plan = (await recover(false)).body;
    expect(plan.taken_back).toMatchObject([{ kind: 'passport', id: ended.id, standing: 'revoked' }]);
    // Beside them perhaps the BLOCK of the revoked one.
    const lost = { chain_id: kept.id, last_sequence: 20, records: 20 };
    expect(plan.lost).toContainEqual(expect.objectContaining(lost));
    const { body: done } = await recover(true);
    expect(done).toMatchObject({ applied: true, state: 'whole' });
    expect(done.generation).not.toBe(plan.generation);

    expect((await readyz()).history).toEqual({ state: 'whole', missing: null });
    expect((await world.api('GET', `/passports/${ended.id}`)).body.status).toBe('revoked');
    const entry = (await world.api('GET', `/audit?target=${done.generation}`)).body.entries[0];
    expect(entry.operation).toBe('recoverHistory');
    expect(entry.after.generation).toBe(done.generation);
    expect(entry.after.chains).toContainEqual(expect.objectContaining(lost));
    await until(async () => (await check(kept.token)) === 'PERMIT', { what: 'decisions go on' });
    expect(await check(ended.token)).toBe('passport_revoked');
    expect((await world.api('POST', '/gates', { name: 'g', trust_level: 'L1' })).status).toBe(201);
    // The sidecar still has them: they come back, at places that were not given out before.
    await until(async () => includesAll(idsOf(await allOf(kept.id)), told), {
      what: 'records handed back',
    });
    const items = await allOf(kept.id);
    expect(new Set(idsOf(items)).size).toBe(items.length);
    expect(Math.min(...items.map(({ sequence }) => sequence))).toBe(21);
    await until(async () => (await sidecarReadyz()).history.state === 'whole', {
      what: 'the sidecar is whole',
    });
    const { handed_in: handedIn } = (await recover(false)).body;
    expect(handedIn).toContainEqual({ chain_id: kept.id, lost: 20, handed_in: 20 });
  });
});
