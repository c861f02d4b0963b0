import { type Repetition, repeat } from '../../shared/runtime/repeat.ts';
import type { BaseDeps } from '../base/deps.ts';
import { decisionsLimits } from './limits.ts';
import { trimProofs } from './used-proof-store.ts';

/** Removes proofs that are over now and then. Never throws; what stayed goes the next time. */
export const startProofTrim = ({
  sql,
  clock,
  logger,
}: Pick<BaseDeps, 'sql' | 'clock' | 'logger'>): Repetition =>
  repeat(async () => {
    await trimProofs(sql, clock.now()).catch((error: unknown) => {
      logger.warn({ err: error }, 'old proofs of possession could not be removed');
    });
    return decisionsLimits.proofs.trimIntervalMs;
  });
