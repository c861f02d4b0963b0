import { limits, mustHold } from '../../shared/model/limits.ts';

/** Bounds of this room alone, each with its reason. */
export const admissionLimits = {
  /** Waiting decisions of one account: at 2 ms each, more than a caller would wait for. */
  decisionsWaitingPerAccountMax: 1_024,
  /**
   * How long a decision or a change of a PERMIT waits for its turn: then there is still the time for which it
   * may wait for locks. Settlements and proofs of sidecars, which wait for less, say so.
   */
  decisionTurnMsMax: limits.decisionDeadlineMs - limits.quotaWaitMsMax,
} as const;

mustHold(
  limits.quotaWaitMsMax < admissionLimits.decisionTurnMsMax,
  'an account whose check finds all turns taken by others that wait for locks gets one',
);
