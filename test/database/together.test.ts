import { beforeAll, describe, expect, it } from 'vitest';
import type { Transaction } from '../../control-plane/base/database.ts';
import { readTogether, together } from '../../control-plane/storage/together.ts';
import { useDatabase } from '../support/database/use-database.ts';

const database = useDatabase();

beforeAll(async () => {
  await database.sql`CREATE TABLE written (what text NOT NULL)`;
});

const write = (tx: Transaction, what: string) => tx`INSERT INTO written (what) VALUES (${what})`;
const written = async () => {
  const rows = await database.sql<{ what: string }[]>`DELETE FROM written RETURNING what`;
  return rows.map(({ what }) => what);
};

describe('parts of one transaction', () => {
  it('are done in their order, and each gets its own rows', async () => {
    const results = await database.sql.begin((tx) =>
      together([
        () => write(tx, 'a'),
        () => tx<{ what: string }[]>`SELECT what FROM written`,
        () => write(tx, 'b'),
        () => tx<{ what: string }[]>`SELECT what FROM written ORDER BY what`,
      ]),
    );
    expect([results[1], results[3]].map((rows) => rows.map(({ what }) => what))).toEqual([['a'], ['a', 'b']]);
    expect((await written()).sort()).toEqual(['a', 'b']);
  });

  it('are done in their order also where some are queries and some have begun to wait', async () => {
    const wait = async (tx: Transaction, what: string) => {
      await write(tx, what);
    };
    await database.sql.begin(async (tx) => {
      await together([() => write(tx, 'a'), () => wait(tx, 'b'), () => write(tx, 'c'), () => wait(tx, 'd')]);
    });
    expect(await written()).toEqual(['a', 'b', 'c', 'd']);
  });

  it('all end before the transaction is rolled back, so that none writes outside of it', async () => {
    const long = async (tx: Transaction) => {
      await write(tx, 'first').catch(() => null);
      // Goes on although the transaction has failed meanwhile.
      for (const what of ['second', 'third', 'fourth']) await write(tx, what).catch(() => null);
    };
    const failed = database.sql.begin((tx) => together([() => tx`SELECT 1 / 0`, () => long(tx)]));
    await expect(failed).rejects.toThrow('division by zero');
    expect(await written()).toEqual([]);
  });

  it('read the same in a transaction and from a pool', async () => {
    const read = (sql: typeof database.sql | Transaction) =>
      readTogether(sql, [sql<{ one: number }[]>`SELECT 1 AS one`, sql<{ two: number }[]>`SELECT 2 AS two`]);
    const expected = [[{ one: 1 }], [{ two: 2 }]];
    expect(await read(database.sql)).toEqual(expected);
    expect(await database.sql.begin(read)).toEqual(expected);
  });
});
