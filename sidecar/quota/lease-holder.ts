/**
 * Room `sidecar/quota`: what this sidecar may give out by itself. `held-window.ts` is one window,
 * `lease-calls.ts` asks the control plane, `wait-queue.ts` has the requests that wait.
 */

import type { Charge } from '../../shared/decision/facts.ts';
import { assert } from '../../shared/errors/assert.ts';
import type { MonotonicMillis } from '../../shared/model/time.ts';
import type { Clock } from '../../shared/runtime/clock.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import type { Random } from '../../shared/runtime/random.ts';
import { finalView, type HeldView, heldView, type Shortage } from './held-view.ts';
import type { HeldWindow } from './held-window.ts';
import type { LeaseClient } from './lease-caller.ts';
import { LeaseCalls } from './lease-calls.ts';
import { quotaLimits } from './limits.ts';
import { Reservation } from './reservation.ts';
import type { AskOutcome } from './wait-queue.ts';
import { type LimitedGate, type LimitedPassport, WindowTable } from './window-table.ts';

/**
 * The units that this sidecar holds of the windows of the quota ledger (contract §6). Requests take from what
 * is held, in memory and at once; whatever is lacking is leased from the control plane, the needs of one
 * event-loop turn in one call, and ahead of need where requests keep coming. What stays idle goes back within
 * 2 s.
 *
 * The way of a request:
 *
 *     view ──> decide ──PERMIT──> take                                          all in one synchronous section
 *               │ └──SUSPEND or PERMIT that is settled──> reserve ──> keep | giveBack | passOn, when the outcome is known
 *               └──unknown: leases──> ask ··· outcome ──> view ──> decide ...
 */
export interface LeaseHolder {
  /** As which the control plane knows what is held here. Another one after it has forgotten (LeaseCall). */
  readonly holder: string;
  /**
   * The windows that a request of this passport at this gate draws on, as far as known now. Good for this
   * synchronous section only: the numbers are live, and go down with each `take`. Makes nothing for a gate
   * and passport seen before. With a shortage the windows that it is about are final, unless they have
   * ended since. Gate null: `/enforce` without a gate.
   */
  view(gate: LimitedGate | null, passport: LimitedPassport, shortage?: Shortage | null): HeldView;
  /**
   * Takes for good. Everything must be there: that is asserted, window by window, before any is touched.
   * Leases more in the background where little is left.
   */
  take(view: HeldView, charge: Charge): void;
  /**
   * Takes, as above, what may have to be given back: to be ended by exactly one of `keep`, `giveBack` and
   * `passOn`.
   */
  reserve(view: HeldView, charge: Charge): Reservation;
  /** The charge is used. */
  keep(reservation: Reservation): void;
  /** The charge never came to be. What was taken can be taken again, unless its window has ended. */
  giveBack(reservation: Reservation): void;
  /** The control plane has moved the units elsewhere, or frees them: an approval, a void. */
  passOn(reservation: Reservation): void;
  /**
   * Leases what the request lacks, and answers exactly once, never before this returns. Those who wait are
   * answered first come, first served, each only after the one before has decided. `untilMs`:
   * limits.quotaWaitMsMax after the request's first need; then it gets `late`, up to 10 ms late, while what
   * it asked for is still leased for those who come after it.
   */
  ask(view: HeldView, need: Charge, untilMs: MonotonicMillis, onOutcome: (outcome: AskOutcome) => void): void;
  readonly counts: LeaseCounts;
  /** The control plane is there again: a call that waits for its next attempt is made at once. */
  endPause(): void;
  /**
   * Everybody who waits gets `late`, and all that is not taken goes back in last calls, for at most
   * `quotaLimits.leaseStopMsMax`. To be called after the last request was answered. Never rejects.
   */
  stop(): Promise<void>;
}

