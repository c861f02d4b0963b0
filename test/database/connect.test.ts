import { describe, expect, it } from 'vitest';
import { connect, socketUrl } from '../../control-plane/storage/connect.ts';
import { useDatabase } from '../support/database/use-database.ts';

describe('connect', () => {
  const database = useDatabase({ isEmpty: true });

  it('gives bigint columns, counts and arrays as numbers', async () => {
    const { sql } = database;
    expect(
      await sql`SELECT 9007199254740991::bigint AS one, count(*) AS n, ARRAY[1, 2]::bigint[] AS many`,
    ).toEqual([{ one: 9_007_199_254_740_991, n: 1, many: [1, 2] }]);
  });

  it('refuses a bigint that a number cannot hold, instead of rounding it', async () => {
    await expect(database.sql`SELECT 9007199254740993::bigint AS x`).rejects.toThrow('stays below 2^53');
  });

  it('takes numbers for bigint columns, null included', async () => {
    const { sql } = database;
    expect(await sql`SELECT ${1_790_000_000_000}::bigint AS x, ${null}::bigint AS y`).toEqual([
      { x: 1_790_000_000_000, y: null },
    ]);
  });

  it('has bounds on a statement and on a pause inside a transaction', async () => {
    expect(
      await database.sql`SELECT current_setting('statement_timeout') AS a, current_setting('idle_in_transaction_session_timeout') AS b`,
    ).toEqual([{ a: '30s', b: '30s' }]);
  });

  it('fails at once where the socket of the database is gone', async () => {
    const sql = connect({ url: socketUrl({ folder: '/nowhere', database: 'x', user: 'y' }) });
    try {
      await expect(sql`SELECT 1`).rejects.toMatchObject({ code: 'ENOENT', syscall: 'connect' });
    } finally {
      await sql.end();
    }
  });
});
