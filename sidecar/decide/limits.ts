import { dayMs } from '../../shared/model/time.ts';

/** Bounds of this room alone, each with its reason. */
export const decideLimits = {
  /**
   * What receipts promise: the record is in the log so long after its decision. It takes seconds; the rest is
   * for a control plane that is away.
   */
  receiptLogMs: dayMs,
  /**
   * One turn of a sidecar's event loop begins no further scan after this; a single one takes 0.1 to 10 ms.
   */
  piiTurnMsMax: 5,
  /** SHA-256 of API keys that were recently presented, so that a caller's header is hashed once. */
  presentedKeysMax: 1_000,
  /**
   * Parts of records kept for one gate and reason, one for each permission: a usual gate has some ten. About
   * 400 bytes each.
   */
  outcomesMax: 64,
  /** Bounds of the histogram of decisions: from a warm decision, some 20 us, to beyond the deadline. */
  decisionBucketsMs: [0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500],
} as const;
