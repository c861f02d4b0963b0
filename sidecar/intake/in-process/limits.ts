/** Bounds of this folder alone, each with its reason. */
export const inProcessLimits = {
  /**
   * Checks decided in one turn of the event loop, which is the embedding program's too: some 10 ms at most.
   * The spool has room for the records of five times as many.
   */
  checksPerTurnMax: 1_024,
  /**
   * Checks without an answer, whatever they wait for: their turn, their record, or the control plane. About
   * 50 ms of work, where none has to ask. More are UNAVAILABLE `overloaded`.
   */
  unansweredMax: 6_000,
} as const;
