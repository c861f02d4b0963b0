import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Database, Transaction } from '../../control-plane/base/database.ts';
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

describe('a transaction whose connection dies while it waits for something else', () => {
  /** One that goes on when it is told to, after the pool has told its caller that it is over. */
  const lose = async (goOn: (tx: Transaction) => Promise<unknown>) => {
    let resume: () => void = () => undefined;
    const resumed = new Promise<void>((resolve) => {
      resume = resolve;
    });
    let pid = 0;
    let over: Promise<unknown> = Promise.resolve();
    const lost = pool.begin(async (tx) => {
      pid = await backendOf(tx);
      over = resumed.then(() => goOn(tx));
      await over;
    });
    const rejection = lost.catch((error) => error.code);
    await until(() => pid > 0, { what: 'the transaction' });
    await killBackend(pid);
    expect(await rejection).toBe('CONNECTION_CLOSED');
    return {
      resume: async () => {
        resume();
        await over;
      },
    };
  };

  it('sends nothing any more, whatever the next connection is doing, and mixes no answers up', async () => {
    for (let round = 0; round < 3; round++) {
      let isServed = false;
      const { resume } = await lose(async (tx) => {
        // In every turn of the loop, from before the next connection is opened until it has served.
        while (!isServed) {
          const told = await tx`SELECT 'lost' AS who`.catch((error) => error.code);
          expect(told).toBe('CONNECTION_CLOSED');
          await new Promise((resolve) => setImmediate(resolve));
        }
      });
      const queries = [1, 2, 3].map((n) => pool`SELECT ${n}::int AS n, ${`q${n}`} AS name`);
      const resumed = resume();
      const answers = await Promise.all(queries).finally(() => {
        isServed = true;
      });
      await resumed;
      expect(answers.flat()).toEqual([1, 2, 3].map((n) => ({ n, name: `q${n}` })));
    }
  });

  it.each([
    ['commits', async () => undefined, false],
    [
      'rolls back',
      async () => {
        throw new Error('on purpose');
      },
      true,
    ],
  ])('%s nothing of the one that has its place', async (_what, end, isCommitted) => {
    await pool`CREATE TABLE written (n int)`;
    const { resume } = await lose(end);
    const other = pool.begin(async (tx) => {
      await tx`INSERT INTO written VALUES (1)`;
      await resume().catch(() => undefined);
      // What the lost one would send now comes first.
      await tx`INSERT INTO written VALUES (2)`;
      if (!isCommitted) throw new Error('not to be committed');
    });
    await other.catch((error) => expect(error.message).toBe('not to be committed'));
    const [row] = await pool<{ count: number }[]>`SELECT count(*) FROM written`;
    expect(row?.count).toBe(isCommitted ? 2 : 0);
  });
});

it('rejects also what a transaction has queued behind a statement, when its connection dies', async () => {
  let pid = 0;
  let settled: readonly string[] = [];
  const broken = pool.begin(async (tx) => {
    pid = await backendOf(tx);
    const queries = [tx`SELECT pg_sleep(10)`, tx`SELECT ${1}::int`, tx`SELECT ${2}::bigint`];
    settled = (await Promise.allSettled(queries)).map(({ status }) => status);
  });
  const rejected = expect(broken).rejects.toThrow();
  await until(() => pid > 0, { what: 'the transaction' });
  await killBackend(pid);
  await rejected;
  await until(() => settled.length > 0, { what: 'the end of the queued statements', timeoutMs: 10_000 });
  expect(settled).toEqual(['rejected', 'rejected', 'rejected']);
});
