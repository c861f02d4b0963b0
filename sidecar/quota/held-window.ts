import { Lease } from '../../shared/quota/lease.ts';
import type { WindowName } from '../../shared/quota/window.ts';
import type { LeaseCounter } from '../../shared/wire/sync/lease-call.ts';

/** A counter and the name of a window, as lease calls name them. */
export interface WindowOfCounter extends LeaseCounter {
  readonly window: WindowName;
}

/**
 * The units that this sidecar holds in one window of one counter. Only the files of this room write the
 * fields after the first two.
 */
export class HeldWindow {
  /** Of a wallet it names a passport that draws on it, and may come to name another. */
  name: WindowOfCounter;
  readonly lease: Lease;
  /** Id of the current lease, named in records of charges taken from it; null until the ledger answers. */
  leaseId: number | null = null;
  /** A request has used it since the last trim. */
  isInUse = true;
  /** Removed from the table: nothing is leased for it, and views that list it are rebuilt. */
  isForgotten = false;
  /** Of a wallet: the control plane does not know the passport of its name as one that draws on it. */
  isOfNoPassport = false;
  /** Requests that wait for units of it. */
  waiting = 0;
  /** The call in flight asks for more of it, or returns some. */
  isInCall = false;
  /** Reservations that have not ended, and their units. */
  reserved = 0;
  reservedUnits = 0;
  /**
   * On the monotonic clock: when to ask again after the ledger had too little. -Infinity after it had enough.
   */
  askAgainAtMs = Number.NEGATIVE_INFINITY;

  constructor(name: WindowOfCounter, limit: number, nowMs: number) {
    this.name = name;
    this.lease = new Lease(limit, nowMs);
  }

  /** The ledger had too little left of the current window when it was last asked. */
  get isDry(): boolean {
    return this.askAgainAtMs !== Number.NEGATIVE_INFINITY && this.lease.startsAtMs !== null;
  }

  /** Safe to remove: the ledger, not this object, counts what was taken. */
  get isForgettable(): boolean {
    return !this.isInCall && this.waiting === 0 && this.reserved === 0 && this.lease.available === 0;
  }
}
