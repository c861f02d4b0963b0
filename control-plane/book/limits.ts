import { limits, mustHold } from '../../shared/model/limits.ts';
import { dayMs, hourMs, minuteMs, secondMs } from '../../shared/model/time.ts';

/** Bounds used only in this room, each with its reason. */
export const quotaLimits = {
  /**
   * Lease calls of one account that wait for their turn: each sidecar makes one at a time, of 256 KB at most.
   */
  leaseCallsWaitingPerAccountMax: 256,
  /**
   * How long a lease call waits for its turn. A turn ends within `leaseLockMsMax`, so also an account whose
   * call finds all turns taken by calls that wait gets one.
   */
  leaseTurnMsMax: 400,
  /** How long a lease call waits for a lock: fifty times the time for which another call holds one. */
  leaseLockMsMax: 300,
  /**
   * How long a change that a caller waits for, such as an outcome or an answer to an approval, waits for a
   * lock: as a settlement does.
   */
  changeLockMsMax: limits.quotaWaitMsMax,
  /**
   * How long a sweep waits for a lock with what it changes together, and then with each alone: twenty times
   * the time for which others hold one.
   */
  sweepLockMsMax: secondMs,
  sweepAloneLockMsMax: 100,
  /** Lease calls of a holder between two folds of its posts: a fraction of a minute at a busy gate. */
  leaseCallsPerFold: 32,
  /**
   * A holder without units is forgotten after this long without a call: longer than any call is repeated.
   */
  leaseHolderKeptMs: dayMs,
  /**
   * Each keeps its last answer, tens of KB. Only the newest process of a sidecar may call, and after this
   * many restarts no older call is in flight.
   */
  leaseHoldersPerSidecarMax: 64,
  /**
   * Tolerance between a decision's time, which is the sidecar's estimate of the control plane's clock, and
   * the window of its lease, which is by the grantor's clock.
   */
  leaseClockLeewayMs: minuteMs,
  /**
   * A sidecar knows of a moved passport or wallet after this, or asks anew: `limits.stateAgeL2MsMax`, and as
   * much for its clock.
   */
  walletMoveKnownMs: 2 * minuteMs,
  /**
   * By how much the clocks of two replicas may differ: beyond a second readiness says so. A wallet that
   * changed no longer than this before a passport came into it may have changed after that.
   */
  replicaClockLeewayMs: secondMs,
  /** Silent holders removed per new one; more than one, so that the table stays bounded. */
  leaseHoldersPerTrimMax: 10,
  /**
   * A PERMIT that arrives this long after the end of its window raises no alert; it would be too late to act
   * on.
   */
  spendCountedMs: 7 * dayMs,
  /** Ended windows removed by a call that makes new ones. */
  quotaWindowsPerTrimMax: 1_000,
  /**
   * An ended window is kept this long, so that replicas whose clocks differ by less, or are set back by less,
   * still find its count.
   */
  quotaWindowKeptMs: hourMs,
} as const;

/** `only`: the one that the sweep changes; null: several together. */
export const sweepLockMsMax = (only: string | null): number =>
  only === null ? quotaLimits.sweepLockMsMax : quotaLimits.sweepAloneLockMsMax;

mustHold(
  quotaLimits.leaseLockMsMax < quotaLimits.leaseTurnMsMax &&
    quotaLimits.leaseTurnMsMax + quotaLimits.leaseLockMsMax < limits.quotaWaitMsMax,
  'a lease call that waits is answered before its sidecar makes it again',
);
mustHold(
  quotaLimits.quotaWindowsPerTrimMax >= 2 * limits.quotaWindowsPerCallMax,
  'ended windows are deleted faster than new ones are created',
);
