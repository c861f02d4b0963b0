import { limits, mustHold } from '../../shared/model/limits.ts';
import { secondMs } from '../../shared/model/time.ts';

/** Bounds of this room alone, each with its reason. */
export const quotaLimits = {
  /** Pause before asking again about a dry window: a flood then makes 40 calls a second, not 500. */
  leaseDryPauseMs: 25,
  /** Time to return held units at shutdown. Units not returned become free when their windows end. */
  leaseStopMsMax: secondMs,
  /** Shortest life of a holder on a disk that fails again and again: each costs the ledger a row. */
  leaseHolderLastsMsMin: secondMs,
  /** Requests that wait for leases: a quarter second at 20,000 a second. More are blocked at once. */
  leaseWaitersMax: 5_000,
  /** Known windows, about 1 KB each: a minute and a day for each passport that a sidecar remembers. */
  leasedWindowsMax: 100_000,
  /** Windows examined to make room for one: most of the least recently used hold nothing. */
  leasedWindowsPerTrimMax: 16,
  /** Passports whose wallets are remembered, under 1 KB each; others are asked for again. */
  walletPathsMax: 100_000,
  /** Cached views (which windows a passport draws on at a gate). At this number all are dropped. */
  leaseViewsMax: 100_000,
} as const;

mustHold(
  quotaLimits.leaseStopMsMax * 2 < limits.drainMsMax,
  'a stopping sidecar returns its units and has time left to ship records',
);
