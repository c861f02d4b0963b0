import { limits, mustHold } from '../../shared/model/limits.ts';
import { dayMs, hourMs, minuteMs, secondMs } from '../../shared/model/time.ts';

/** Bounds used only in this room, each with its reason. */
export const syncLimits = {
  /** How long a snapshot waits for its turn: half of the minute that a sidecar gives it, all in all. */
  snapshotTurnMsMax: 30 * secondMs,
  /** A disconnected sidecar seen within this time is listed as silent in the answer to a revocation. */
  sidecarSilentMs: 10 * minuteMs,
  silentSidecarsMax: 64,
  /**
   * A process uses its new connection within a second, or once it has loaded its snapshot. One that was not
   * used for longer ends no older connection.
   */
  connectionUnusedMsMax: 90 * secondMs,
  /**
   * Foreign gates, at which an account's passports were shown, whose sidecars that answer considers: 10 us
   * each.
   */
  servingGatesMax: 1_000,
  /**
   * Changes in one answer to a pull; more are fetched by the next one. So many of the largest gates, each 220
   * KB, stay below `limits.changesBytesMax`.
   */
  changesPerAnswerMax: 500,
  /** Changes that a transaction signs under the head of a feed: 40 ms of the event loop. */
  changesAtOnceMax: 1_000,
  /** Changes are kept this long; a sidecar offline for longer loads a snapshot. */
  changeRetentionMs: 24 * hourMs,
  /** Old changes removed at a time: a short statement, often enough for 80 changes a second. */
  changesPerTrimMax: 5_000,
  changeTrimIntervalMs: minuteMs,
  /**
   * A sidecar not seen for this long is forgotten with its epochs; if it returns, it connects like a new one.
   */
  sidecarForgottenMs: 30 * dayMs,
  /**
   * Connected sidecars per account, and as many remembered silent ones: more than any fleet, yet a bound on
   * rows.
   */
  sidecarsPerAccountMax: 256,
  /** Silent sidecars forgotten per connect; more than one, so that the table stays bounded. */
  sidecarsPerTrimMax: 10,
  /**
   * Gates that are read for a snapshot before the event loop gets a turn: with the largest catalogs a few
   * megabytes, some 20 ms.
   */
  snapshotGatesPerTurn: 32,
  /** Of `limits.feedItemsBytesMax`, for gates: they leave room for 50,000 keys, so that one can be rolled. */
  gatesBytesMax: 176 * 1024 * 1024,
  /**
   * A pull that waits is answered by the next pulse after this, and by heads that are no older: what it says
   * is as fresh as after a look of its own.
   */
  pulseWaitMsMin: 100,
  /** First and longest pause between polls for acknowledgements at other replicas. */
  ackLookFirstMs: 25,
  ackLookLastMs: 200,
} as const;

mustHold(
  syncLimits.changesPerAnswerMax <= limits.changesPerPullMax,
  'a sidecar takes what one pull is answered',
);
mustHold(
  syncLimits.gatesBytesMax < limits.feedItemsBytesMax && limits.feedItemsBytesMax < limits.snapshotBytesMax,
  'gates leave room for keys, and both for what all accounts share',
);
