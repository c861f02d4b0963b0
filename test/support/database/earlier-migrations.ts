import { copyFileSync, mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import type { Database } from '../../../control-plane/base/database.ts';
import { migrate } from '../../../control-plane/storage/migrate.ts';
import { temporaryFolder } from '../base/temporary-folder.ts';

const migrations = new URL('../../../control-plane/storage/migrations/', import.meta.url);

/** Brings an empty database to what it was after the migration of this number. */
export async function migrateUpTo(sql: Database, last: number): Promise<void> {
  const folder = temporaryFolder();
  const earlier = join(folder.path, 'migrations');
  mkdirSync(earlier);
  for (const name of readdirSync(migrations))
    if (Number(name.slice(0, 4)) <= last)
      copyFileSync(join(fileURLToPath(migrations), name), join(earlier, name));
  await migrate(sql, { directory: pathToFileURL(`${earlier}/`) });
  folder.remove();
}
