import { dayMs, hourMs, minuteMs } from '../../shared/model/time.ts';

/** Bounds of this room alone, each with its reason. */
export const syncLimits = {
  /**
   * One that was seen within this time, and is not connected, is named where a revocation names who has it in
   * force.
   */
  sidecarSilentMs: 10 * minuteMs,
  silentSidecarsMax: 64,
  /**
   * Foreign gates at which passports of one account were shown, as far as that answer looks for their
   * sidecars: 10 us each.
   */
  servingGatesMax: 1_000,
  /** Changes are kept this long; a sidecar that was away longer loads a snapshot. */
  changeRetentionMs: 24 * hourMs,
  /** Old changes removed at a time: a short statement, often enough for 80 changes a second. */
  changesPerTrimMax: 5_000,
  changeTrimIntervalMs: minuteMs,
  /**
   * A sidecar that was not seen for so long is forgotten, with its epochs; one that comes back connects like
   * a new one.
   */
  sidecarForgottenMs: 30 * dayMs,
  /**
   * Connected sidecars of one account, and as many silent ones remembered: more than a fleet has, and no
   * flood of rows.
   */
  sidecarsPerAccountMax: 256,
  /** Silent sidecars forgotten by one that connects: they go faster than they come. */
  sidecarsPerTrimMax: 10,
  /** First and longest pause between two looks for acknowledgements of other replicas. */
  ackLookFirstMs: 25,
  ackLookLastMs: 200,
} as const;
