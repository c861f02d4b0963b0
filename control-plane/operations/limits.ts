import { secondMs } from '../../shared/model/time.ts';

/** Bounds of this room alone, each with its reason. */
export const operationsLimits = {
  /**
   * `/metrics` waits so long for figures from the database, then shows the last ones: below the patience of a
   * scraper, 10 s by default.
   */
  databaseFiguresMsMax: secondMs,
  /** They are read at most so often, however many scrape. */
  databaseFiguresIntervalMs: 5 * secondMs,
  /**
   * Waiting rows are counted up to here: an alarm needs no more, and counting more would cost more when there
   * is trouble already.
   */
  countedRowsMax: 10_000,
  /** Webhooks whose queues are looked at for the oldest delivery that is due. */
  countedQueuesMax: 1_000,
} as const;
