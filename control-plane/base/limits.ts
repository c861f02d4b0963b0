/** Bounds of this room alone, each with its reason. */
export const baseLimits = {
  /**
   * Reads that fall from a replica to the primary, of all accounts and of one: at 5 ms each 800 a second.
   * Exports and searches among them keep to their own bounds too.
   */
  passedOverReadsAtOnceMax: 4,
  passedOverReadsPerAccountMax: 2,
} as const;
