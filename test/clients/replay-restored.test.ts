import { execFile } from 'node:child_process';
import { realpathSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { minuteMs } from '../../shared/model/time.ts';
import { testDebianPostgres } from '../support/debian-postgres.ts';
import { call } from '../support/http-client.ts';
import { type Installation, installation, type Running } from '../support/installation.ts';
import { bundledPrograms } from '../support/programs.ts';
import { saveExport } from '../support/save-export.ts';
import { sharedService } from '../support/shared-services.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { until } from '../support/until.ts';
import { replayBothUnverified } from './support/replay-both.ts';

const run = promisify(execFile);

/** An older dump takes the place of the database, and a sidecar knows the policy that came after it. */

const folder = temporaryFolder();
let server: Awaited<ReturnType<typeof testDebianPostgres>>;
let tools: string;
let world: Installation;
let controlPlane: Running;
let sidecar: Running;
beforeAll(async () => {
  tools = dirname(realpathSync(await sharedService('initdb')));
  server = await testDebianPostgres();
  world = await installation(await bundledPrograms(), { databaseUrl: server.url });
  controlPlane = await world.startControlPlane();
  sidecar = await world.startSidecar();
});
afterAll(async () => {
  await world?.close();
  await server?.stop();
  folder.remove();
});

it(
  'both replays believe a gate that is stale because its sidecar knew a later policy',
  async () => {
    const gateId = await world.createGate();
    const [before, after] = [await world.issuePassport(), await world.issuePassport()];
    const check = async (token: string): Promise<string> => {
      const { body } = await call(`${sidecar.origin}/v1/gates/${gateId}/check`, {
        key: world.adminKey,
        body: { passport: token, request: { permission_key: 'orders:create' } },
      });
      return body.reason ?? body.decision ?? body.error?.code;
    };
    const isSaid = (token: string, what: string) =>
      until(async () => (await check(token)) === what, { what, timeoutMs: minuteMs });
    const recordsOf = async ({
      id,
    }: {
      readonly id: string;
    }): Promise<readonly { reason: string | null }[]> =>
      (await world.api('GET', `/attestations?passport_id=${id}&limit=500`)).body.attestations;
    const isStored = (passport: { readonly id: string }, reason: string | null) =>
      until(async () => (await recordsOf(passport)).some((each) => each.reason === reason), {
        what: `a record of ${reason ?? 'a PERMIT'}`,
        timeoutMs: minuteMs,
      });
    const replayed = async () => {
      const { file } = await saveExport(
        { adminKey: world.adminKey, origin: controlPlane.origin },
        folder.path,
      );
      // It names the hole, so no command goes on behind its verification.
      const [ours, theirs] = await replayBothUnverified(file);
      expect(theirs.report).toEqual(ours.report);
      expect([ours.code, theirs.code, ours.report.contradictions]).toEqual([0, 0, []]);
      return ours.report;
    };

    await isSaid(before.token, 'PERMIT');
    await isStored(before, null);
    const dump = join(folder.path, 'older.dump');
    await run(join(tools, 'pg_dump'), ['--format=custom', `--file=${dump}`, server.url]);
    const { status } = await world.api('PUT', `/gates/${gateId}`, {
      constraints: { allowed_domains: ['a.example'] },
    });
    expect(status).toBe(200);
    await isSaid(before.token, 'domain_missing');
    await isStored(before, 'domain_missing');

    await controlPlane.stop('SIGTERM');
    await run(join(tools, 'pg_restore'), ['--clean', '--if-exists', `--dbname=${server.url}`, dump]);
    await controlPlane.start();
    await isSaid(after.token, 'state_stale');
    const recover = async (apply: boolean) =>
      (await world.api('POST', '/sync/history/recover', { apply })).body;
    const isKnown = async () =>
      (await recover(false)).lost.some((each: { chain_id: string }) => each.chain_id === before.id);
    await until(isKnown, { what: 'what the sidecar knows', timeoutMs: minuteMs });
    expect((await recover(true)).state).toBe('whole');
    await isStored(after, 'state_stale');
    await isStored(before, 'domain_missing');
    const { decisions, unjudged } = await replayed();
    expect(unjudged.state).toBeGreaterThan(0);
    // The later policy is lost, and the record that names it is handed in again.
    expect(unjudged.policy_missing).toBeGreaterThan(0);
    expect(decisions.PERMIT.agrees).toBeGreaterThan(0);
  },
  10 * minuteMs,
);
