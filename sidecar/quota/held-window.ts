import { Lease } from '../../shared/quota/lease.ts';
import type { WindowName } from '../../shared/quota/window.ts';
import type { LeaseCounter } from '../../shared/wire/lease-call.ts';

/** A counter and the name of a window, as calls name them. */
export interface WindowOfCounter extends LeaseCounter {
  readonly window: WindowName;
}

/**
 * What this sidecar holds of one window of one counter, with what its shell knows besides. All fields but the
 * first two are written by the lease holder and its window table only.
 */
export class HeldWindow {
  readonly name: WindowOfCounter;
  readonly lease: Lease;
  /**
   * Lease id under which records name what was taken of the current lease; null until the ledger has
   * answered.
   */
  leaseId: number | null = null;
  /** A request has used it since the last trim. */
  isInUse = true;
  /** Removed from the table: nothing can be leased for it, and views that list it are rebuilt. */
  isForgotten = false;
  /** Requests that wait for units of it. */
  waiting = 0;
  /** The call in flight asks for more of it, or returns some. */
  isInCall = false;
  /** Charges that may still be given back, and their units. */
  reserved = 0;
  reservedUnits = 0;
  /**
   * On the monotonic clock: a ledger that had too little left is not asked again at once. -Infinity since it
   * had enough.
   */
  askAgainAtMs = Number.NEGATIVE_INFINITY;

  constructor(name: WindowOfCounter, limit: number, nowMs: number) {
    this.name = name;
    this.lease = new Lease(limit, nowMs);
  }

  /** The ledger had too little left of this very window when it was last asked. */
  get isDry(): boolean {
    return this.askAgainAtMs !== Number.NEGATIVE_INFINITY && this.lease.startsAtMs !== null;
  }

  /** Whether it can be removed. What was taken from it stays counted in the ledger, not here. */
  get isForgettable(): boolean {
    return !this.isInCall && this.waiting === 0 && this.reserved === 0 && this.lease.available === 0;
  }
}
