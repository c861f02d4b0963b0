import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Transaction } from '../../control-plane/base/database.ts';
import { until } from '../support/base/until.ts';
import { type TestDatabase, testDatabase } from '../support/database/postgres.ts';

/**
 * What the patch of the database driver is for (deploy/patches). An error that nobody can catch fails the
 * whole run of vitest: that it does not is half of what is tested here.
 */
let database: TestDatabase;
let other: TestDatabase;
beforeAll(async () => {
  [database, other] = await Promise.all([testDatabase(), testDatabase()]);
});
afterAll(() => Promise.all([database.drop(), other.drop()]));

async function pidOf(tx: Transaction): Promise<number> {
  const [row] = await tx<{ pid: number }[]>`SELECT pg_backend_pid() AS pid`;
  return row?.pid ?? 0;
}

/** Ends the session from outside and waits until this process has noticed. */
async function end(pid: number): Promise<void> {
  await other.sql`SELECT pg_terminate_backend(${pid})`;
  await until(async () => (await other.sql`SELECT FROM pg_stat_activity WHERE pid = ${pid}`).count === 0, {
    what: 'the session is gone',
  });
}

const nextStatementWorks = async () =>
  expect([...(await database.sql`SELECT 1 AS one`)]).toEqual([{ one: 1 }]);

describe('a transaction whose connection closes', () => {
  it('rejects while a statement runs', async () => {
    const rejected = database.sql.begin(async (tx) => {
      const pid = await pidOf(tx);
      await Promise.all([tx`SELECT pg_sleep(20)`, end(pid)]);
    });
    await expect(rejected).rejects.toMatchObject({
      code: expect.stringMatching(/CONNECTION_CLOSED|ECONNRESET|EPIPE|57P01/),
    });
    await nextStatementWorks();
  });

  it('rejects between two statements, and sends nothing more', async () => {
    let goOn: () => void = () => undefined;
    const wait = new Promise<void>((resolve) => {
      goOn = resolve;
    });
    const rejected = database.sql.begin(async (tx) => {
      await end(await pidOf(tx));
      await wait;
      await tx`SELECT 1`;
    });
    await expect(rejected).rejects.toMatchObject({ code: 'CONNECTION_CLOSED' });
    goOn();
    await nextStatementWorks();
  });

  it('rejects before its commit', async () => {
    const rejected = database.sql.begin(async (tx) => {
      await end(await pidOf(tx));
    });
    await expect(rejected).rejects.toMatchObject({
      code: expect.stringMatching(/CONNECTION_CLOSED|ECONNRESET|EPIPE|57P01/),
    });
    await nextStatementWorks();
  });

  it('still rolls back and rejects with the error of the work while it is open', async () => {
    const rejected = database.sql.begin(async (tx) => {
      await tx`INSERT INTO installation (name, value) VALUES ('x', 'y')`;
      throw new Error('the work failed');
    });
    await expect(rejected).rejects.toThrow('the work failed');
    expect((await database.sql`SELECT FROM installation WHERE name = 'x'`).count).toBe(0);
  });
});
