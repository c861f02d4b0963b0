import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { limits } from '../../shared/model/limits.ts';
import { StartError } from '../../shared/runtime/start-error.ts';
import type { Database, Transaction } from '../base/database.ts';
import { advisoryLocks } from './locks.ts';

interface Migration {
  readonly number: number;
  /** File name, such as `0001-foundation.sql`. */
  readonly name: string;
  readonly text: string;
  /**
   * Applied again and again, each time in a transaction of its own, until its last statement returns no row:
   * what takes long is done in steps of bounded length, and a start that was stopped goes on behind the last.
   */
  readonly isStepwise: boolean;
  /** Hex SHA-256 of the text. */
  readonly checksum: string;
}

/** The database and this build do not fit together; starting anyway could destroy data. */
export class MigrationError extends StartError {
  override readonly name = 'MigrationError';
}

interface MigrateOptions {
  readonly directory?: URL;
  readonly onStep?: OnStep;
}

/** A file with that name is about to be applied, or its next step. */
export type OnStep = (file: string) => void;

const ownMigrations = new URL('./migrations/', import.meta.url);

/**
 * Brings the schema of the database up to this build. Each file of the folder is applied once, in the order
 * of its number, in a transaction of its own together with its row in `migrations`: after a crash the
 * database is at a whole migration. Replicas that start at once take turns; `sql` must wait for them
 * (`limits.databaseMigrationMsMax`). A file `….steps.sql` is applied step by step (see Migration). A
 * statement that cannot run inside a transaction has no place in a migration.
 *
 * Throws MigrationError where an applied migration was changed or is missing here, or where a newer build has
 * been at work.
 */
export async function migrate(
  sql: Database,
  { directory = ownMigrations, onStep = () => undefined }: MigrateOptions = {},
): Promise<void> {
  const known = await readMigrations(directory);
  let hasMore = true;
  while (hasMore) {
    hasMore = await sql.begin((tx) => applyNext(tx, known, onStep));
  }
}

/** Applies the first migration that is still missing. False: there was none. */
async function applyNext(tx: Transaction, known: readonly Migration[], onStep: OnStep): Promise<boolean> {
  await tx`SELECT set_config('statement_timeout', ${`${limits.databaseMigrationMsMax}`}, true)`;
  await tx`SELECT pg_advisory_xact_lock(${advisoryLocks.migrations})`;
  // Only under the lock: two sessions that create the same table at once fail in spite of IF NOT EXISTS.
  await tx`
    CREATE TABLE IF NOT EXISTS migrations (
      number bigint PRIMARY KEY,
      name text NOT NULL,
      checksum text NOT NULL,
      applied_at_ms bigint NOT NULL DEFAULT (extract(epoch FROM now()) * 1000)::bigint
    )`;
  const applied = await tx<AppliedMigration[]>`SELECT number, name, checksum FROM migrations ORDER BY number`;
  refuseForeignHistory(applied, known);
  const next = known[applied.length];
  if (next === undefined) return false;
  onStep(next.name);
  const results = await tx.unsafe(next.text);
  if (next.isStepwise && hasReturned(results)) return true;
  await tx`INSERT INTO migrations (number, name, checksum) VALUES (${next.number}, ${next.name}, ${next.checksum})`;
  return true;
}

/**
 * Whether the last of several statements has returned rows. The driver answers a list of what statements
 * returned, where several did or something ran before; only those with rows, or a RETURNING, are told apart.
 */
function hasReturned(results: readonly unknown[]): boolean {
  const last = results.at(-1);
  return Array.isArray(last) ? last.length > 0 : results.length > 0;
}

type AppliedMigration = Pick<Migration, 'number' | 'name' | 'checksum'>;

function refuseForeignHistory(applied: readonly AppliedMigration[], known: readonly Migration[]): void {
  applied.forEach((row, index) => {
    const own = known[index];
    if (own === undefined) {
      throw new MigrationError(
        `The database was migrated by a newer version of agent-trust: it has ${row.name}, and this build ends at ` +
          `${known.at(-1)?.name ?? 'no migration'}. Start that newer version.`,
      );
    }
    if (own.number !== row.number || own.name !== row.name) {
      throw new MigrationError(
        `The database has applied ${row.name}, which this build lacks: it has ${own.name} in that place. ` +
          'Start the version of agent-trust that this database belongs to.',
      );
    }
    if (own.checksum !== row.checksum) {
      throw new MigrationError(
        `${row.name} was changed after it had been applied to this database. ` +
          'Restore the file; a change of the schema is a new migration.',
      );
    }
  });
}

const migrationName = /^(\d{4})-[a-z0-9-]+(\.steps)?\.sql$/;

async function readMigrations(directory: URL): Promise<Migration[]> {
  const names = (await readdir(directory)).filter((name) => name.endsWith('.sql')).sort();
  return Promise.all(
    names.map(async (name, index) => {
      const [, digits, steps] = migrationName.exec(name) ?? [];
      const number = Number(digits);
      if (number !== index + 1) {
        throw new MigrationError(
          `${name} should be number ${index + 1}: migrations are named 0001-what.sql, 0002-what.sql and so on.`,
        );
      }
      const text = await readFile(new URL(name, directory), 'utf8');
      return {
        number,
        name,
        text,
        isStepwise: steps !== undefined,
        checksum: createHash('sha256').update(text).digest('hex'),
      };
    }),
  );
}
