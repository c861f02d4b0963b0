import { mustHold } from '../../shared/model/limits.ts';

/** Bounds of this room alone, each with its reason. */
export const verifyLimits = {
  /**
   * Of all remembered tokens together: the usual ones fit, and 50,000 of the longest do not take half a
   * gigabyte.
   */
  verifiedTokenCharsMax: 64 * 1024 * 1024,
  /**
   * Tokens that wait for the verification pool; at 17,000 a second on one core this is about a quarter
   * second.
   */
  verifyQueueMax: 4_096,
  /** Tokens in one task of the pool: a hand-over costs as much as 40 us of work, so one task carries many. */
  verifyBatchMax: 32,
} as const;

mustHold(verifyLimits.verifyBatchMax <= verifyLimits.verifyQueueMax, 'a batch fits in the queue');
mustHold(verifyLimits.verifyBatchMax <= 32, 'a task answers with one bit per token in one 32-bit number');
