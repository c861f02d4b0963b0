import { limits, mustHold } from '../../shared/model/limits.ts';
import { dayMs, hourMs, minuteMs } from '../../shared/model/time.ts';

/** Bounds of this room alone, each with its reason. */
export const quotaLimits = {
  /**
   * Lease calls of a holder between two in which the ledger adds up what its records took: a fraction of a
   * minute at a busy gate.
   */
  leaseCallsPerFold: 32,
  /**
   * A holder that holds nothing any more and has not called for so long is forgotten: longer than any call is
   * repeated.
   */
  leaseHolderKeptMs: dayMs,
  /**
   * Each keeps its last answer, tens of KB. Only the newest process of a sidecar may call: this many restarts
   * back, none is under way any more.
   */
  leaseHoldersPerSidecarMax: 64,
  /**
   * A sidecar dates a decision by the control plane's time as it carries it on, a little off; the lease that
   * the decision took from has the window of its grantor's clock.
   */
  leaseClockLeewayMs: minuteMs,
  /** Silent holders forgotten by a new one: they go faster than they come. */
  leaseHoldersPerTrimMax: 10,
  /**
   * A PERMIT that arrives this long after its window has ended counts for no alert any more: nobody could act
   * on one.
   */
  spendCountedMs: 7 * dayMs,
  /** Ended windows removed by a call that makes new ones. */
  quotaWindowsPerTrimMax: 1_000,
  /**
   * An ended window is kept this long: clocks of replicas that differ less, or are set back by less, still
   * find what they had counted.
   */
  quotaWindowKeptMs: hourMs,
} as const;

mustHold(
  quotaLimits.quotaWindowsPerTrimMax >= 2 * limits.quotaWindowsPerCallMax,
  'ended windows are deleted faster than new ones are created',
);
