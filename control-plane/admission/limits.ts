/** Bounds of this room alone, each with its reason. */
export const admissionLimits = {
  /** Decisions of one account that wait for their turn: at 2 ms each, more than a caller would wait for. */
  decisionsWaitingPerAccountMax: 1_024,
} as const;
