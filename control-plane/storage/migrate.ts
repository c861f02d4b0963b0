import { setTimeout as pause } from 'node:timers/promises';
import { limits } from '../../shared/model/limits.ts';
import { codeOf } from '../../shared/runtime/system-error.ts';
import type { Database, Transaction } from '../base/database.ts';
import { storageLimits } from './limits.ts';
import { advisoryLocks } from './locks.ts';
import {
  type AppliedMigration,
  type Migration,
  MigrationError,
  readMigrations,
  refuseForeignHistory,
} from './migration-files.ts';

export interface MigrateOptions {
  readonly directory?: URL;
  /** See lastOfVersionBefore. */
  readonly sharedUpTo?: number;
  readonly onStep?: OnStep;
  readonly onWait?: OnWait;
}

/** A file with that name is about to be applied, or its next step. */
export type OnStep = (file: string) => void;

/** A file waits for locks. `sessions`: transactions that have been open for long and may hold them. */
export type OnWait = (file: string, sessions: readonly OpenSession[]) => void;

export interface OpenSession {
  readonly pid: number;
  readonly application: string;
  readonly seconds: number;
}

export const ownMigrations = new URL('./migrations/', import.meta.url);

/**
 * The last migration of the version before this one, 0.3.0. That version may be started on this database
 * beside this one and in its place, because it finds up to here in `migrations`, whose rows a build has to
 * know. Later ones are in `expansions`: they only add, so a build that lacks them may go on. A release sets
 * this to the last migration of the release before it, from where on that one may be taken away.
 */
const lastOfVersionBefore = 50;

/**
 * Brings the schema of the database up to this build. Each file of the folder is applied once, in the order
 * of its number, in a transaction of its own together with its row in `migrations` or `expansions`: after a
 * crash the database is at a whole migration. Files of several steps: see Migration; those for the background
 * are left to `convertInBackground`, but for those of the version before. Replicas that start at once take
 * turns; `sql` must wait for them (`limits.databaseMigrationMsMax`). A statement that cannot run inside a
 * transaction has no place in a migration.
 *
 * Others write meanwhile. A statement that waits for a lock makes everybody wait behind it, so it gives up
 * after `storageLimits.migrationLockMsMax` and the file is tried again later.
 *
 * Throws MigrationError where an applied migration was changed or is missing here, where a newer build has
 * been at work that this one does not go with, or where a lock is held for too long.
 */
export async function migrate(sql: Database, options: MigrateOptions = {}): Promise<void> {
  const known = await readMigrations(options.directory ?? ownMigrations);
  let hasMore = true;
  while (hasMore) hasMore = await applyPatiently(sql, known, options);
}

async function applyPatiently(
  sql: Database,
  known: readonly Migration[],
  { sharedUpTo = lastOfVersionBefore, onStep, onWait }: MigrateOptions,
): Promise<boolean> {
  const giveUpAtMs = performance.now() + limits.databaseMigrationMsMax;
  let pauseMs: number = storageLimits.migrationPauseFirstMs;
  for (;;) {
    let file = 'the table of migrations';
    try {
      return await sql.begin(async (tx) => {
        const next = await firstMissing(tx, known, sharedUpTo);
        if (next === null) return false;
        file = next.name;
        onStep?.(file);
        await apply(tx, next, sharedUpTo);
        return true;
      });
    } catch (error) {
      if (!isLockTrouble(error)) throw error;
      const sessions = await openSessions(sql);
      if (performance.now() > giveUpAtMs) throw lockError(file, sessions, error);
      onWait?.(file, sessions);
      await pause(pauseMs);
      pauseMs = Math.min(pauseMs * 2, storageLimits.migrationPauseLastMs);
    }
  }
}

/** The first migration that is to be applied before this build serves; null: none. Takes the turn. */
async function firstMissing(
  tx: Transaction,
  known: readonly Migration[],
  sharedUpTo: number,
): Promise<Migration | null> {
  await tx`SELECT set_config('statement_timeout', ${`${limits.databaseMigrationMsMax}`}, true)`;
  await tx`SELECT pg_advisory_xact_lock(${advisoryLocks.migrations})`;
  await limitLockWaits(tx);
  // Only under the lock: two sessions that create the same table at once fail in spite of IF NOT EXISTS.
  for (const table of ['migrations', 'expansions']) {
    await tx`
      CREATE TABLE IF NOT EXISTS ${tx(table)} (
        number bigint PRIMARY KEY,
        name text NOT NULL,
        checksum text NOT NULL,
        applied_at_ms bigint NOT NULL DEFAULT (extract(epoch FROM now()) * 1000)::bigint
      )`;
  }
  await tx`
    WITH shared AS (DELETE FROM expansions WHERE number <= ${sharedUpTo} RETURNING *)
    INSERT INTO migrations SELECT * FROM shared`;
  const applied = await readApplied(tx);
  refuseForeignHistory(applied, known);
  const numbers = new Set(applied.map(({ number }) => number));
  return (
    known.find(
      ({ number, kind }) => !numbers.has(number) && (kind !== 'background' || number <= sharedUpTo),
    ) ?? null
  );
}

