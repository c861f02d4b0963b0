import { afterAll, beforeAll, expect, it } from 'vitest';
import { type DebianPostgres, makeOwnedDatabase } from '../../bench/harness/debian-postgres.ts';
import type { Database } from '../../control-plane/base/database.ts';
import { connect } from '../../control-plane/storage/connect.ts';
import { CopyRows, copyIn } from '../../control-plane/storage/copy-rows.ts';
import { testDebianPostgres } from '../support/run/debian-postgres.ts';

/** As most users run it: Debian's PostgreSQL over TCP, with its default settings. */
let server: DebianPostgres;
let url: string;
let sql: Database;

beforeAll(async () => {
  server = await testDebianPostgres();
  url = await makeOwnedDatabase(server.url);
  sql = connect({ url, connectionsMax: 2 });
  await sql`CREATE TABLE copied (place int)`;
});
afterAll(async () => {
  await sql.end({ timeout: 1 });
  await server.stop();
});

const median = (numbers: readonly number[]): number =>
  [...numbers].sort((a, b) => a - b)[numbers.length >> 1] ?? Number.NaN;

it('copies rows without waiting for acknowledgements: 40 ms each, with Nagle’s algorithm', async () => {
  const place = Object.assign(['COPY copied (place) FROM STDIN (FORMAT binary)'], {
    raw: ['COPY copied (place) FROM STDIN (FORMAT binary)'],
  });
  const took: number[] = [];
  for (let time = 0; time < 60; time++) {
    const rows = new CopyRows(0);
    rows.row(1);
    rows.int(time);
    const startedMs = performance.now();
    await sql.begin((tx) => copyIn(tx, place, rows.take()));
    took.push(performance.now() - startedMs);
  }
  // The kernel acknowledges the first writes of a connection at once.
  expect(median(took.slice(20))).toBeLessThan(30);
});

/** With what the execution took. */
const planOf = async (on: Pick<Database, 'unsafe'>): Promise<string> => {
  const rows = await on.unsafe<{ 'QUERY PLAN': string }[]>('EXPLAIN (ANALYZE) SELECT count(*) FROM copied');
  return rows.map((row) => row['QUERY PLAN']).join('\n');
};

it('compiles no statement that has to look through a table, inside of a transaction and outside', async () => {
  expect(await planOf(sql)).not.toContain('JIT');
  expect(await sql.begin(planOf)).not.toContain('JIT');
});

it.each(['serializable', 'repeatable read'])(
  'reads what is committed where the database says %s',
  async (isolation) => {
    const admin = connect({ url: server.url, connectionsMax: 1 });
    await admin.unsafe(`ALTER DATABASE agent_trust SET default_transaction_isolation = '${isolation}'`);
    const other = connect({ url, connectionsMax: 2 });
    try {
      expect(await other`SHOW transaction_isolation`).toEqual([{ transaction_isolation: 'read committed' }]);
      const within = other.begin('READ ONLY', (tx) => tx`SHOW transaction_isolation`);
      expect(await within).toEqual([{ transaction_isolation: 'read committed' }]);
      const own = other.begin(
        'ISOLATION LEVEL REPEATABLE READ READ ONLY',
        (tx) => tx`SHOW transaction_isolation`,
      );
      expect(await own).toEqual([{ transaction_isolation: 'repeatable read' }]);
    } finally {
      await other.end({ timeout: 1 });
      await admin.unsafe('ALTER DATABASE agent_trust RESET ALL');
      await admin.end({ timeout: 1 });
    }
  },
);
