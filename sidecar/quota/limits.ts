import { limits, mustHold } from '../../shared/model/limits.ts';
import { secondMs } from '../../shared/model/time.ts';

/** Bounds of this room alone, each with its reason. */
export const quotaLimits = {
  /**
   * A window that has run dry is asked about again after this: while it is dry, a flood of requests makes 40
   * calls a second, not 500.
   */
  leaseDryPauseMs: 25,
  /**
   * At its end a sidecar gives back what it holds for at most so long; the rest is free when its window ends.
   */
  leaseStopMsMax: secondMs,
  /** Requests that wait for leases: a quarter second at 20,000 a second. More are blocked at once. */
  leaseWaitersMax: 5_000,
  /**
   * Windows of counters that a sidecar knows of, about 1 KB each: as many passports as it remembers, with a
   * minute and a day each.
   */
  leasedWindowsMax: 100_000,
  /**
   * Windows that are looked at to make room for one: most of those that were not used of late hold nothing.
   */
  leasedWindowsPerTrimMax: 16,
  /**
   * Which windows a passport draws on at a gate, remembered so often; then all of that is found out again.
   */
  leaseViewsMax: 100_000,
} as const;

mustHold(
  quotaLimits.leaseStopMsMax * 2 < limits.drainMsMax,
  'a stopping sidecar returns its units and has time left to ship records',
);
