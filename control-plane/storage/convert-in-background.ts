import type { Logger } from '../../shared/runtime/logger.ts';
import { type Repetition, repeat } from '../../shared/runtime/repeat.ts';
import type { Database } from '../base/database.ts';
import { storageLimits } from './limits.ts';
import { convertStep, type MigrateOptions, ownMigrations } from './migrate.ts';
import { type Migration, readMigrations } from './migration-files.ts';

/**
 * Applies the migrations that are for the background (Migration), step by step, while this replica serves. At
 * most half of the time is spent on it: each pause is as long as the step before. Replicas take turns. A step
 * that fails is tried again; a stop, or a crash, loses the step under way and nothing else.
 */
export function convertInBackground(
  sql: Database,
  {
    logger,
    directory = ownMigrations,
    ...options
  }: Pick<MigrateOptions, 'directory' | 'sharedUpTo'> & { readonly logger: Logger },
): Repetition {
  let known: readonly Migration[] | null = null;
  /** The conversion under way, as far as this replica is concerned. */
  let at: { readonly file: string; rows: number; steps: number; readonly beganAtMs: number } | null = null;
  let toldAtMs = performance.now();
  let failures = 0;
  const figures = () =>
    at === null
      ? {}
      : {
          file: at.file,
          rows: at.rows,
          steps: at.steps,
          seconds: Math.round((performance.now() - at.beganAtMs) / 1_000),
        };

  const note = (file: string, rows: number): void => {
    if (at?.file !== file) {
      at = { file, rows: 0, steps: 0, beganAtMs: performance.now() };
      logger.info({ file }, 'a table is being converted in the background');
    }
    at.rows += rows;
    at.steps++;
    if (performance.now() - toldAtMs < storageLimits.conversionToldMs) return;
    toldAtMs = performance.now();
    logger.info(figures(), 'a table is being converted in the background');
  };

  return repeat(async () => {
    const beganAtMs = performance.now();
    try {
      known ??= await readMigrations(directory);
      if (!known.some(({ kind }) => kind === 'background')) return storageLimits.conversionsOverMs;
      const step = await convertStep(sql, known, options);
      failures = 0;
      if (step.kind === 'none left') return storageLimits.conversionsOverMs;
      if (step.kind === 'busy') return storageLimits.conversionBusyMs;
      note(step.file, step.rows);
      if (step.kind === 'finished') {
        logger.info(figures(), 'a table has been converted');
        at = null;
      }
      return Math.max(performance.now() - beganAtMs, storageLimits.conversionPauseMsMin);
    } catch (error) {
      failures++;
      logger.warn({ err: error, ...figures() }, 'a step of a conversion has failed and is tried again');
      return Math.min(storageLimits.conversionBusyMs * 2 ** failures, storageLimits.conversionFailedMsMax);
    }
  });
}
