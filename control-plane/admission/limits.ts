/** Bounds of this room alone, each with its reason. */
export const admissionLimits = {
  /** Waiting decisions of one account: at 2 ms each, more than a caller would wait for. */
  decisionsWaitingPerAccountMax: 1_024,
} as const;
