import fc from 'fast-check';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Database } from '../../control-plane/base/database.ts';
import { connect } from '../../control-plane/storage/connect.ts';
import { CopyRows, copyIn } from '../../control-plane/storage/copy-rows.ts';
import { codePoint } from '../support/base/arbitrary-text.ts';
import { runs } from '../support/base/runs.ts';
import { until } from '../support/base/until.ts';
import { useDatabase } from '../support/database/use-database.ts';

const database = useDatabase();
/** One connection: what goes wrong on it is seen by whoever comes next, and no silence ends in time. */
let sql: Database;

beforeAll(async () => {
  sql = connect({ url: database.url, connectionsMax: 1, silenceMsMax: 600_000 });
  await sql`
    CREATE TABLE copied (
      place int PRIMARY KEY CHECK (place < 1000000), amount bigint, letter "char", flag boolean, words text,
      bytes bytea, id uuid, more jsonb
    )`;
});
afterAll(async () => {
  await sql.end({ timeout: 1 });
});

const copied = (change: string): TemplateStringsArray => {
  const text = [`COPY copied (${change}) FROM STDIN (FORMAT binary)`];
  return Object.assign(text, { raw: text });
};
const places = copied('place');

/** Rows of these places and nothing else. */
function rowsOf(numbers: readonly number[]): Buffer {
  const rows = new CopyRows(0);
  for (const number of numbers) {
    rows.row(1);
    rows.int(number);
  }
  return rows.take();
}

const stored = async () =>
  (await sql<{ place: number }[]>`SELECT place FROM copied ORDER BY place`).map(({ place }) => place);

it('stores values of each type as written', async () => {
  const bytes = (length: number) => fc.uint8Array({ minLength: length, maxLength: length });
  const row = fc.record({
    amount: fc.option(fc.maxSafeNat()),
    letter: fc.constantFrom('P', 'S', 'B'),
    flag: fc.boolean(),
    words: fc.option(fc.string({ unit: codePoint }).map((text) => text.replaceAll('\0', ''))),
    hash: fc.option(bytes(32)),
    id: bytes(16),
    more: fc.option(fc.array(fc.record({ pointer: fc.string().map((text) => text.replaceAll('\0', '')) }))),
  });
  const property = fc.asyncProperty(fc.array(row, { maxLength: 20 }), async (rows) => {
    await sql`TRUNCATE copied`;
    const writing = new CopyRows(0);
    rows.forEach(({ amount, letter, flag, words, hash, id, more }, place) => {
      writing.row(8);
      writing.int(place);
      if (amount === null) writing.null();
      else writing.bigint(amount);
      writing.char(letter);
      writing.boolean(flag);
      if (words === null) writing.null();
      else writing.text(words);
      if (hash === null) writing.null();
      else writing.hex(Buffer.from(hash).toString('hex'), 32);
      writing.bytes(new Uint8Array([7, ...id, 7]), 1, 16);
      if (more === null) writing.null();
      else writing.jsonb(more);
    });
    const bytesOfRows = writing.take();
    await sql.begin((tx) =>
      copyIn(tx, copied('place, amount, letter, flag, words, bytes, id, more'), bytesOfRows),
    );
    const read = await sql`
      SELECT amount, letter, flag, words, encode(bytes, 'hex') AS hash, replace(id::text, '-', '') AS id, more
      FROM copied ORDER BY place`;
    expect([...read]).toEqual(
      rows.map(({ hash, id, ...others }) => ({
        ...others,
        hash: hash && Buffer.from(hash).toString('hex'),
        id: Buffer.from(id).toString('hex'),
      })),
    );
  });
  await fc.assert(property, { numRuns: runs({ short: 20, long: 500 }) });
});

it('refuses bytes of another length, and a number that is not exact', () => {
  const rows = new CopyRows(0);
  expect(() => rows.hex('ab', 2)).toThrow();
  expect(() => rows.hex('zz', 1)).toThrow();
  expect(() => rows.bytes(new Uint8Array(3), 1, 3)).toThrow();
  expect(() => rows.bigint(2 ** 53)).toThrow();
  expect(() => rows.bigint(-1)).toThrow();
});

it.each([
  ['after the last row', () => rowsOf([1, 2, 1]), { code: '23505', constraint_name: 'copied_pkey' }],
  [
    'long before it',
    () => rowsOf([1_000_000, ...Array.from({ length: 300_000 }, (_, place) => place)]),
    { code: '23514' },
  ],
  ['because the rows have no end', () => rowsOf([1, 2]).subarray(0, -6), { code: '22P04' }],
])('rejects with the error of the database, %s, and stores nothing', async (_, rows, error) => {
  await sql`TRUNCATE copied`;
  for (let round = 0; round < 5; round++) {
    await expect(
      sql.begin(async (tx) => {
        await tx`INSERT INTO copied (place) VALUES (7)`;
        await copyIn(tx, places, rows());
      }),
    ).rejects.toMatchObject(error);
    expect(await stored()).toEqual([]);
  }
  await sql.begin((tx) => copyIn(tx, places, rowsOf([1, 2])));
  expect(await stored()).toEqual([1, 2]);
});

it('rejects its transaction where the connection dies, and the pool serves the next', async () => {
  await sql`TRUNCATE copied`;
  const many = rowsOf(Array.from({ length: 200_000 }, (_, place) => place));
  for (let round = 0; round < 5; round++) {
    const copying = sql.begin(async (tx) => {
      const [row] = await tx<{ pid: number }[]>`SELECT pg_backend_pid() AS pid`;
      const writing = copyIn(tx, places, many);
      await Promise.all([writing, database.sql`SELECT pg_terminate_backend(${row?.pid ?? 0})`]);
    });
    await expect(copying).rejects.toThrow();
    // The first may meet what the dead connection has left behind.
    await until(async () => (await stored().catch(() => null))?.length === 0, { what: 'the pool serves' });
  }
});
