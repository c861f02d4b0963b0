import { limits, mustHold } from '../../shared/model/limits.ts';
import { minuteMs } from '../../shared/model/time.ts';

/** Bounds of this room alone, each with its reason. */
export const attestationsLimits = {
  /**
   * Starts of one sidecar of which the last record is remembered: it ships the oldest first, and has few that
   * are not shipped to the end.
   */
  epochsPerSidecarMax: 32,
  /**
   * A record of a sidecar may carry a time this far ahead (contract §9): clocks that keep time differ by
   * less.
   */
  recordAheadMsMax: minuteMs,
  /**
   * Records that an export fetches and hands over at once: about 200 KB, which a line of 10 KB/s takes within
   * exportStallMsMax.
   */
  exportSliceRowsMax: 200,
  /**
   * Where a batch was linked and signed ahead in vain, so many are taken without: those behind it are wrong
   * as well, and whoever else adds to its chains may go on. Then about one signature in nine is made twice.
   */
  draftPauseBatches: 8,
} as const;

mustHold(
  limits.ingestsAtOnceMax < attestationsLimits.draftPauseBatches,
  'after a pause no draft is left that was made behind a wrong one',
);
