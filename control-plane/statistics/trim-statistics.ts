import { makeWakeup } from '../../shared/runtime/wakeup.ts';
import type { BaseDeps } from '../base/deps.ts';
import { statisticsLimits } from './limits.ts';
import { trimDecisionCounts } from './read-statistics.ts';

/** Removes old counts now and then. Never throws; what stayed goes the next time. */
export function startStatisticsTrim({ sql, clock, logger }: Pick<BaseDeps, 'sql' | 'clock' | 'logger'>): {
  stop(): Promise<void>;
} {
  let isStopped = false;
  const wakeup = makeWakeup();
  const run = async () => {
    while (!isStopped) {
      await wakeup.sleep(statisticsLimits.trimIntervalMs);
      if (isStopped) return;
      await trimDecisionCounts(sql, clock.now()).catch((error: unknown) => {
        logger.warn({ err: error }, 'old counts of decisions could not be removed');
      });
    }
  };
  const running = run();
  return {
    /** Resolves when the last round is over. */
    stop: async () => {
      isStopped = true;
      wakeup.wake();
      await running;
    },
  };
}
