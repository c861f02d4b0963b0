import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Database } from '../../control-plane/base/database.ts';
import { connect } from '../../control-plane/storage/connect.ts';
import { CopyRows, copyIn } from '../../control-plane/storage/copy-rows.ts';
import { beginReading, sendWithCommit, together } from '../../control-plane/storage/together.ts';
import { type DistantDatabase, distantDatabase } from '../support/database/distant-database.ts';
import { testDatabase } from '../support/database/postgres.ts';

let sql: Database;
let distant: DistantDatabase;
beforeAll(async () => {
  distant = await distantDatabase((await testDatabase()).url, { eachWayMs: 5 });
  sql = connect({ url: distant.url, connectionsMax: 2 });
  await sql`CREATE TABLE places (place int PRIMARY KEY, words text)`;
});
afterAll(async () => {
  await sql?.end();
  await distant?.close();
});

const places = async () =>
  (await sql<{ place: number }[]>`SELECT place FROM places ORDER BY place`).map(({ place }) => place);

async function journeysOf(work: () => Promise<unknown>): Promise<number> {
  const before = distant.journeys;
  await work();
  return distant.journeys - before;
}

describe('a transaction that begins with its first statements', () => {
  it('takes one journey for both, and one for its last statement with the COMMIT', async () => {
    const work = (place: number) => () =>
      beginReading(sql, async (tx) => {
        await together([() => tx`SELECT ${place}::int`, () => tx`SELECT ${'text'}::text`]);
        await sendWithCommit(() => tx`INSERT INTO places VALUES (${place}::int, ${'one'}::text)`);
      });
    await work(1)();
    expect(await journeysOf(work(2))).toBe(2);
    expect(await places()).toEqual([1, 2]);
  });

  it('is read committed, and an error of its work rolls it back', async () => {
    const levels = await beginReading(
      sql,
      (tx) => tx<{ level: string }[]>`
      SELECT current_setting('transaction_isolation') AS level`,
    );
    expect(levels.map(({ level }) => level)).toEqual(['read committed']);
    const failing = beginReading(sql, async (tx) => {
      await tx`SELECT 1`;
      await tx`INSERT INTO places VALUES (3, 'three')`;
      throw new Error('not this one');
    });
    await expect(failing).rejects.toThrow('not this one');
    expect(await places()).not.toContain(3);
  });

  it('fails with what its BEGIN fails with, writes nothing, and leaves a connection that works', async () => {
    // A mode that PostgreSQL does not know.
    const begun = sql.begin('eager isolation level unheard of', async (tx) => {
      await together([() => tx`SELECT ${4}::int AS cold`, () => tx`SELECT 4`, () => tx`SELECT ${'a'}::text`]);
      await tx`INSERT INTO places VALUES (4, 'four')`;
    });
    await expect(begun).rejects.toThrow(/syntax error/);
    expect(await places()).not.toContain(4);
    expect(await Promise.all([1, 2, 3].map(() => sql`SELECT 1 AS one`))).toHaveLength(3);
  });

  it('fails where the database cannot be reached', async () => {
    const nowhere = connect({ url: 'postgres://nobody@127.0.0.1:1/none', connectionsMax: 1 });
    await expect(beginReading(nowhere, (tx) => tx`SELECT 1`)).rejects.toMatchObject({ code: 'ECONNREFUSED' });
    await nowhere.end();
  });
});

describe('a statement that travels with the COMMIT', () => {
  it('fails the transaction where it fails', async () => {
    await sql`INSERT INTO places VALUES (10, 'ten')`;
    const doubled = sql.begin(async (tx) => {
      await tx`INSERT INTO places VALUES (11, 'eleven')`;
      await sendWithCommit(() => tx`INSERT INTO places VALUES (10, 'again')`);
    });
    await expect(doubled).rejects.toMatchObject({ code: '23505' });
    expect(await places()).not.toContain(11);
  });

  it('is not sent once more after the end of its transaction, where its plan is out of date', async () => {
    const add = (place: number) =>
      sql.begin(async (tx) => {
        await tx`SELECT 1`;
        await sendWithCommit(() => tx`INSERT INTO places VALUES (${place}::int, 'x') RETURNING *`);
      });
    for (const place of [20, 21, 22]) await add(place);
    await sql`ALTER TABLE places ADD COLUMN more int`;
    const outcomes = await Promise.allSettled([23, 24, 25, 26].map(add));
    const added = outcomes.flatMap(({ status }, place) => (status === 'fulfilled' ? [23 + place] : []));
    expect(outcomes.some(({ status }) => status === 'rejected')).toBe(true);
    expect((await places()).filter((place) => place > 22)).toEqual(added);
    await add(30);
    expect(await places()).toContain(30);
  });
});

describe('what is sent together', () => {
  const copied = (place: number) => {
    const rows = new CopyRows(0);
    rows.row(1);
    rows.int(place);
    return rows.take();
  };
  const statement = (text: string) => Object.assign([text], { raw: [text] });
  const copyPlaces = statement('COPY places (place) FROM STDIN (FORMAT binary)');

  it('takes one journey, a COPY with its rows among it', async () => {
    const work = (place: number) => () =>
      sql.begin((tx) =>
        together([
          () => copyIn(tx, copyPlaces, copied(place)),
          () => tx`UPDATE places SET words = 'copied' WHERE place = ${place}::int`,
        ]),
      );
    await work(40)();
    // BEGIN and COMMIT are the others.
    expect(await journeysOf(work(41))).toBe(3);
    const rows = await sql`SELECT place, words FROM places WHERE place IN (40, 41) ORDER BY place`;
    expect([...rows]).toEqual([40, 41].map((place) => ({ place, words: 'copied' })));
  });

  it('fails with what the COPY fails with, and the next statements get their own answers', async () => {
    await expect(
      sql.begin((tx) =>
        together([
          () => copyIn(tx, statement('COPY nowhere FROM STDIN (FORMAT binary)'), copied(50)),
          () => tx`INSERT INTO places VALUES (51, 'behind it')`,
        ]),
      ),
    ).rejects.toMatchObject({ code: '42P01' });
    const answers = await Promise.all([1, 2, 3].map((n) => sql`SELECT ${n}::int AS n`));
    expect(answers.map(([row]) => row?.['n'])).toEqual([1, 2, 3]);
    expect(await places()).not.toContain(51);
  });
});

it('does not ask for the types of a statement again on another connection', async () => {
  const ask = (db: Database) => db`SELECT ${7}::int AS a, ${['x', 'y']}::text[] AS b, ${null}::bigint AS c`;
  const fresh = connect({ url: distant.url, connectionsMax: 2 });
  try {
    const [first] = await ask(fresh);
    // Both connections at once, the second one new but for a statement without parameters.
    const both = [await fresh.reserve(), await fresh.reserve()];
    for (const one of both) await one`SELECT 1`;
    for (const one of both) one.release();
    const pair = () =>
      Promise.all([
        fresh.begin(async (tx) => (await ask(tx as never))[0]),
        fresh.begin(async (tx) => (await ask(tx as never))[0]),
      ]);
    expect(await pair()).toEqual([first, first]);
    expect(first).toEqual({ a: 7, b: ['x', 'y'], c: null });
    expect(await journeysOf(pair)).toBe(6);
  } finally {
    await fresh.end();
  }
});
