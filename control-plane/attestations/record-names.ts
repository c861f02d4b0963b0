import type { Database, Transaction } from '../base/database.ts';

/**
 * Values that many records repeat (ids of gates, sidecars and keys, owners, reasons, lists of checks) are
 * stored once; records refer to them by number. A name never changes and is never removed. Not cached in this
 * process: a restored database may reuse numbers for new names.
 */
export type RecordNames = ReadonlyMap<string, number>;

/**
 * Numbers of these distinct names; new names get one. `known`: an earlier result of `findNumbers` for these
 * names, and maybe others, so that usually nothing is left to do. Two transactions that add the same name
 * wait for each other, in the order of the names.
 */
export async function numberNames(
  tx: Transaction,
  names: readonly string[],
  known: RecordNames,
): Promise<RecordNames> {
  const missing = names.filter((name) => !known.has(name)).sort();
  if (missing.length === 0) return known;
  await tx`
    INSERT INTO record_names (name) SELECT name FROM unnest(${missing}::text[]) WITH ORDINALITY AS new (name, place)
    ORDER BY place ON CONFLICT (name) DO NOTHING`;
  return findNumbers(tx, names);
}

/** Known names only: a name that no record uses has no number. */
export async function findNumbers(
  sql: Database | Transaction,
  names: readonly string[],
): Promise<RecordNames> {
  const rows = await sql<{ name: string; number: number }[]>`
    SELECT name, number FROM record_names WHERE name = ANY(${[...names]}::text[])`;
  return new Map(rows.map(({ name, number }) => [name, number]));
}

/** The names of these numbers. */
export async function findNames(
  sql: Database | Transaction,
  numbers: readonly number[],
): Promise<Map<number, string>> {
  const rows = await sql<{ name: string; number: number }[]>`
    SELECT number, name FROM record_names WHERE number = ANY(${[...numbers]}::int[])`;
  return new Map(rows.map(({ number, name }) => [number, name]));
}
