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
import { finalView, type HeldView, heldView, latestStartMs, type Shortage } from './held-view.ts';
import type { HeldWindow } from './held-window.ts';
import type { LeaseClient } from './lease-caller.ts';
import { LeaseCalls } from './lease-calls.ts';
import { quotaLimits } from './limits.ts';
import { Reservation } from './reservation.ts';
import type { SpooledTakes } from './succession.ts';
import type { AskOutcome } from './wait-queue.ts';
import { noWalletState, WalletPaths, type WalletState } from './wallet-paths.ts';
import { type LimitedGate, type LimitedPassport, WindowTable } from './window-table.ts';

/** Totals since the start; `waiting` and `windows` are current values. */
export interface LeaseCounts {
  /** Answered calls; unanswered attempts count as `failures`. */
  readonly calls: number;
  readonly failures: number;
  /** Requests that asked for units, and those among them that got none. */
  readonly asks: number;
  readonly refused: number;
  readonly unavailable: number;
  /** Charges taken from leases. */
  readonly takes: number;
  readonly waiting: number;
  readonly windows: number;
}

/** Without an epoch, units of a holder that dies stay counted until their windows end. */
export interface LeaseHolderDeps extends SpooledTakes {
  readonly client: LeaseClient;
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  /** What is known of wallets. Absent: nothing, and no passport that may have one gets a PERMIT. */
  readonly wallets?: WalletState;
  /** Default: quotaLimits.leasedWindowsMax. */
  readonly windowsMax?: number;
}

/**
 * The units that this sidecar holds in windows of the quota ledger (contract §6). Requests take held units in
 * memory, without waiting. Missing units are leased from the control plane: one call carries the needs of an
 * event-loop turn, and leases ahead where requests keep coming. Idle units go back within 2 s.
 *
 * The path of a request:
 *
 *     view ──> decide ──PERMIT──> take                                          all in one synchronous section
 *               │ └──SUSPEND, or PERMIT with a settlement──> reserve ──> keep | giveBack | passOn, when the outcome is known
 *               └──unknown: leases──> ask ··· outcome ──> view ──> decide ...
 */
export class LeaseHolder {
  readonly #clock: Clock;
  readonly #windows: WindowTable;
  readonly #calls: LeaseCalls;
  #takes = 0;

  /** Makes no call before a request needs units. */
  constructor(deps: LeaseHolderDeps) {
    this.#clock = deps.clock;
    const wallets = new WalletPaths(deps.wallets ?? noWalletState);
    this.#windows = new WindowTable(deps.windowsMax ?? quotaLimits.leasedWindowsMax, wallets);
    this.#calls = new LeaseCalls({ ...deps, wallets, windows: () => this.#windows.all() });
  }

  /**
   * The name under which the control plane counts these units. Changes after `holder_unknown` (LeaseCall),
   * and when the spool has lost records or begun another epoch.
   */
  get holder(): string {
    return this.#calls.holder;
  }

  get counts(): LeaseCounts {
    return { ...this.#calls.counts, takes: this.#takes, windows: this.#windows.size };
  }

  /**
   * The windows that a request of this passport at this gate draws on. Valid in this synchronous section
   * only: the numbers are live and fall with each `take`. Allocates nothing for a gate and passport seen
   * before. Windows named by `shortage` are final, unless they have ended since. Gate null: `/enforce`
   * without a gate. `isInWallet`: the passport is in a wallet, though its token does not say so.
   */
  view(
    gate: LimitedGate | null,
    passport: LimitedPassport,
    shortage: Shortage | null = null,
    isInWallet = false,
  ): HeldView {
    const mayHaveWallet = isInWallet || passport.hasWallet === true;
    if (!mayHaveWallet && (gate === null || !drawsOnAny(gate))) {
      if (passport.spendWindows.length === 0 && passport.rateWindows.length === 0) return emptyView;
    }
    const nowMs = this.#clock.monotonic();
    const view = this.#windows.viewOf(gate, passport, nowMs, mayHaveWallet);
    for (const window of view.spendWindows) window.lease.endIfOver(nowMs);
    for (const window of view.rateWindows) window.lease.endIfOver(nowMs);
    for (const { held } of view.standingApprovals) held.lease.endIfOver(nowMs);
    // One moment lies in all windows of a request, also where replicas with different clocks granted them.
    const startedMs = latestStartMs(view);
    for (const window of view.spendWindows) window.lease.endIfBefore(startedMs);
    for (const window of view.rateWindows) window.lease.endIfBefore(startedMs);
    return shortage === null ? view : finalView(view, shortage);
  }

  /**
   * Takes for good. All units must be held: each window is asserted before any is changed. Leases more in the
   * background where few units are left.
   */
  take(view: HeldView, { moneyMicroUsd, requests }: Charge): void {
    for (const { lease } of view.spendWindows) {
      assert(moneyMicroUsd <= lease.available, 'a charge takes only held money');
    }
    for (const { lease } of view.rateWindows) {
      assert(requests <= lease.available, 'a charge takes only held requests');
    }
    this.#takes++;
    if (moneyMicroUsd > 0) for (const window of view.spendWindows) this.#takeFrom(window, moneyMicroUsd);
    if (requests > 0) for (const window of view.rateWindows) this.#takeFrom(window, requests);
  }

  #takeFrom(window: HeldWindow, units: number): void {
    window.lease.take(units);
    if (window.lease.isLow) this.#calls.renew(window);
  }

  /**
   * Takes, as above, units that may have to be given back. End it with exactly one of `keep`, `giveBack` and
   * `passOn`.
   */
  reserve(view: HeldView, charge: Charge): Reservation {
    this.take(view, charge);
    return new Reservation(view, charge);
  }

  /** The charge is used. */
  keep(reservation: Reservation): void {
    reservation.keep();
  }

  /** The charge had no effect. Its units can be taken again, unless their window has ended. */
  giveBack(reservation: Reservation): void {
    reservation.giveBack(this.#clock.monotonic());
    for (const window of reservation.windows) this.#calls.returnSpare(window);
  }

  /** The control plane has moved the units elsewhere, or frees them: an approval, a void. */
  passOn(reservation: Reservation): void {
    reservation.passOn(this.#clock.monotonic());
  }

  /**
   * Leases the missing units and answers exactly once, never before this returns. Waiters are answered in
   * order of arrival, each after the one before has decided. `untilMs`: limits.quotaWaitMsMax after the
   * request's first need. Past it (by up to 10 ms) the request gets `late`; units already asked for serve
   * later requests.
   */
  ask(
    view: HeldView,
    need: Charge,
    untilMs: MonotonicMillis,
    onOutcome: (outcome: AskOutcome) => void,
  ): void {
    this.#calls.ask({ view, need, untilMs, onOutcome, refused: null });
  }

  /** Retries a failed call at once: the control plane is back. */
  endPause(): void {
    this.#calls.endPause();
  }

  /**
   * Dismisses all waiters and returns all available units, for at most `quotaLimits.leaseStopMsMax`. Call it
   * after the last request was answered. Never rejects.
   */
  stop(): Promise<void> {
    return this.#calls.stop();
  }
}

const drawsOnAny = ({ spendWindows, rateWindows, standingApprovals }: LimitedGate): boolean =>
  spendWindows.length > 0 || rateWindows.length > 0 || standingApprovals.length > 0;

const emptyView = heldView([], []);
