import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { measuredCore } from '../../bench/harness/cores.ts';
import { type DebianDatabase, startDebianDatabase } from '../../bench/harness/database.ts';
import { cpuSecondsOfTree } from '../../bench/harness/programs.ts';
import { connect } from '../../control-plane/storage/connect.ts';
import { must } from '../../shared/errors/assert.ts';
import { temporaryFolder } from '../support/base/temporary-folder.ts';
import { until } from '../support/base/until.ts';
import { findDebianProgram } from '../support/run/debian-program.ts';

/** A crowded machine leaves next to nothing to what makes way for others. */
const crowdedMsMax = 120_000;

/** Takes a session a tenth of a second of processor time or more. */
const work = (sql: ReturnType<typeof connect>) =>
  sql`SELECT sum(sqrt(number)) FROM generate_series(1, 1000000) AS number`;
/** Less than it takes on any machine. */
const workSeconds = 0.05;

const coresOf = (pid: number) =>
  /^Cpus_allowed_list:\s*(.*)$/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1];
const policyOf = (pid: number) => execFileSync('chrt', ['--pid', String(pid)], { encoding: 'latin1' });

describe("Debian's PostgreSQL in a row of the bench", () => {
  const folders: ReturnType<typeof temporaryFolder>[] = [];
  const databases: DebianDatabase[] = [];

  async function started(isNice: boolean): Promise<DebianDatabase> {
    const folder = temporaryFolder();
    folders.push(folder);
    const database = await startDebianDatabase({ folder: folder.path, cores: String(measuredCore), isNice });
    databases.push(database);
    return database;
  }

  let database: DebianDatabase;
  beforeAll(async () => {
    await findDebianProgram('initdb');
    database = await started(false);
  }, 180_000);
  afterAll(async () => {
    for (const each of databases) await each.stop();
    for (const each of folders) each.remove();
  });

  /** The session of a new connection, while `look` looks at it. */
  async function inSession(
    { url }: DebianDatabase,
    look: (pid: number, sql: ReturnType<typeof connect>) => Promise<void>,
  ): Promise<void> {
    const sql = connect({ url, connectionsMax: 1, silenceMsMax: crowdedMsMax });
    try {
      const [row] = await sql<{ pid: number }[]>`SELECT pg_backend_pid() AS pid`;
      await look(must(row, 'a session has a process').pid, sql);
    } finally {
      await sql.end();
    }
  }

  it('is reached over TCP, by a role that owns its database alone', async () => {
    expect(new URL(database.url).hostname).toBe('127.0.0.1');
    await inSession(database, async (_, sql) => {
      const [row] = await sql`
        SELECT inet_server_addr() IS NOT NULL AS "isTcp", rolsuper AS "isSuper", current_setting('fsync') AS fsync
        FROM pg_roles WHERE rolname = current_user`;
      expect(row).toEqual({ isTcp: true, isSuper: false, fsync: 'on' });
    });
  });

  it(
    'is charged for its sessions, including ended ones',
    async () => {
      const before = cpuSecondsOfTree(database.pid);
      await inSession(database, async (_, sql) => {
        await work(sql);
        expect(cpuSecondsOfTree(database.pid) - before).toBeGreaterThan(workSeconds);
      });
      await until(() => cpuSecondsOfTree(database.pid) - before > workSeconds, {
        what: 'the time of an ended session',
      });
    },
    crowdedMsMax,
  );

  it(
    'has its core and leaves it to others, before and after a restart',
    async () => {
      const nice = await started(true);
      const first = nice.pid;
      for (const isRestarted of [false, true]) {
        if (isRestarted) {
          await nice.stop();
          await nice.start();
        }
        await inSession(nice, async (pid) => {
          expect([coresOf(nice.pid), coresOf(pid)]).toEqual([String(measuredCore), String(measuredCore)]);
          expect(policyOf(pid)).toMatch(/SCHED_IDLE/);
          const group = `/proc/${pid}/autogroup`;
          const isBehind = () => !existsSync(group) || readFileSync(group, 'latin1').includes('nice 19');
          await until(isBehind, { what: 'a session behind others' });
        });
      }
      expect(nice.pid).not.toBe(first);
    },
    crowdedMsMax,
  );
});
