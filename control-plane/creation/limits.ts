import { hourMs } from '../../shared/model/time.ts';

/** Bounds of this room alone, each with its reason. */
export const creationLimits = {
  /** How long an answer to a request with an `Idempotency-Key` is replayed (contract §12). */
  idempotentAnswerKeptMs: 24 * hourMs,
  /** Old answers removed per new one: faster than they come, and cheap for each request. */
  idempotentAnswersPerTrimMax: 10,
} as const;
