/**
 * Room `control-plane/history`: whether the database still has what was told to sidecars (contract §17).
 * State and its keeper here; `receipts.ts` makes and opens what sidecars keep, `take-report.ts` compares what
 * they show, `lost-trees.ts` keeps what witnesses of the log show.
 */

import { Gauge } from 'prom-client';
import { ApiError } from '../../shared/errors/api-error.ts';
import type { Repetition } from '../../shared/runtime/repeat.ts';
import type { Database, Transaction } from '../base/database.ts';
import type { BaseDeps } from '../base/deps.ts';
import { dueWorkOf, repeatWhenDue } from '../storage/due-work.ts';
import type { PulsePart } from '../storage/pulse.ts';
import { askForNews, type Generations, type Missing, readGenerations, readMissing } from './history-store.ts';
import { historyLimits } from './limits.ts';

/**
 *     whole ──a receipt names what the database lacks──> regressed ──recover──> whole, in a new generation
 *
 * What this replica knows of that; `refresh` brings it up to date, once a second and after each report.
 */
export class History {
  readonly #sql: Database;
  #generations: Generations | null = null;
  #missing: Missing | null = null;

  constructor(sql: Database) {
    this.#sql = sql;
  }

  /** Null while history is whole. */
  get missing(): Missing | null {
    return this.#missing;
  }

  get isRegressed(): boolean {
    return this.#missing !== null;
  }

  /** `sql`: a transaction asks on its own connection, because another may not be free. */
  async generations(sql: Database | Transaction = this.#sql): Promise<Generations> {
    this.#generations ??= await readGenerations(sql);
    return this.#generations;
  }

  async refresh(): Promise<void> {
    // From one statement to the next a recovery may end: what is missing is of the newest generation.
    this.#generations = await readGenerations(this.#sql);
    this.#missing = await readMissing(this.#sql);
  }

  /** For a change that gives somebody more: it would stand on what may not be true any more. */
  refuseChange(): void {
    if (!this.isRegressed) return;
    throw new ApiError('service_unavailable', {
      message:
        'The database lacks changes that were in force. Until the operator has run agent-trust recover, only reads, decisions and revocations are served.',
    });
  }
}

const histories = new WeakMap<Database, History>();

/** The one of this pool. */
export function historyOf(sql: Database): History {
  const known = histories.get(sql);
  if (known !== undefined) return known;
  const history = new History(sql);
  histories.set(sql, history);
  return history;
}

/** Looks within a second whether another replica has noticed something. Never throws. */
export function followHistory({
  sql,
  logger,
  metrics,
}: Pick<BaseDeps, 'sql' | 'logger' | 'metrics'>): Repetition {
  const history = historyOf(sql);
  new Gauge({
    name: 'agent_trust_history_regressed',
    help: '1 while the database lacks what was told to sidecars: it was restored, or a replica took over that lagged.',
    registers: [metrics],
    collect() {
      this.set(history.isRegressed ? 1 : 0);
    },
  });
  const lost = new Gauge({
    name: 'agent_trust_history_missing',
    help: 'What the database lacks of what was told to sidecars, or cosigned by witnesses, by kind.',
    labelNames: ['of'],
    registers: [metrics],
    collect() {
      const { changes, records, entries } = history.missing ?? { changes: 0, records: 0, entries: 0 };
      lost.set({ of: 'changes' }, changes);
      lost.set({ of: 'records' }, records);
      lost.set({ of: 'entries' }, entries);
    },
  });
  let told = '';
  const round = async () => {
    // The database is away: others report that.
    await history.refresh().catch(() => undefined);
    const { missing } = history;
    const news = JSON.stringify(missing);
    if (missing !== null && news !== told) {
      logger.error(
        { ...missing },
        'history went back: the database lacks what sidecars were told; run agent-trust recover (docs/operate/backup-and-restore.md)',
      );
    } else if (missing === null && told !== '' && told !== 'null') logger.info({}, 'history is whole again');
    told = news;
    return historyLimits.lookIntervalMs;
  };
  return repeatWhenDue(sql, 'history', { usualMs: historyLimits.lookIntervalMs, round });
}

/** Wakes that look while something is missing, and when a recovery has begun another generation. */
export function historyPart(sql: Database): PulsePart<readonly [generation: number, isMissing: boolean]> {
  let known: number | null = null;
  return {
    ask: askForNews,
    hear: ([generation, isMissing]) => {
      if (isMissing || generation !== known) dueWorkOf(sql).wake('history');
      known = generation;
    },
  };
}

/** Appending to this chain would give a place out twice. */
export const chainGoesOnElsewhere = (chainId: string): ApiError =>
  new ApiError('service_unavailable', {
    message: `Records of chain ${chainId} are missing in the database. Nothing is appended to it until the operator has run agent-trust recover.`,
  });
