import type { Database, Transaction } from '../base/database.ts';
import { type PublishedLog, readPublished, readWitnesses, type WitnessState } from './log-store.ts';

/** Why this replica, as the writer of the log, signs no checkpoint. */
export type LogStop = 'unconfirmed' | 'regressed';

/** What this replica knows of the log; `refresh` brings it up to date. */
export class LogState {
  readonly #sql: Database;
  published: PublishedLog | null = null;
  witnesses: readonly WitnessState[] = [];
  /** Null: the log goes on, here or at another replica. */
  stop: LogStop | null = null;

  constructor(sql: Database) {
    this.#sql = sql;
  }

  async refresh(sql: Database | Transaction = this.#sql): Promise<void> {
    this.published = await readPublished(sql);
    this.witnesses = await readWitnesses(sql);
  }
}

const states = new WeakMap<Database, LogState>();

/** The one of this pool. */
export function logStateOf(sql: Database): LogState {
  const known = states.get(sql);
  if (known !== undefined) return known;
  const state = new LogState(sql);
  states.set(sql, state);
  return state;
}