/** Plain numbers since the start, and two of this moment. */
export interface LeaseCounts {
  /** Calls that were answered; each attempt that was not counts under `failures`. */
  readonly calls: number;
  readonly failures: number;
  /** Requests that had to wait for a call, and what they got. */
  readonly asks: number;
  readonly refused: number;
  readonly unavailable: number;
  /** Charges taken from leases. */
  readonly takes: number;
  /** Now: requests that wait. */
  readonly waiting: number;
  /** Now: windows of which something is known here. */
  readonly windows: number;
}

export interface LeaseHolderDeps {
  readonly client: LeaseClient;
  /**
   * The live epoch of the spool that gets a record of whatever is taken here. Absent: units of a holder that
   * dies stay counted.
   */
  readonly epoch?: () => string;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  /** Default: quotaLimits.leasedWindowsMax. */
  readonly windowsMax?: number;
}

/** Nothing is asked before the first request needs something. */
export function leaseHolder(deps: LeaseHolderDeps): LeaseHolder {
  return new CallingHolder(deps);
}

class CallingHolder implements LeaseHolder {
  readonly #clock: Clock;
  readonly #windows: WindowTable;
  readonly #calls: LeaseCalls;
  #takes = 0;

  constructor(deps: LeaseHolderDeps) {
    this.#clock = deps.clock;
    this.#windows = new WindowTable(deps.windowsMax ?? quotaLimits.leasedWindowsMax);
    this.#calls = new LeaseCalls({ ...deps, windows: () => this.#windows.all() });
  }

  get holder(): string {
    return this.#calls.holder;
  }

  get counts(): LeaseCounts {
    return { ...this.#calls.counts, takes: this.#takes, windows: this.#windows.size };
  }

  view(gate: LimitedGate | null, passport: LimitedPassport, shortage: Shortage | null = null): HeldView {
    if (gate === null || (gate.spendWindows.length === 0 && gate.rateWindows.length === 0)) {
      if (passport.spendWindows.length === 0 && passport.rateWindows.length === 0) return emptyView;
    }
    const nowMs = this.#clock.monotonic();
    const view = this.#windows.viewOf(gate, passport, nowMs);
    for (const window of view.spendWindows) window.lease.endIfOver(nowMs);
    for (const window of view.rateWindows) window.lease.endIfOver(nowMs);
    return shortage === null ? view : finalView(view, shortage);
  }

  take(view: HeldView, { moneyMicroUsd, requests }: Charge): void {
    for (const { lease } of view.spendWindows) {
      assert(moneyMicroUsd <= lease.available, 'money that is taken is held');
    }
    for (const { lease } of view.rateWindows) {
      assert(requests <= lease.available, 'requests that are taken are held');
    }
    this.#takes++;
    if (moneyMicroUsd > 0) for (const window of view.spendWindows) this.#takeFrom(window, moneyMicroUsd);
    if (requests > 0) for (const window of view.rateWindows) this.#takeFrom(window, requests);
  }

  #takeFrom(window: HeldWindow, units: number): void {
    window.lease.take(units);
    if (window.lease.isLow) this.#calls.renew(window);
  }

  reserve(view: HeldView, charge: Charge): Reservation {
    this.take(view, charge);
    return new Reservation(view, charge);
  }

  keep(reservation: Reservation): void {
    reservation.keep();
  }

  giveBack(reservation: Reservation): void {
    reservation.giveBack(this.#clock.monotonic());
    for (const window of reservation.windows) this.#calls.returnSpare(window);
  }

  passOn(reservation: Reservation): void {
    reservation.passOn(this.#clock.monotonic());
  }

  ask(
    view: HeldView,
    need: Charge,
    untilMs: MonotonicMillis,
    onOutcome: (outcome: AskOutcome) => void,
  ): void {
    this.#calls.ask({ view, need, untilMs, onOutcome, refused: null });
  }

  endPause(): void {
    this.#calls.endPause();
  }

  stop(): Promise<void> {
    return this.#calls.stop();
  }
}

const emptyView = heldView([], []);
