import { readdirSync, readFileSync } from 'node:fs';

/** The tables that the migrations leave, and those that the migrations themselves need. */
export function migratedTables(): readonly string[] {
  const folder = new URL('../../../control-plane/storage/migrations/', import.meta.url);
  const sql = readdirSync(folder)
    .sort()
    .map((file) => readFileSync(new URL(file, folder), 'utf8'))
    .join('\n');
  const tables = new Set([...sql.matchAll(/^CREATE TABLE (\w+)/gm)].map(([, table = '']) => table));
  for (const [, before = '', after = ''] of sql.matchAll(/^ALTER TABLE (\w+) RENAME TO (\w+)/gm)) {
    tables.delete(before);
    tables.add(after);
  }
  for (const [, table = ''] of sql.matchAll(/^DROP TABLE (\w+)/gm)) tables.delete(table);
  return [...tables, 'expansions', 'migrations'].sort();
}
