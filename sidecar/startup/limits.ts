/** Bounds of this room alone, each with its reason. */
export const startupLimits = {
  /** Verified passports that a sidecar remembers: about 1.5 KB each. */
  verifiedPassportsMax: 50_000,
  /**
   * Threads that verify, per listening thread: about 10 MB each, and four check 70,000 unseen passports a
   * second.
   */
  verifyThreadsMax: 4,
} as const;
