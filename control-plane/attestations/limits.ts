import { limits, mustHold } from '../../shared/model/limits.ts';
import { dayMs, hourMs, minuteMs, secondMs } from '../../shared/model/time.ts';

/** Bounds used only in this room, each with its reason. */
export const attestationsLimits = {
  /** Epochs remembered per sidecar. A sidecar ships the oldest first and has few unfinished ones. */
  epochsPerSidecarMax: 32,
  /** How far ahead a sidecar's record may be dated (contract §9): synchronised clocks differ by less. */
  recordAheadMsMax: minuteMs,
  /**
   * Records that an export fetches and sends at once: about 200 KB, which a 10 KB/s client reads within
   * exportStallMsMax.
   */
  exportSliceRowsMax: 200,
  /**
   * Records whose envelopes an export makes without a turn of the event loop: a millisecond, and enough for a
   * task of the signing threads (signTaskMessagesMin).
   */
  exportSignedAtOnceMax: 32,
  /**
   * How long a month has to be over before its records may leave the database: a settlement keeps its key for
   * a day, and an approval is pending and then approved for a week each.
   */
  archiveAgeMsMin: 15 * dayMs,
  /** Chains that one step of an archive looks at or marks: it holds their marks for some milliseconds. */
  archiveChainsMax: 200,
  /** Rows that one step of an account's archive removes: some ten milliseconds. */
  archiveRowsMax: 2_000,
  /** Rows of facts that one statement removes: some ten milliseconds. */
  factRowsMax: 2_000,
  /** Facts that are kept no longer leave within an hour: they are counted in days. */
  factTrimIntervalMs: hourMs,
  /** Accounts that one answer names as due. */
  dueOwnersMax: 100,
  /** Partitions that the audit entry of an archive names, which stays below 8 KiB. */
  partitionsNamedMax: 60,
  /**
   * Batches stored without a draft after a stale one: the drafts after it are stale too, and the other
   * writer may continue. Under constant contention this makes about one signature in nine twice.
   */
  draftPauseBatches: 8,
  /**
   * How long a batch of records waits for its turn: behind full ones of a machine that stores 8,000 records a
   * second nearly ten seconds, on one that is slower its sidecar sends it again.
   */
  ingestTurnMsMax: 6 * secondMs,
  /**
   * How long it waits for a lock: others hold the same chains, and the windows of what it voids, for some
   * milliseconds.
   */
  ingestLockMsMax: 3 * secondMs,
} as const;

mustHold(
  attestationsLimits.ingestTurnMsMax + attestationsLimits.ingestLockMsMax < limits.internalCallMsMax,
  'a batch that waits is answered before its sidecar sends it again',
);

mustHold(
  attestationsLimits.archiveAgeMsMin <= limits.retentionDaysMin * dayMs,
  'what an account no longer keeps may be archived',
);

mustHold(
  limits.ingestsAtOnceMax < attestationsLimits.draftPauseBatches,
  'after a pause no draft is left that was made after a wrong one',
);
