import { randomBytes } from 'node:crypto';
import type { Database, Transaction } from '../../../control-plane/base/database.ts';
import { findImbalances } from '../../../control-plane/book/balance.ts';
import { connect } from '../../../control-plane/storage/connect.ts';
import { startEmbeddedPostgres } from '../../../control-plane/storage/embedded.ts';
import { migrate } from '../../../control-plane/storage/migrate.ts';
import { must } from '../../../shared/errors/assert.ts';
import { minuteMs } from '../../../shared/model/time.ts';
import { systemClock } from '../../../shared/runtime/clock.ts';
import { silentLogger } from '../../../shared/runtime/logger.ts';
import { countCost } from '../base/costs.ts';
import { roomInWindow } from '../base/room-in-window.ts';
import { temporaryFolder } from '../base/temporary-folder.ts';
import { isDebianAsked, testDebianPostgres } from '../run/debian-postgres.ts';
import { sharedService } from '../run/shared-services.ts';
import { watchLocks } from './lock-watch.ts';

export interface TestDatabase {
  /** A pool on the database; ended by `drop`. */
  readonly sql: Database;
  /** For further pools, and as DATABASE_URL of another process. */
  readonly url: string;
  /**
   * Ends the pool and all other sessions, and removes the database; throws where a transaction of the pool
   * took locks out of their order, or windows are out of balance. What a test forgets to drop
   * goes with the run.
   */
  drop(): Promise<void>;
  /** Throws what `drop` would. */
  throwFault(): Promise<void>;
}

/** Enough for a test, few enough for many files at once within PostgreSQL's 100. */
const connectionsMax = 8;

/**
 * Tests count requests, money and partitions of one day, or of one month, and most of their files take less
 * than this: the day does not end in the middle of one. No longer than a test may take.
 */
const dayLeftMsMin = 2 * minuteMs;

export interface TestDatabaseOptions {
  /** Without any migration. */
  readonly isEmpty?: boolean;
  /** Text sorts as in Danish, where `aa` comes after `z`, and not by its bytes as otherwise. */
  readonly isDanish?: boolean;
  /** The test writes units of windows past the service: they need not be in balance. */
  readonly isDamaged?: boolean;
}

/**
 * A fresh database with all migrations applied, on a real PostgreSQL of this run. At the very end of a day
 * (UTC) it waits for the next one.
 */
export async function testDatabase({
  isEmpty = false,
  isDanish = false,
  isDamaged = false,
}: TestDatabaseOptions = {}): Promise<TestDatabase> {
  countCost('databases');
  await roomInWindow('day', dayLeftMsMin);
  const adminUrl = await sharedService('postgres');
  const name = `test_${randomBytes(6).toString('hex')}`;
  const template = isEmpty || isDanish ? 'template0' : 'postgres';
  const locale = isDanish ? "LOCALE_PROVIDER icu ICU_LOCALE 'da-DK' LOCALE 'C'" : '';
  // By default each page is written to the log and copied by itself, for a third of a second of a core.
  const create = `CREATE DATABASE ${name} TEMPLATE ${template} STRATEGY file_copy ${locale}`;
  await asAdmin(adminUrl, (sql) => sql.unsafe(create));
  const url = new URL(adminUrl);
  url.pathname = `/${name}`;
  // The template has the order of bytes, and its indexes with it.
  if (isDanish && !isEmpty) await withPool(url, migrate);
  const { onStatement, violations } = watchLocks();
  const sql = connect({ url: url.href, connectionsMax, onStatement });
  const throwFault = async (): Promise<void> => {
    const found = violations.splice(0);
    if (found.length > 0) throw new Error(`out of the order of locks:\n${found.join('\n')}`);
    if (isEmpty || isDamaged) return;
    const unbalanced = await withPool(url, outOfBalance);
    if (unbalanced.length > 0) throw new Error(unbalanced.join('\n'));
  };
  return {
    throwFault,
    sql,
    url: url.href,
    drop: async () => {
      try {
        await throwFault();
      } finally {
        await sql.end({ timeout: 1 });
        await asAdmin(adminUrl, (admin) => admin.unsafe(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`));
      }
    },
  };
}

/** Windows of which somebody has units that are not given out (control-plane/book): a line each. */
export async function outOfBalance(sql: Database | Transaction): Promise<readonly string[]> {
  const { windows } = await findImbalances(sql, systemClock.now(), 20);
  return windows.map((each) => `out of balance: ${JSON.stringify(each)}`);
}

export interface TestDatabaseServer {
  /** Stays the same across stops and starts. */
  readonly url: string;
  /** The server goes away in order; its data stay. */
  stopServer(): Promise<void>;
  startServer(): Promise<void>;
  /** Ends it for good and removes its data. */
  stop(): Promise<void>;
}

/**
 * A PostgreSQL of this caller's own, without migrations, for tests in which the database itself comes and
 * goes: embedded, or Debian's over TCP. At the end of a day it waits as `testDatabase` does.
 */
export async function testDatabaseServer({
  isDebian = isDebianAsked,
}: {
  readonly isDebian?: boolean;
} = {}): Promise<TestDatabaseServer> {
  countCost('databases');
  await roomInWindow('day', dayLeftMsMin);
  if (isDebian) return testDebianPostgres();
  const folder = temporaryFolder();
  const start = () =>
    startEmbeddedPostgres({ dataDir: folder.path, logger: silentLogger, isDisposable: true });
  let server = await start();
  return {
    url: server.url,
    stopServer: () => server.stop(),
    startServer: async () => {
      server = await start();
    },
    stop: async () => {
      await server.stop();
      folder.remove();
    },
  };
}

/** From `template1`, because the database that is copied must have no session. */
async function asAdmin(adminUrl: string, work: (sql: Database) => Promise<unknown>): Promise<void> {
  const url = new URL(adminUrl);
  url.pathname = '/template1';
  await withPool(url, work);
}

async function withPool<Result>(url: URL, work: (sql: Database) => Promise<Result>): Promise<Result> {
  const sql = connect({ url: url.href, connectionsMax: 1 });
  try {
    return await work(sql);
  } finally {
    await sql.end();
  }
}

/**
 * How many clients wait for a lock there now, also as seen by a transaction; an autovacuum worker that
 * does is nobody's test.
 */
export async function waitingForLocks(sql: Database | Transaction): Promise<number> {
  // To a transaction PostgreSQL shows the sessions of one moment until it clears that.
  await sql`SELECT pg_stat_clear_snapshot()`;
  const [row] = await sql<{ count: number }[]>`
    SELECT count(*) AS count FROM pg_stat_activity
    WHERE datname = current_database() AND backend_type = 'client backend' AND wait_event_type = 'Lock'`;
  return must(row, 'a count has a row').count;
}

/**
 * Who waits for a lock of this table there, by process id. All databases of a run are copies of one, with the
 * same number for the same table, so that the lock of a table alone may be that of another test.
 */
export async function waitingForTable(sql: Database | Transaction, table: string): Promise<number[]> {
  const rows = await sql<{ pid: number }[]>`
    SELECT pid FROM pg_locks WHERE NOT granted AND relation = ${table}::regclass
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`;
  return rows.map(({ pid }) => pid);
}
