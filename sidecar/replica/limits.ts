import { limits, mustHold } from '../../shared/model/limits.ts';
import { minuteMs, secondMs } from '../../shared/model/time.ts';

/** Bounds of this room alone, each with its reason. */
export const replicaLimits = {
  /**
   * An event loop in which nothing ran for so long was stopped, and applies the feed before it decides again.
   */
  loopStopMsMax: secondMs,
  /** So often a loop shows that it runs: several times within `loopStopMsMax`. */
  loopTickMs: 100,
  /** Half a dozen journeys to it; a stop waits no longer for a word that only saves a false alarm. */
  goodbyeMsMax: secondMs,
  /** Causes that are logged in one time without the control plane: one is found behind the other. */
  causesToldMax: 8,
  /** Bad rows named at once, in the log and in `/readyz`: the others show once these are repaired. */
  badRowsShownMax: 20,
  /** A control plane that has not answered for so long after a stop counts as away. */
  catchUpMsMax: 1_500,
  /** Requests that wait for that: as many as wait for leases. More are shed. */
  catchUpWaitersMax: 5_000,
  /** Loading a snapshot of `limits.snapshotBytesMax` over a slow line. */
  snapshotMsMax: minuteMs,
  /** What was applied since is written behind the snapshot on disk this often. */
  snapshotFileIntervalMs: 2 * secondMs,
  /**
   * Changes behind the snapshot on disk; past it a fresh snapshot replaces them: about 40 MB, replayed in a
   * few seconds.
   */
  snapshotFileChangesMax: 100_000,
  /**
   * Changes that are applied before requests get a turn. One that comes alone takes 0.3 ms, half of it for
   * its signature.
   */
  changesPerTurnMax: 8,
  /**
   * So much of a batch is handed to the system at once: until it has taken all, it may let nothing else run
   * on that core, and a whole batch was seen to take 1.6 ms.
   */
  bodyPieceBytes: 64 * 1024,
  /**
   * Calls from a sidecar to the control plane at once: one pull, one acknowledgement, two batches, one lease
   * call, one to spare.
   */
  controlPlaneConnectionsMax: 6,
  /**
   * Settlements on their way at once, on connections of their own: those that hang hold up no pull. Each
   * waits for one transaction: at 5 ms that is 5,000 a second, more than one replica commits.
   */
  settlementConnectionsMax: 25,
  /** The thread that calls reports the end of a call's time within this, unless it hangs. */
  callerGraceMs: secondMs,
  /** With a push the pull is the check behind it, and the proof that nothing was missed. */
  pullIntervalMs: secondMs,
  /**
   * Pushes that a sidecar looks at in a second: with 50 us for a signature a twentieth of its thread.
   * Heartbeats and 80 changes a second stay far below.
   */
  pushesPerSecondMax: 1_000,
  /**
   * Loading a snapshot leaves several times its size behind: past this it is worth a full collection, which
   * takes some 50 ms.
   */
  snapshotCharsFreedMin: 1024 * 1024,
  /** Where the snapshot on disk cannot be written, it is tried again with a fresh one this often. */
  snapshotFileRetryMs: minuteMs,
  /**
   * Slots of the table of standings that are looked through with each change for expired passports: all of a
   * million in one go would stop decisions.
   */
  standingSlotsPerSweep: 1_000,
  /** States that the control plane went back behind without a recovery in between. */
  floorsMax: 4,
  /** How often a sidecar shows what it was told: two index look-ups each time. */
  historyReportIntervalMs: 3 * secondMs,
  /**
   * A longer change, of a gate with a large catalog, is not shown: a receipt of it follows within a second.
   */
  shownEntryCharsMax: 256 * 1024,
  /** A file of receipts of chains: some 150,000 places. There are two. */
  receiptsFileBytesMax: 16 * 1024 * 1024,
  /** Receipts between two writes: ten batches that each end in another chain. */
  receiptsUnwrittenMax: 1_000,
  /** Replicas of the control plane whose heartbeats a sidecar tells apart. */
  heartbeatReplicasMax: 64,
  /**
   * One attempt of a lease call or a settlement: the next one is answered the same, so there is no use in
   * patience.
   */
  quotaCallMsMax: secondMs,
} as const;

mustHold(
  replicaLimits.catchUpMsMax + limits.quotaWaitMsMax < limits.decisionDeadlineMs,
  'a request that waits for a catch-up, and then for units, still gets a decision',
);
mustHold(
  replicaLimits.loopTickMs * 5 <= replicaLimits.loopStopMsMax,
  'a loop that is merely busy does not count as stopped',
);
