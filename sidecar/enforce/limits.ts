/** Bounds of this room alone, each with its reason. */
export const enforceLimits = {
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
  /**
   * One turn of a sidecar's event loop begins no further scan after this; a single one takes 0.1 to 10 ms.
   */
  piiTurnMsMax: 5,
  /** SHA-256 of API keys that were recently presented, so that a caller's header is hashed once. */
  presentedKeysMax: 1_000,
  /**
   * What records of one gate end with, one for each permission: a usual gate has some ten. About 400 bytes
   * each.
   */
  outcomesPerGateMax: 64,
  /** Checks decided in one turn of the event loop: about 1 ms, which every other caller may have to wait. */
  checksPerTurnMax: 32,
  /** Bodies of several checks that wait for their turn, together: as much as frames of streams may be. */
  keptBytesMax: 64 * 1024 * 1024,
  /** Bodies of up to this length wait in places that are used again: a batch of 32 usual checks has 28 KB. */
  keptPlaceBytes: 64 * 1024,
  /** Such places, made as they are needed and never given up: 4 MiB, for 64 callers at once. */
  keptPlacesMax: 64,
  /** Bounds of the histogram of decisions: from a warm decision, some 20 us, to beyond the deadline. */
  decisionBucketsMs: [0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1_000, 2_500],
} as const;
