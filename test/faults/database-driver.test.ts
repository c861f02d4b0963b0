import { afterEach, beforeEach, expect, it } from 'vitest';
import type { Database } from '../../control-plane/base/database.ts';
import { connect } from '../../control-plane/storage/connect.ts';
import { type TestDatabase, testDatabase } from '../support/postgres.ts';
import { until } from '../support/until.ts';

/**
 * A connection that dies must cost the work that was on it, and nothing else: not the process, not its place
 * in the pool.
 */
let database: TestDatabase;
let pool: Database;

beforeEach(async () => {
  database = await testDatabase();
  pool = connect({ url: database.url, connectionsMax: 1 });
});
afterEach(async () => {
  await pool.end({ timeout: 1 });
  await database.drop();
});

const backendOf = async (sql: Pick<Database, 'unsafe'>): Promise<number> =>
  (await sql.unsafe('SELECT pg_backend_pid() AS pid'))[0]?.['pid'];

async function killBackend(pid: number): Promise<void> {
  await database.sql`SELECT pg_terminate_backend(${pid})`;
  await until(
    async () => (await database.sql`SELECT 1 FROM pg_stat_activity WHERE pid = ${pid}`).length === 0,
    {
      what: 'the end of the backend',
    },
  );
  // One turn of the event loop more than the end needs to reach the driver.
  await new Promise((resolve) => setTimeout(resolve, 20));
}

/** The only place of the pool works again; a query may still meet the connection in its last moment. */
const expectServed = () =>
  until(
    () =>
      pool`SELECT 3`.then(
        () => true,
        () => false,
      ),
    { what: 'a query that is served' },
  );

it('rejects a transaction whose connection dies between two statements, and serves the next one', async () => {
  for (let round = 0; round < 10; round++) {
    const broken = pool.begin(async (tx) => {
      await killBackend(await backendOf(tx));
      await tx`SELECT 2`;
    });
    await expect(broken).rejects.toThrow();
    await expectServed();
  }
});

it('gives the place of a connection that dies in mid-statement back to the pool', async () => {
  for (let round = 0; round < 10; round++) {
    const pid = await backendOf(pool);
    const broken = pool`SELECT pg_sleep(10)`.then(
      () => 'slept',
      () => 'rejected',
    );
    // Written in the same turn in which the death arrives, as far as that can be arranged.
    const late = new Promise((resolve) => setTimeout(resolve, 1)).then(() =>
      pool`SELECT 4`.then(
        () => 'served',
        () => 'rejected',
      ),
    );
    await killBackend(pid);
    expect(await broken).toBe('rejected');
    expect(['served', 'rejected']).toContain(await late);
    await expectServed();
  }
});