const limitLockWaits = (tx: Transaction) =>
  tx`SELECT set_config('lock_timeout', ${`${storageLimits.migrationLockMsMax}`}, true)`;

const readApplied = (tx: Transaction): Promise<AppliedMigration[]> =>
  tx<AppliedMigration[]>`
    SELECT number, name, checksum, false AS "isExpansion" FROM migrations
    UNION ALL SELECT number, name, checksum, true FROM expansions ORDER BY number`;

/** One migration, or a step of one. Resolves with the rows that a step returned. */
async function apply(tx: Transaction, migration: Migration, sharedUpTo: number): Promise<number> {
  const { number, name, kind, text, checksum } = migration;
  const rows = rowsOfLast(await tx.unsafe(text));
  if (kind !== 'once' && rows > 0) return rows;
  const table = number <= sharedUpTo ? 'migrations' : 'expansions';
  await tx`INSERT INTO ${tx(table)} (number, name, checksum) VALUES (${number}, ${name}, ${checksum})`;
  return 0;
}

/**
 * How many rows the last of several statements has returned. The driver answers a list of what statements
 * returned, where several did or something ran before; only those with rows, or a RETURNING, are told apart.
 */
function rowsOfLast(results: readonly unknown[]): number {
  const last = results.at(-1);
  return Array.isArray(last) ? last.length : results.length;
}

/** Another transaction has a lock: it was waited for long enough, or it waits for this one. */
const isLockTrouble = (error: unknown): boolean => ['55P03', '40P01'].includes(codeOf(error) ?? '');

function lockError(file: string, sessions: readonly OpenSession[], cause: unknown): MigrationError {
  const pids = sessions.map(({ pid, seconds }) => `${pid} (open for ${seconds} s)`).join(', ');
  return new MigrationError(
    `${file} waits for a lock that another session of the database holds. Nothing of it was applied. ` +
      `${pids === '' ? 'Look for a long transaction in pg_stat_activity' : `Long transactions: ${pids}`}; end it with ` +
      'SELECT pg_terminate_backend(pid), or start again when it is over.',
    { cause },
  );
}

/** The longest transactions of this database. Not what they do: that may hold secrets. */
const openSessions = (sql: Database): Promise<OpenSession[]> =>
  sql.begin(
    (tx) => tx<OpenSession[]>`
      SELECT pid, application_name AS application,
        round(extract(epoch FROM clock_timestamp() - xact_start))::int AS seconds
      FROM pg_stat_activity
      WHERE datname = current_database() AND pid <> pg_backend_pid()
        AND xact_start < clock_timestamp() - interval '1 second'
      ORDER BY xact_start LIMIT ${storageLimits.openSessionsShownMax}`,
  );

/** What a step in the background came to. `busy`: another replica is at one. */
export type ConversionStep =
  | { readonly kind: 'none left' }
  | { readonly kind: 'busy' }
  | { readonly kind: 'made' | 'finished'; readonly file: string; readonly rows: number };

/** Makes the next step of the first conversion that is not over. Throws as a statement does. */
export const convertStep = (
  sql: Database,
  known: readonly Migration[],
  { sharedUpTo = lastOfVersionBefore }: Pick<MigrateOptions, 'sharedUpTo'>,
): Promise<ConversionStep> =>
  sql.begin(async (tx): Promise<ConversionStep> => {
    const [turn] = await tx<{ isOurs: boolean }[]>`
      SELECT pg_try_advisory_xact_lock(${advisoryLocks.migrations}) AS "isOurs"`;
    if (turn?.isOurs !== true) return { kind: 'busy' };
    await limitLockWaits(tx);
    const numbers = new Set((await readApplied(tx)).map(({ number }) => number));
    const next = known.find(({ number, kind }) => kind === 'background' && !numbers.has(number));
    if (next === undefined) return { kind: 'none left' };
    const rows = await apply(tx, next, sharedUpTo);
    return { kind: rows > 0 ? 'made' : 'finished', file: next.name, rows };
  });
