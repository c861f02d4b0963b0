import { limits, mustHold } from '../../shared/model/limits.ts';
import { minuteMs } from '../../shared/model/time.ts';

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
   * Batches stored without a draft after a stale one: the drafts behind it are stale too, and the other
   * writer may continue. Under constant contention this makes about one signature in nine twice.
   */
  draftPauseBatches: 8,
} as const;

mustHold(
  limits.ingestsAtOnceMax < attestationsLimits.draftPauseBatches,
  'after a pause no draft is left that was made behind a wrong one',
);
