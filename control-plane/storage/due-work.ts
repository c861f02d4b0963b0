import { secondMs } from '../../shared/model/time.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { type Repetition, type Round, repeat } from '../../shared/runtime/repeat.ts';
import { tellingTrouble } from '../../shared/runtime/tell-trouble.ts';
import type { Database, Transaction } from '../base/database.ts';

/** What waits in the database until a loop of some replica does it. */
export type Work =
  | 'deliveries'
  | 'messages'
  | 'approvals'
  | 'holds'
  | 'outcomes'
  | 'keys'
  | 'history'
  | 'backtests';

/**
 * Who wakes the loops of a pool: the commit of a transaction that has queued something here, and the pulse
 * (pulse.ts), which sees what is due and what others have queued. Without a pulse each loop looks by itself.
 */
class DueWork {
  readonly wakes = new Map<Work, () => void>();
  isPulsing = false;

  wake(work: Work): void {
    this.wakes.get(work)?.();
  }

  /** Between two looks of a loop that would otherwise look this often. */
  pauseMs(usualMs: number): number {
    return this.isPulsing ? Math.max(usualMs, slowLookMs) : usualMs;
  }
}

/** For what neither a commit nor the pulse has told of. */
const slowLookMs = 15 * secondMs;

const dueWorks = new WeakMap<Database, DueWork>();

/** The one of this pool. */
export function dueWorkOf(sql: Database): DueWork {
  const known = dueWorks.get(sql) ?? new DueWork();
  dueWorks.set(sql, known);
  return known;
}

/** As `repeat`, and at once where this work is due; `usualMs`: the pause where nobody else looks. */
export function repeatWhenDue(
  sql: Database,
  work: Work,
  { usualMs, round }: { readonly usualMs: number; readonly round: Round },
): Repetition {
  const dueWork = dueWorkOf(sql);
  const repetition = repeat(async (state) => dueWork.pauseMs(Math.max(usualMs, await round(state))));
  dueWork.wakes.set(work, repetition.wake);
  return repetition;
}

/**
 * Does this work on every replica, batch after batch while there is more, then what `afterwards` does. Never
 * throws: while the database is unreachable it pauses, and trouble is logged when it begins and when it ends.
 */
export function sweepWhenDue(
  { sql, logger }: { readonly sql: Database; readonly logger: Logger },
  work: Work,
  sweep: {
    readonly usualMs: number;
    /** Resolves to how many it has done; as many as `batchMax`: there may be more. */
    batch(): Promise<number>;
    readonly batchMax: number;
    afterwards?(): Promise<void>;
    readonly trouble: { readonly begins: string; readonly ends: string };
  },
): Repetition {
  const { usualMs } = sweep;
  const round: Round = async (state) => {
    while ((await sweep.batch()) >= sweep.batchMax && !state.isStopped);
    await sweep.afterwards?.();
    return usualMs;
  };
  const telling = tellingTrouble(round, { logger, pauseMs: usualMs, ...sweep.trouble });
  return repeatWhenDue(sql, work, { usualMs, round: telling });
}

const noted = new WeakMap<Transaction, Set<Work>>();

/** Wakes the loop once this transaction is committed. It may be for nothing. */
export const noteDue = (tx: Transaction, work: Work): void => void noted.get(tx)?.add(work);

/** From here on `noteDue` adds to `works`. */
export const collectDue = (tx: Transaction, works: Set<Work>): void => void noted.set(tx, works);
