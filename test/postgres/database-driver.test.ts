import { type AddressInfo, createServer, connect as dial, type Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import type { Database, Transaction } from '../../control-plane/base/database.ts';
import { connect } from '../../control-plane/storage/connect.ts';
import { limits } from '../../shared/model/limits.ts';
import { until } from '../support/base/until.ts';
import { type TestDatabase, testDatabase } from '../support/database/postgres.ts';

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

const isAsleep = async (pid: number): Promise<boolean> =>
  (await database.sql`SELECT FROM pg_stat_activity WHERE pid = ${pid} AND wait_event = 'PgSleep'`).length ===
  1;

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
  for (let round = 0; round < 4; round++) {
    const broken = pool.begin(async (tx) => {
      await killBackend(await backendOf(tx));
      await tx`SELECT 2`;
    });
    await expect(broken).rejects.toThrow();
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

  it('sends nothing more, whatever the next connection does, and mixes up no answers', async () => {
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
  await until(() => settled.length > 0, { what: 'the end of the queued statements' });
  expect(settled).toEqual(['rejected', 'rejected', 'rejected']);
});

it('leaves nothing of a connection that is reset to the next one', async () => {
  const link = await resettable(database.url);
  const linked = connect({ url: link.url, connectionsMax: 1 });
  onTestFinished(() => linked.end({ timeout: 1 }));
  const codes: string[] = [];
  const note = (error: { code: string }) => void codes.push(error.code);
  const broken = linked.begin(async (tx) => {
    const pid = await backendOf(tx);
    const slept = tx`SELECT pg_sleep(10)`;
    slept.catch(note);
    await until(() => isAsleep(pid), { what: 'the statement that sleeps' });
    link.reset();
    await slept;
  });
  await broken.catch(note);
  // The error comes in a turn before the close, and the ROLLBACK is sent in between.
  expect(codes).toEqual(['ECONNRESET', 'CONNECTION_CLOSED']);
  const answers = await linked.begin((tx) => [tx`SELECT 'a' AS x`, tx`SELECT 'b' AS x`]);
  expect(answers.flat()).toEqual([{ x: 'a' }, { x: 'b' }]);
});

/** A way to the database over TCP, on which connections can be reset. */
async function resettable(url: string): Promise<{ readonly url: string; reset(): void }> {
  const { pathname, searchParams } = new URL(url);
  const path = `${searchParams.get('host')}/.s.PGSQL.5432`;
  const open = new Set<Socket>();
  const server = createServer((near) => {
    const far = dial(path);
    open.add(near);
    near.on('close', () => far.destroy()).on('error', () => far.destroy());
    far.on('error', () => near.destroy());
    near.pipe(far).pipe(near);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    for (const near of open) near.destroy();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  return {
    url: `postgres://${searchParams.get('user')}@127.0.0.1:${port}${pathname}?sslmode=disable`,
    reset: () => {
      for (const near of open) near.resetAndDestroy();
    },
  };
}

it('serves the statement after one that died, and does not tell it of that death', async () => {
  for (let round = 0; round < 3; round++) {
    const pid = await backendOf(pool);
    const broken = pool`SELECT pg_sleep(10)`.catch((error) => error.code);
    await until(() => isAsleep(pid), { what: 'the statement that sleeps' });
    await database.sql`SELECT pg_terminate_backend(${pid})`;
    expect(await broken).toBe('CONNECTION_CLOSED');
    expect(await pool`SELECT 3 AS n`).toEqual([{ n: 3 }]);
  }
});

it('rejects a statement whose parameters cannot be sent, and not the one before it', async () => {
  await pool`SELECT pg_sleep(${0}::float8)`;
  const before = pool`SELECT pg_sleep(${0.2}::float8)`.then(() => 'slept');
  await new Promise((resolve) => setTimeout(resolve, 20));
  const bad = pool`SELECT ${undefined as unknown as number}::int`.catch((error) => error.code);
  const after = pool`SELECT 4 AS n`;
  expect([await before, await bad, await after]).toEqual(['slept', 'UNDEFINED_VALUE', [{ n: 4 }]]);
});

it('takes no statement of a transaction that has ended', async () => {
  let late: Transaction | null = null;
  await pool.begin(async (tx) => {
    late = tx;
    await tx`SELECT 1`;
  });
  const told = await pool.begin(async (tx) => {
    await tx`SELECT 1`;
    return { late: await (late as unknown as Transaction)`SELECT 2`.catch((error) => error.code) };
  });
  expect(told).toEqual({ late: 'TRANSACTION_ENDED' });
});

it('encodes the parameters of a statement once, also where its plan is made anew', async () => {
  await pool`CREATE TABLE kept (id bytea)`;
  const id = Buffer.from([1, 255]);
  await pool`INSERT INTO kept VALUES (${id})`;
  const find = () => pool`SELECT * FROM kept WHERE id = ${id}`;
  expect(await find()).toHaveLength(1);
  await database.sql`ALTER TABLE kept ADD COLUMN other int`;
  expect(await find()).toHaveLength(1);
});

it('gives up a statement whose connection is accepted and closed again and again', async () => {
  let accepted = 0;
  const server = createServer((socket) => {
    accepted++;
    socket.destroy();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  const other = connect({ url: `postgres://nobody@127.0.0.1:${port}/nothing?sslmode=disable` });
  onTestFinished(() => other.end({ timeout: 0 }));
  const startedAtMs = performance.now();
  const code = await other`SELECT 1`.then(
    () => 'served',
    (error) => error.code,
  );
  expect(code).toBe('CONNECTION_CLOSED');
  expect(performance.now() - startedAtMs).toBeLessThan(2 * limits.databaseConnectMsMax);
  // It pauses in between, longer and longer up to half a second.
  expect(accepted).toBeGreaterThan(2);
  expect(accepted).toBeLessThan(10 + limits.databaseConnectMsMax / 400);
});
