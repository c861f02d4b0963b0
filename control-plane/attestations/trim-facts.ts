import { type Repetition, repeat } from '../../shared/runtime/repeat.ts';
import type { BaseDeps } from '../base/deps.ts';
import { trimFacts } from './facts-store.ts';
import { attestationsLimits } from './limits.ts';

/** Removes what accounts keep no longer, now and then. Never throws; what stayed goes the next time. */
export const startFactsTrim = ({
  sql,
  clock,
  logger,
}: Pick<BaseDeps, 'sql' | 'clock' | 'logger'>): Repetition =>
  repeat(async () => {
    await trimFacts(sql, clock.now()).catch((error: unknown) => {
      logger.warn({ err: error }, 'old facts could not be removed');
    });
    return attestationsLimits.factTrimIntervalMs;
  });
