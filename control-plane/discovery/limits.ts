/** Bounds of this room alone, each with its reason. */
export const discoveryLimits = {
  /**
   * Gates that one transaction removes from discovery or adds at a change of their account's status: other
   * publications wait for it.
   */
  discoveryGatesPerStepMax: 20,
} as const;
