import type { Charge } from '../../shared/decision/facts.ts';
import { assert } from '../../shared/errors/assert.ts';
import type { LeaseReturn } from '../../shared/wire/lease-call.ts';
import type { HeldView } from './held-view.ts';
import type { HeldWindow } from './held-window.ts';

/**
 * A charge that was taken and may have to be given back:
 *
 *     reserved ──keep──> kept      reserved ──giveBack──> given back      reserved ──passOn──> passed on
 *
 * A window that has ended, or whose lease was dropped, meanwhile has nothing of it any more: then each of these changes nothing there.
 */
export class Taken {
  readonly charge: Charge;
  readonly #spend: readonly Part[];
  readonly #rate: readonly Part[];
  #isEnded = false;

  /** The charge has just been taken from the windows of the view. */
  constructor(view: HeldView, charge: Charge) {
    this.charge = charge;
    this.#spend = charge.moneyMicroUsd === 0 ? [] : view.spendWindows.map(partOf);
    this.#rate = charge.requests === 0 ? [] : view.rateWindows.map(partOf);
    for (const { window } of this.#parts) window.reserved++;
  }

  get #parts(): readonly Part[] {
    return [...this.#spend, ...this.#rate];
  }

  /** Of which something was taken. */
  get windows(): readonly HeldWindow[] {
    return this.#parts.map(({ window }) => window);
  }

  /** The money, window by window, as far as it is still held. */
  held(): LeaseReturn[] {
    const units = this.charge.moneyMicroUsd;
    return this.#spend.flatMap(({ window, holding, startsAtMs }) =>
      window.lease.holding === holding ? [{ ...window.name, starts_at_ms: startsAtMs, units }] : [],
    );
  }

  keep(): void {
    this.#end();
  }

  giveBack(nowMs: number): void {
    this.#end();
    for (const { window, holding } of this.#spend) {
      window.lease.giveBack(this.charge.moneyMicroUsd, holding, nowMs);
    }
    for (const { window, holding } of this.#rate) {
      window.lease.giveBack(this.charge.requests, holding, nowMs);
    }
  }

  passOn(nowMs: number): void {
    this.#end();
    for (const { window, holding } of this.#spend) {
      window.lease.passOn(this.charge.moneyMicroUsd, holding, nowMs);
    }
  }

  #end(): void {
    assert(!this.#isEnded, 'a charge is kept, given back or passed on once');
    this.#isEnded = true;
    for (const { window } of this.#parts) window.reserved--;
  }
}

interface Part {
  readonly window: HeldWindow;
  readonly holding: number;
  readonly startsAtMs: LeaseReturn['starts_at_ms'];
}

function partOf(window: HeldWindow): Part {
  const { holding, startsAtMs } = window.lease;
  assert(startsAtMs !== null, 'what was taken was taken from a window');
  return { window, holding, startsAtMs };
}
