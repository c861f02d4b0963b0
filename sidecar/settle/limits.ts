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
   * So many a call may carry however slow calls were, because most of a call is not for what it carries.
   * Twice as many may be open: otherwise it would never be measured that calls are quicker again.
   */
  settlementsPerCallMin: 32,
  settlementsOpenMin: 64,
  /**
   * Proofs of possession that are remembered, some 20 MiB: of DPoP, which end after half a minute, those of
   * 17,000 requests a second.
   */
  proofsMax: 1_048_576,
  /** After the end of a proof, so that a clock that is set back by this much refuses nobody. */
  proofsKeptMs: 30_000,
  /** Slots looked at for each proof: a table of ever so many is gone through before it has doubled. */
  proofsSweptPerUse: 8,
  proofsSweptWhenFull: 65_536,
  /** Proofs whose first use the ledger is asked about, as many as settlements. More are `overloaded`. */
  proofClaimsMax: 4_096,
  /** The second call gathers while the first one travels. */
  proofCallsAtOnceMax: 2,
  /** Half of the second within which the ledger gets what was used (contract §5): the call needs time too. */
  usedProofsPauseMs: 500,
  /** Some 40 MiB while the control plane is away: of DPoP those of 8,000 requests a second. */
  usedProofsMax: 262_144,
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
