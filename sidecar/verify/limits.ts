import { mustHold } from '../../shared/model/limits.ts';

/** Bounds of this room alone, each with its reason. */
export const verifyLimits = {
  /**
   * All remembered tokens together. Usual tokens fit, while 50,000 of the longest would take half a gigabyte.
   */
  verifiedTokenCharsMax: 64 * 1024 * 1024,
  /** Tokens waiting for the verification pool: about a quarter second at 17,000 a second on one core. */
  verifyQueueMax: 4_096,
  /** Tokens in one task of the pool: a hand-over costs as much as 40 us of work, so one task carries many. */
  verifyBatchMax: 32,
} as const;

mustHold(verifyLimits.verifyBatchMax <= verifyLimits.verifyQueueMax, 'a batch fits in the queue');
mustHold(verifyLimits.verifyBatchMax <= 32, 'a task answers with one bit per token in one 32-bit number');
