/** Bounds of this room alone, each with its reason. */
export const discoveryLimits = {
  /**
   * Gates of an account that leave discovery with its suspension, or come back, in one transaction: other
   * gates that publish wait for it.
   */
  discoveryGatesPerStepMax: 20,
} as const;
