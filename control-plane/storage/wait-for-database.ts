import { setTimeout as pause } from 'node:timers/promises';
import type { Logger } from '../../shared/runtime/logger.ts';
import { StartError } from '../../shared/runtime/start-error.ts';
import type { Database } from '../base/database.ts';
import { addressOf } from './connect.ts';
import { databaseFailure } from './database-away.ts';
import { storageLimits } from './limits.ts';
import { isRefusedParameter, passesThroughPooler, passThroughPooler } from './session-settings.ts';
import { placeOf, refuseReadOnly, startRefusal } from './start-refusals.ts';

const versionNumMin = 150_000;

/**
 * Resolves when the database answers and is recent enough. One that is away, or just starting, is asked
 * `storageLimits.databaseStartTries` times; then, and at once where it answers with a refusal (a wrong
 * password, no such database), this throws StartError. Of `url` only host and port are named. Rejects with an
 * AbortError when `signal` ends the waiting. Finds out whether a pooler is in between (passThroughPooler).
 */
export async function waitForDatabase(
  sql: Database,
  options: { readonly url: string; readonly logger: Logger; readonly signal: AbortSignal },
): Promise<void> {
  const address = addressOf(options.url);
  const place = placeOf(address);
  let pauseMs: number = storageLimits.databaseStartPauseFirstMs;
  for (let attempt = 1; ; attempt++) {
    try {
      await refuseOldVersion(sql, place);
      await refuseReadOnly(sql, address);
      await noticePooler(sql, options.logger);
      return;
    } catch (error) {
      if (error instanceof StartError) throw error;
      if (isRefusedParameter(error) && !passesThroughPooler(sql)) {
        passThroughPooler(sql);
        attempt--;
        continue;
      }
      const refusal = startRefusal(error, address);
      if (refusal !== null) throw refusal;
      const reason = error instanceof Error ? error.message : String(error);
      if (databaseFailure(error) === null) {
        throw new StartError(`The database at ${place} (DATABASE_URL) refused: ${reason}.`, { cause: error });
      }
      if (attempt === storageLimits.databaseStartTries) {
        throw new StartError(
          `The database at ${place} (DATABASE_URL) could not be reached in ${attempt} attempts: ${reason}. ` +
            'Start it, or correct DATABASE_URL.',
          { cause: error },
        );
      }
      options.logger.warn({ place, attempt, reason, pauseMs }, 'the database cannot be reached yet');
      await pause(pauseMs, null, { signal: options.signal });
      pauseMs = Math.min(pauseMs * 2, storageLimits.databaseStartPauseLastMs);
    }
  }
}

async function refuseOldVersion(sql: Database, place: string): Promise<void> {
  const [row] = await sql<{ num: string; name: string }[]>`
    SELECT current_setting('server_version_num') AS num, current_setting('server_version') AS name`;
  if (Number(row?.num) < versionNumMin) {
    throw new StartError(`The database at ${place} is PostgreSQL ${row?.name}; 15 or newer is needed.`);
  }
}

/** A pooler may drop the settings of a session too (`ignore_startup_parameters`). */
async function noticePooler(sql: Database, logger: Logger): Promise<void> {
  const [row] = await sql<{ jit: string; isolation: string }[]>`
    SELECT current_setting('jit') AS jit, current_setting('default_transaction_isolation') AS isolation`;
  if (!passesThroughPooler(sql)) {
    if (row?.jit === 'off') return;
    passThroughPooler(sql);
  }
  logger.info({}, 'DATABASE_URL leads through a pooler: settings go with each transaction');
  if (row?.isolation === 'read committed') return;
  logger.warn(
    { isolation: row?.isolation },
    "statements may fail with 40001: ALTER ROLE ... SET default_transaction_isolation = 'read committed'",
  );
}
