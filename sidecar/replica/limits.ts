import { limits, mustHold } from '../../shared/model/limits.ts';
import { hourMs, minuteMs, secondMs } from '../../shared/model/time.ts';

/** Bounds of this room alone, each with its reason. */
export const replicaLimits = {
  /** For receipts: a certificate lasts a week, and how late a revocation binds depends on this. */
  certificateRenewMs: hourMs,
  /** At the certificate: as soon as the key that signed it is compromised, receipts wait for another one. */
  certificateLookMs: secondMs,
  /** For a connection: a look costs nothing, and receipts are refused until then. */
  certificateWaitMs: 100,
  /** A control plane that knows no receipts may be upgraded. */
  certificateAbsentMs: 10 * minuteMs,
  /**
   * An event loop that ran nothing for this long was stopped, and applies the feed before it decides again.
   */
  loopStopMsMax: secondMs,
  /** A loop ticks this often: several times within `loopStopMsMax`. */
  loopTickMs: 100,
  /** A few round trips; a stop waits no longer for a message that only avoids a false alarm. */
  goodbyeMsMax: secondMs,
  /** Causes logged in one outage of the control plane: fixing one may reveal the next. */
  causesToldMax: 8,
  /** Remembered changes of wallets, and of passports; at this number all that is known is asked for anew. */
  walletChangesMax: 10_000,
  /** Bad rows named at once, in the log and in `/readyz`; the others show once these are fixed. */
  badRowsShownMax: 20,
  /** A control plane that has not answered for this long after a stop counts as away. */
  catchUpMsMax: 1_500,
  /** Requests that wait for that: as many as wait for leases. More are shed. */
  catchUpWaitersMax: 5_000,
  /** Loading a snapshot of `limits.snapshotBytesMax` over a slow line. */
  snapshotMsMax: minuteMs,
  /**
   * An acknowledgement waits this long for a change to be on disk, where a write takes milliseconds. Two
   * pulls of a sidecar whose disk hangs then still lie closer together than the 5 s of L3.
   */
  keptWaitMsMax: secondMs,
  /**
   * Changes after the snapshot on disk before a fresh snapshot replaces them: about 40 MB, replayed in a few
   * seconds.
   */
  snapshotFileChangesMax: 100_000,
  /**
   * Changes applied in one turn of the event loop. A single one takes 0.3 ms, half of it for its signature.
   */
  changesPerTurnMax: 8,
  /**
   * Bytes of a batch handed to the system at once: the call may occupy the core until it returns, and a whole
   * batch was seen to take 1.6 ms.
   */
  bodyPieceBytes: 64 * 1024,
  /**
   * Calls from a sidecar to the control plane at once: one pull, one acknowledgement, two batches, one lease
   * call, one to spare.
   */
  controlPlaneConnectionsMax: 6,
  /**
   * Settlement calls in flight, on their own connections, so that hanging ones hold up no pull. Each waits
   * for one transaction: at 5 ms that is 5,000 a second, more than one replica commits.
   */
  settlementConnectionsMax: 25,
  /** The calling thread reports the timeout of a call within this, unless it hangs. */
  callerGraceMs: secondMs,
  /** With push, the pull is the check that nothing was missed. */
  pullIntervalMs: secondMs,
  /**
   * Pushes that a sidecar verifies in a second: at 50 us per signature a twentieth of its thread. Heartbeats
   * and 80 changes a second stay far below.
   */
  pushesPerSecondMax: 1_000,
  /**
   * Loading a snapshot leaves several times its size as garbage; above this a full collection, some 50 ms, is
   * worth it.
   */
  snapshotCharsFreedMin: 1024 * 1024,
  /** Pause before a failed write of the snapshot on disk is retried with a fresh one. */
  snapshotFileRetryMs: minuteMs,
  /**
   * Slots of the table of standings scanned for expired passports with each change: a million at once would
   * stop decisions.
   */
  standingSlotsPerSweep: 1_000,
  /**
   * How often a superseded process asks whether it still is. It answers 503 meanwhile, so it is in no hurry.
   */
  supersededRetryMs: 10 * secondMs,
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
  /** Control-plane replicas whose heartbeats a sidecar tracks. */
  heartbeatReplicasMax: 64,
  /**
   * One attempt of a lease call or a settlement: a retry gets the same answer, so waiting longer gains
   * nothing.
   */
  quotaCallMsMax: secondMs,
  /** Tokens of other issuers that wait to be shown: 32 MB of the longest. */
  sightingsMax: 4_096,
  /** Passports of other issuers that were shown; one that was forgotten is shown again. */
  shownPassportsMax: 50_000,
  /**
   * Between two calls about keys that an issuer lacks: the control plane reads them once a minute, and
   * whoever makes tokens up must not make calls.
   */
  unknownKeyGapMs: 10 * secondMs,
} as const;

mustHold(
  replicaLimits.catchUpMsMax + limits.quotaWaitMsMax < limits.decisionDeadlineMs,
  'a request that waits for a catch-up, and then for units, still gets a decision',
);
mustHold(
  replicaLimits.loopTickMs * 5 <= replicaLimits.loopStopMsMax,
  'a loop that is merely busy does not count as stopped',
);
