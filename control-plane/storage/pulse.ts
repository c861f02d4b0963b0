import type { PendingQuery, Row } from 'postgres';
import { limits } from '../../shared/model/limits.ts';
import type { MonotonicMillis, UnixMillis } from '../../shared/model/time.ts';
import type { Clock } from '../../shared/runtime/clock.ts';
import { type Repetition, repeat } from '../../shared/runtime/repeat.ts';
import type { Database } from '../base/database.ts';
import { dueWorkOf, type Work } from './due-work.ts';

/** What one room wants to know once a second. */
export interface PulsePart<Value> {
  /** A query with one value: an index look-up or two, because it runs all the time. */
  readonly ask: (sql: Database) => PendingQuery<Row[]>;
  /** What it says is at most as old as the time at which it was asked. */
  readonly hear: (
    value: Value,
    asked: { readonly atMs: UnixMillis; readonly monotonicMs: MonotonicMillis },
  ) => void;
  /** The database did not answer. */
  readonly fail?: (error: unknown) => void;
}

/** Wakes the loop of this work while `ask` finds something. */
export const wakingPart = (
  work: Work,
  sql: Database,
  ask: PulsePart<boolean>['ask'],
): PulsePart<boolean> => ({
  ask: (at) => at`SELECT EXISTS (${ask(at)})`,
  hear: (isDue) => {
    if (isDue) dueWorkOf(sql).wake(work);
  },
});

/**
 * Asks the database once every `limits.heartbeatIntervalMs` for all rooms, with one statement: a replica with
 * nothing to do asks for hardly anything else, and what becomes due is seen within that time. Never throws.
 */
export function startPulse(
  { sql, clock }: { readonly sql: Database; readonly clock: Clock },
  parts: readonly PulsePart<never>[],
): Repetition {
  const dueWork = dueWorkOf(sql);
  dueWork.isPulsing = true;
  const repetition = repeat(async () => {
    const asked = { atMs: clock.now(), monotonicMs: clock.monotonic() };
    try {
      const values = parts.map(
        ({ ask }, place) => sql`${place === 0 ? sql`` : sql`,`} (${ask(sql)}) AS ${sql(`part${place}`)}`,
      );
      const [row] = await sql<Record<string, never>[]>`SELECT ${values}`;
      for (const [place, part] of parts.entries()) part.hear(row?.[`part${place}`] as never, asked);
    } catch (error) {
      for (const part of parts) part.fail?.(error);
    }
    return limits.heartbeatIntervalMs - (clock.monotonic() - asked.monotonicMs);
  });
  const stop = () => {
    dueWork.isPulsing = false;
    return repetition.stop();
  };
  return { ...repetition, stop };
}
