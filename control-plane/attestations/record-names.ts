import type { Database, Transaction } from '../base/database.ts';

/**
 * What many records repeat (ids of gates, sidecars and keys, owners, reasons, lists of checks) is stored
 * once, and named in records by its number. A name never changes and is never removed. Nothing is kept in
 * this process: a database that is restored may number new names anew.
 */
export type RecordNames = ReadonlyMap<string, number>;

/**
 * The numbers of these names, each once; new ones get theirs. `known`: what `findNumbers` gave for them, and
 * maybe for others, before, so that this is mostly done already. Two transactions that add the same name wait
 * for each other, in the order of the names.
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

/** Those that are known: what no record names has no number. */
export async function findNumbers(
  sql: Database | Transaction,
  names: readonly string[],
): Promise<RecordNames> {
  const rows = await sql<{ name: string; number: number }[]>`
    SELECT name, number FROM record_names WHERE name = ANY(${[...names]}::text[])`;
  return new Map(rows.map(({ name, number }) => [name, number]));
}

/** The names of these numbers, which records name. */
export async function findNames(
  sql: Database | Transaction,
  numbers: readonly number[],
): Promise<Map<number, string>> {
  const rows = await sql<{ name: string; number: number }[]>`
    SELECT number, name FROM record_names WHERE number = ANY(${[...numbers]}::int[])`;
  return new Map(rows.map(({ number, name }) => [number, name]));
}
