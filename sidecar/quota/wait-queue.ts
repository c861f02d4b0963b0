import type { Charge } from '../../shared/decision/facts.ts';
import type { MonotonicMillis } from '../../shared/model/time.ts';
import type { Clock } from '../../shared/runtime/clock.ts';
import { type HeldView, isAbout, type Shortage } from './held-view.ts';
import type { HeldWindow } from './held-window.ts';

/**
 * Outcome of a request for units. The units are not reserved, so the request must decide again in the same
 * synchronous section. The next waiter is notified after it.
 *
 *   granted      everything it needs can be taken now
 *   refused      the ledger was asked for this request and has less left than it needs: decide with
 *                `view(gate, passport, shortage)`
 *   away         the control plane is known to be away
 *   late         no answer came in time, too many requests wait already, or the control plane has no such
 *                limit
 */
export type AskOutcome =
  | { readonly kind: 'granted' }
  | { readonly kind: 'refused'; readonly shortage: Shortage }
  | { readonly kind: 'away' }
  | { readonly kind: 'late' };

export const granted: AskOutcome = { kind: 'granted' };
export const away: AskOutcome = { kind: 'away' };
export const late: AskOutcome = { kind: 'late' };

/**
 * What a request draws on, and how much of it: the money of each spend window, the requests of each rate
 * window.
 */
export interface NeededUnits {
  readonly view: HeldView;
  readonly need: Charge;
}

/** A request that lacks units. */
export interface WaitingRequest extends NeededUnits {
  readonly untilMs: MonotonicMillis;
  readonly onOutcome: (outcome: AskOutcome) => void;
  /** The outcome it gets once units leased for it in vain are back at the ledger. Written by LeaseCalls. */
  refused: Extract<AskOutcome, { kind: 'refused' }> | null;
}

/** Deadlines this close together share one timer, so a waiter may be dismissed this much late. */
const graceMs = 10;

/** Waiting requests in order of arrival, each until its outcome is known. */
export class WaitQueue {
  readonly #waiting = new Set<WaitingRequest>();
  readonly #clock: Clock;
  readonly #onLate: (waiter: WaitingRequest) => void;
  #timer: NodeJS.Timeout | null = null;
  #timerAtMs = Number.POSITIVE_INFINITY;

  /** `onLate` is called once for each request past its deadline, and must remove it. */
  constructor(clock: Clock, onLate: (waiter: WaitingRequest) => void) {
    this.#clock = clock;
    this.#onLate = onLate;
  }

  get size(): number {
    return this.#waiting.size;
  }

  /** In order of arrival. Requests may be removed during iteration; new ones join at the end. */
  all(): Iterable<WaitingRequest> {
    return this.#waiting;
  }

  has(waiter: WaitingRequest): boolean {
    return this.#waiting.has(waiter);
  }

  add(waiter: WaitingRequest): void {
    this.#waiting.add(waiter);
    eachNeed(waiter, (window) => window.waiting++);
    if (waiter.untilMs < this.#timerAtMs) this.#wakeAt(waiter.untilMs);
  }

  remove(waiter: WaitingRequest): void {
    if (!this.#waiting.delete(waiter)) return;
    eachNeed(waiter, (window) => window.waiting--);
    if (this.#waiting.size === 0) this.#wakeAt(Number.POSITIVE_INFINITY);
  }

  /** One timer for all: nearly every request is answered long before its deadline. */
  #wakeAt(atMs: number): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    this.#timerAtMs = atMs;
    if (atMs === Number.POSITIVE_INFINITY) return;
    const inMs = Math.max(0, atMs - this.#clock.monotonic()) + graceMs;
    this.#timer = setTimeout(() => this.#dismissLate(), inMs);
  }

  #dismissLate(): void {
    const nowMs = this.#clock.monotonic();
    let nextMs = Number.POSITIVE_INFINITY;
    const late: WaitingRequest[] = [];
    for (const waiter of this.#waiting) {
      if (waiter.untilMs <= nowMs) late.push(waiter);
      else nextMs = Math.min(nextMs, waiter.untilMs);
    }
    this.#wakeAt(nextMs);
    for (const waiter of late) this.#onLate(waiter);
  }
}

/** Visits each window that the request needs units of. */
export function eachNeed(
  { view, need }: NeededUnits,
  visit: (window: HeldWindow, units: number) => void,
): void {
  if (need.moneyMicroUsd > 0) for (const window of view.spendWindows) visit(window, need.moneyMicroUsd);
  if (need.requests > 0) for (const window of view.rateWindows) visit(window, need.requests);
}

/** All units that it needs are held; or it asked for its wallets, which are known now. */
export function isCovered({ view, need }: NeededUnits): boolean {
  const lookUp = view.heldWallet?.lookUp ?? null;
  if (lookUp !== null) return lookUp.isKnown();
  return (
    view.spendWindows.every(({ lease }) => need.moneyMicroUsd <= lease.available) &&
    view.rateWindows.every(({ lease }) => need.requests <= lease.available)
  );
}

/**
 * Money is checked first, so without it the request needs no other units. A request that lacks only rate
 * units must find its money available.
 */
export const lacksMoney = ({ view, need }: WaitingRequest, dry: Shortage): boolean =>
  view.spendWindows.some((window) => window.lease.available < need.moneyMicroUsd && isAbout(dry, window));

/**
 * Outcome after the call that asked for it. Null: wait for the next call, because others took the leased
 * units or the window has ended meanwhile.
 */
export function outcomeOf(
  waiter: WaitingRequest,
  dry: Shortage,
  unknown: ReadonlySet<HeldWindow>,
): AskOutcome | null {
  if (isCovered(waiter)) return granted;
  if (waiter.view.heldWallet?.lookUp) return late;
  let outcome: AskOutcome | null = null;
  eachNeed(waiter, (window, units) => {
    if (units <= window.lease.available) return;
    if (unknown.has(window)) outcome = late;
    else if (outcome === null && isAbout(dry, window)) outcome = { kind: 'refused', shortage: dry };
  });
  return outcome;
}
