import { realpathSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { connect } from '../../control-plane/storage/connect.ts';
import { testDebianPostgres } from '../support/debian-postgres.ts';
import { freePort } from '../support/free-port.ts';
import { historyStory } from '../support/history-story.ts';
import { type Installation, installation } from '../support/installation.ts';
import { baseBackup, configure, folderOfPostgres, startCopy } from '../support/postgres-copies.ts';
import { bundledPrograms, type Programs } from '../support/programs.ts';
import { sharedService } from '../support/shared-services.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { until } from '../support/until.ts';

let programs: Programs;
let postgres: string;
const closing: (() => unknown)[] = [];
beforeAll(async () => {
  programs = await bundledPrograms();
  postgres = dirname(realpathSync(await sharedService('initdb')));
});
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function ask(url: string, ...statements: string[]): Promise<readonly Record<string, unknown>[]> {
  const sql = connect({ url, connectionsMax: 1 });
  try {
    let rows: readonly Record<string, unknown>[] = [];
    for (const statement of statements) rows = await sql.unsafe(statement);
    return rows;
  } finally {
    await sql.end();
  }
}

/** A folder, a server that may be copied and archives its log, and two control planes and sidecars on it. */
async function setUp(databaseUrlOf: (url: string) => string) {
  const folder = temporaryFolder();
  closing.push(() => folder.remove());
  const archive = await folderOfPostgres(join(folder.path, 'archive'));
  const server = await testDebianPostgres({
    hostRules: ['host replication all 127.0.0.1/32 scram-sha-256'],
    configuration: {
      wal_level: 'replica',
      archive_mode: 'on',
      archive_command: `cp %p ${archive}/%f`,
      fsync: 'off',
    },
  });
  closing.push(() => server.stop());
  const world: Installation = await installation(programs, { databaseUrl: databaseUrlOf(server.url) });
  closing.push(() => world.close());
  const controlPlanes = [await world.startControlPlane(), await world.startControlPlane()];
  const sidecars = [await world.startSidecar(), await world.startSidecar()];
  const story = historyStory(world, { controlPlanes, sidecars });
  return { folder, archive, server, controlPlanes, story };
}

const portOf = (url: string): number => Number(new URL(url).port);

describe('a history that went back', () => {
  it('by a base backup and its log up to a point in time, is noticed and recovered from', async () => {
    const { folder, archive, server, controlPlanes, story } = await setUp((url) => url);
    const cluster = join(folder.path, 'restored');
    await baseBackup(server.url, { programs: postgres, cluster });
    await story.begin();
    const [{ now } = { now: '' }] = await ask(server.url, 'SELECT clock_timestamp()::text AS now');
    await story.goOn();
    await ask(server.url, 'SELECT pg_switch_wal()');

    for (const one of controlPlanes) await one.stop('SIGTERM');
    await server.stopServer();
    const recovery = [
      `restore_command = 'cp ${archive}/%f %p'`,
      `recovery_target_time = '${now}'`,
      `recovery_target_action = 'promote'`,
      `archive_mode = 'off'`,
    ];
    await configure(cluster, { lines: recovery, files: ['recovery.signal'] });
    const restored = await startCopy({ programs: postgres, cluster, port: portOf(server.url) });
    closing.push(() => restored.stop());
    await until(
      async () => (await ask(server.url, 'SELECT pg_is_in_recovery() AS is'))[0]?.['is'] === false,
      {
        what: 'the point in time',
      },
    );
    for (const one of controlPlanes) await one.start();

    await story.isNoticed();
    await story.recover();
  });

  it('by a replica that lagged and took over, is noticed and recovered from', async () => {
    const port = await freePort();
    const { folder, server, story } = await setUp((url) => {
      const both = new URL(url);
      return url
        .replace(both.host, `${both.host},127.0.0.1:${port}`)
        .concat('?target_session_attrs=read-write');
    });
    const cluster = join(folder.path, 'replica');
    await baseBackup(server.url, { programs: postgres, cluster, args: ['--write-recovery-conf'] });
    await configure(cluster, { lines: [`archive_mode = 'off'`] });
    const replica = await startCopy({ programs: postgres, cluster, port });
    closing.push(() => replica.stop());
    const replicaUrl = server.url.replace(`:${portOf(server.url)}/`, `:${port}/`);
    await story.begin();
    const [{ lsn } = { lsn: '' }] = await ask(server.url, 'SELECT pg_current_wal_flush_lsn()::text AS lsn');
    const has = async () =>
      (await ask(replicaUrl, `SELECT pg_last_wal_replay_lsn() >= '${lsn}' AS has`))[0]?.['has'] === true;
    await until(has, { what: 'the replica has followed' });
    // It receives nothing any more.
    await ask(replicaUrl, `ALTER SYSTEM SET primary_conninfo = ''`, 'SELECT pg_reload_conf()');
    const isCut = async () =>
      (await ask(replicaUrl, 'SELECT count(*)::int AS count FROM pg_stat_wal_receiver'))[0]?.['count'] === 0;
    await until(isCut, { what: 'the replication is cut' });
    await story.goOn();

    process.kill(server.pid, 'SIGQUIT');
    expect((await ask(replicaUrl, 'SELECT pg_promote() AS done'))[0]).toEqual({ done: true });
    await story.isNoticed();
    await story.recover();
  });
});
