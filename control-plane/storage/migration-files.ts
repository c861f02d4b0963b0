import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { StartError } from '../../shared/runtime/start-error.ts';

/** The database and this build do not fit together; starting anyway could destroy data. */
export class MigrationError extends StartError {
  override readonly name = 'MigrationError';
}

/**
 * `once`: in one transaction. The others are applied again and again, each time in a transaction of its own,
 * until the last statement returns no row: what takes long is done in steps of bounded length, and goes on
 * after the last one after a stop. `steps`: before this build serves. `background`: while it serves.
 */
type MigrationKind = 'once' | 'steps' | 'background';

export interface Migration {
  readonly number: number;
  /** File name, such as `0001-foundation.sql`. */
  readonly name: string;
  readonly kind: MigrationKind;
  readonly text: string;
  /** Hex SHA-256 of the text. */
  readonly checksum: string;
}

export interface AppliedMigration extends Pick<Migration, 'number' | 'name' | 'checksum'> {
  /** A build that lacks it may use the database all the same. */
  readonly isExpansion: boolean;
}

const migrationName = /^(\d{4})-[a-z0-9-]+(?:\.(steps|background))?\.sql$/;

/** Throws MigrationError where a name is wrong or a number is missing. */
export async function readMigrations(directory: URL): Promise<Migration[]> {
  const names = (await readdir(directory)).filter((name) => name.endsWith('.sql')).sort();
  return Promise.all(
    names.map(async (name, index) => {
      const [, digits, kind = 'once'] = migrationName.exec(name) ?? [];
      const number = Number(digits);
      if (number !== index + 1) {
        throw new MigrationError(
          `${name} should be number ${index + 1}: migrations are named 0001-what.sql, 0002-what.sql and so on.`,
        );
      }
      const text = await readFile(new URL(name, directory), 'utf8');
      const checksum = createHash('sha256').update(text).digest('hex');
      return { number, name, kind: kind as MigrationKind, text, checksum };
    }),
  );
}

/**
 * Throws MigrationError where an applied migration was changed or is missing here, unless it is an expansion
 * of the next version.
 */
export function refuseForeignHistory(
  applied: readonly AppliedMigration[],
  known: readonly Migration[],
): void {
  for (const row of applied) {
    const own = known[row.number - 1];
    if (own === undefined) {
      if (row.isExpansion) continue;
      throw new MigrationError(
        `The database was migrated by a newer version of agent-trust: it has ${row.name}, and this build ends at ` +
          `${known.at(-1)?.name ?? 'no migration'}. Start that newer version.`,
      );
    }
    if (own.name !== row.name) {
      throw new MigrationError(
        `An unreleased build of agent-trust has written this database: it has applied ${row.name}, where this ` +
          `one has ${own.name}; restore a backup of a released version, or begin with an empty database.`,
      );
    }
    if (own.checksum !== row.checksum) {
      throw new MigrationError(
        `${row.name} was changed after it had been applied to this database. ` +
          'Restore the file; a change of the schema is a new migration.',
      );
    }
  }
}
