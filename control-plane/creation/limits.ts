import { hourMs } from '../../shared/model/time.ts';

/** Bounds of this room alone, each with its reason. */
export const creationLimits = {
  /** How long an answer to a request with an `Idempotency-Key` is replayed (contract §12). */
  idempotentAnswerKeptMs: 24 * hourMs,
  /** Old answers removed for each new one: they go faster than they come, and no request pays for many. */
  idempotentAnswersPerTrimMax: 10,
} as const;
