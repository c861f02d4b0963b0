import type { UnixMillis } from '../../shared/model/time.ts';
import type { Database } from '../base/database.ts';
import { peopleLimits } from './limits.ts';

/** One unit of a count, in the window that ends then. */
export interface CountedUnit {
  readonly key: string;
  readonly endsAtMs: UnixMillis;
}

/** A count after a change. */
export interface AttemptCount extends CountedUnit {
  readonly attempts: number;
}

/**
 * Adds so many attempts to each key and returns what its count is now. The window of a key begins with its
 * first attempt. Rows are locked in the order of their key, here and below.
 */
export const addAttempts = (
  sql: Database,
  units: ReadonlyMap<string, number>,
  nowMs: UnixMillis,
): Promise<readonly AttemptCount[]> => {
  const { attemptWindowMs } = peopleLimits;
  // One that ends later than any window could is of a time before the clock was set back.
  const isOpen = sql`counted.ends_at_ms > ${nowMs} AND counted.ends_at_ms <= ${nowMs + 2 * attemptWindowMs}`;
  return sql<AttemptCount[]>`
    INSERT INTO login_attempts AS counted (key, attempts, ends_at_ms)
    SELECT key, attempts, ${nowMs + attemptWindowMs}::bigint
    FROM unnest(${[...units.keys()]}::text[], ${[...units.values()]}::integer[]) AS added (key, attempts)
    ORDER BY key COLLATE "C"
    ON CONFLICT (key) DO UPDATE SET
      attempts = CASE WHEN ${isOpen} THEN counted.attempts ELSE 0 END + excluded.attempts,
      ends_at_ms = CASE WHEN ${isOpen} THEN counted.ends_at_ms ELSE excluded.ends_at_ms END
    RETURNING key, attempts, ends_at_ms AS "endsAtMs"`;
};

/** Takes units back, of windows that are still open. */
export async function removeAttempts(sql: Database, units: readonly CountedUnit[]): Promise<void> {
  await sql`
    WITH given AS (
      SELECT key, ends_at_ms, count(*)::integer AS units
      FROM unnest(${units.map(({ key }) => key)}::text[], ${units.map(({ endsAtMs }) => endsAtMs)}::bigint[])
        AS given (key, ends_at_ms)
      GROUP BY key, ends_at_ms
    ), locked AS (
      SELECT key, ends_at_ms, units FROM login_attempts JOIN given USING (key, ends_at_ms)
      ORDER BY key COLLATE "C" FOR UPDATE OF login_attempts
    )
    UPDATE login_attempts AS counted SET attempts = greatest(0, attempts - units)
    FROM locked WHERE counted.key = locked.key`;
}

/** Removes counts whose window is over, at most `rowsMax`. */
export async function trimAttempts(sql: Database, nowMs: UnixMillis, rowsMax: number): Promise<void> {
  await sql`
    DELETE FROM login_attempts WHERE key = ANY (ARRAY(
      SELECT key FROM login_attempts WHERE ends_at_ms <= ${nowMs}
      ORDER BY ends_at_ms LIMIT ${rowsMax} FOR UPDATE SKIP LOCKED))`;
}

/** Removes the oldest counts beyond `peopleLimits.attemptRowsMax`. */
export async function forgetOldestAttempts(sql: Database): Promise<void> {
  await sql`
    DELETE FROM login_attempts WHERE key = ANY (ARRAY(
      SELECT key FROM login_attempts ORDER BY ends_at_ms DESC OFFSET ${peopleLimits.attemptRowsMax}
      FOR UPDATE SKIP LOCKED))`;
}
