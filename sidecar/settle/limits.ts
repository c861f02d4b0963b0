/** Bounds of this room alone, each with its reason. */
export const settleLimits = {
  /** The second call gathers and travels while the first one commits; with more, each would carry less. */
  settlementCallsAtOnceMax: 2,
  /**
   * Open settlements of one sidecar, until the rate of its control plane was measured: what that settles in
   * about a second.
   */
  settlementsMax: 4_096,
  /**
   * So many may be open however slow the control plane was when it was measured: otherwise it would never be
   * measured again.
   */
  settlementsOpenMin: 32,
  /**
   * Requests that wait for what others have begun: together they ask as often as the control plane looks up
   * beside its settlements. More are answered 503 at once. A settlement takes some 10 to 30 ms, and the
   * pauses leave some eight tries in `limits.quotaWaitMsMax`. One passport, whose limit is used up, leaves
   * room for the others.
   */
  retries: {
    waitingMax: 1_000,
    waitingPerOwnerMax: 250,
    retriesPerSecondMax: 1_000,
    pauseFirstMs: 30,
    pauseLastMs: 120,
  },
} as const;
