import { cp, mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { Database } from '../../control-plane/base/database.ts';
import { migrate } from '../../control-plane/storage/migrate.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { systemClock } from '../../shared/runtime/clock.ts';

/**
 * A dump holds the rows of every table as plain INSERT statements. It needs no schema: the migrations that
 * its own tables `migrations` and `expansions` name make it, because an applied migration is never edited.
 */
export async function dumpRows(sql: Database): Promise<string> {
  const tables = await tablesOf(sql);
  return sql.begin('ISOLATION LEVEL REPEATABLE READ READ ONLY', async (tx) => {
    const statements: string[] = [];
    for (const table of tables) {
      const columns = await tx<{ name: string }[]>`
        SELECT quote_ident(column_name) AS name FROM information_schema.columns
        WHERE table_schema = 'public' AND table_name = ${table} AND is_generated = 'NEVER'
        ORDER BY ordinal_position`;
      const names = columns.map(({ name }) => name);
      const literals = names.map((name) => `quote_nullable(${name}::text)`).join(", ', ', ");
      const rows = await tx.unsafe<{ row: string }[]>(
        `SELECT concat(${literals}) AS row FROM ${table} ORDER BY 1`,
      );
      for (const { row } of rows) {
        statements.push(
          `INSERT INTO ${table} (${names.join(', ')}) OVERRIDING SYSTEM VALUE VALUES (${row});\n`,
        );
      }
    }
    const sequences = await tx<{ statement: string }[]>`
      SELECT format('SELECT setval(%L, %s);', schemaname || '.' || sequencename, last_value) AS statement
      FROM pg_sequences WHERE schemaname = 'public' AND last_value IS NOT NULL ORDER BY sequencename`;
    return [...statements, ...sequences.map(({ statement }) => `${statement}\n`)].join('');
  });
}

/** Of a table in partitions the whole: where its rows lie is made anew. */
export async function tablesOf(sql: Database): Promise<string[]> {
  const rows = await sql<{ name: string }[]>`
    SELECT relname AS name FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p') AND NOT relispartition
    ORDER BY relname`;
  return rows.map(({ name }) => name);
}

/** The tables of which the dump has rows. */
export const dumpedTables = (dump: string): string[] => [
  ...new Set([...dump.matchAll(/^INSERT INTO (\w+)/gm)].map(([, table = '']) => table)),
];

/** Puts the dump into an empty database, with the schema of the version that it was taken from. */
export async function restore(sql: Database, dump: string): Promise<void> {
  const applied = dump.match(/^INSERT INTO (?:migrations|expansions) /gm)?.length ?? 0;
  await withFirstMigrations(applied, (folder) => migrate(sql, { directory: folder }));
  await sql.begin(async (tx) => {
    // References are not checked row by row, so that the order of the tables does not matter.
    await tx`SET LOCAL session_replication_role = replica`;
    // Migrations write rows too, which the dump has as they became.
    await tx.unsafe(`TRUNCATE ${dumpedTables(dump).join(', ')}`);
    await tx.unsafe(dump);
  });
}

const migrations = new URL('../../control-plane/storage/migrations/', import.meta.url);

async function withFirstMigrations(count: number, work: (folder: URL) => Promise<void>): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'agent-trust-test-'));
  try {
    const names = (await readdir(migrations)).sort().slice(0, count);
    for (const name of names) await cp(new URL(name, migrations), join(folder, name));
    await work(pathToFileURL(`${folder}/`));
  } finally {
    await rm(folder, { recursive: true });
  }
}

/**
 * Makes this database one whose clock shows that time now: every session from the next one on finds these two
 * functions before PostgreSQL's. The service goes by the clock of its database (contract §6), so nothing in a
 * dump is ever older than it was. Resolves with how far the clock is behind, in milliseconds.
 */
export async function setClockBack(sql: Database, toMs: UnixMillis): Promise<number> {
  const behindMs = systemClock.now() - toMs;
  const interval = `interval '${behindMs} milliseconds'`;
  const [row] = await sql<[{ name: string }]>`SELECT quote_ident(current_database()) AS name`;
  await sql.unsafe(`
    CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE
      AS $$ SELECT pg_catalog.clock_timestamp() - ${interval} $$;
    CREATE FUNCTION public.now() RETURNS timestamptz LANGUAGE sql STABLE
      AS $$ SELECT pg_catalog.now() - ${interval} $$;
    ALTER DATABASE ${row.name} SET search_path = public, pg_catalog;`);
  return behindMs;
}
