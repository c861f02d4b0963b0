import { type Repetition, repeat } from '../../shared/runtime/repeat.ts';
import type { BaseDeps } from '../base/deps.ts';
import { statisticsLimits } from './limits.ts';
import { trimDecisionCounts } from './read-statistics.ts';

/** Removes old counts now and then. Never throws; what stayed goes the next time. */
export const startStatisticsTrim = ({
  sql,
  clock,
  logger,
}: Pick<BaseDeps, 'sql' | 'clock' | 'logger'>): Repetition =>
  repeat(async () => {
    await trimDecisionCounts(sql, clock.now()).catch((error: unknown) => {
      logger.warn({ err: error }, 'old counts of decisions could not be removed');
    });
    return statisticsLimits.trimIntervalMs;
  });
