import type { Charge } from '../../shared/decision/facts.ts';
import { assert } from '../../shared/errors/assert.ts';
import type { LeaseReturn } from '../../shared/wire/lease-call.ts';
import type { HeldView } from './held-view.ts';
import type { HeldWindow } from './held-window.ts';

/**
 * A charge that was taken for a settlement, and whose fate the settlement decides:
 *
 *     reserved ──keep──> used      reserved ──giveBack──> given back      reserved ──passOn──> passed on
 *
 *   used        it is committed, with its record
 *   given back  nothing came of it; what was taken can be taken again
 *   passed on   the control plane counts the units elsewhere: held by an approval, or freed by a void
 *
 * A window that has ended, or whose lease was dropped, meanwhile has nothing of it any more: then each of
 * these changes nothing there.
 */
export class Reservation {
  readonly #parts: readonly Part[];
  #isEnded = false;

  /** The charge has just been taken from the windows of the view. */
  constructor(view: HeldView, { moneyMicroUsd, requests }: Charge) {
    const spend = moneyMicroUsd === 0 ? [] : view.spendWindows.map((window) => partOf(window, moneyMicroUsd));
    const rate = requests === 0 ? [] : view.rateWindows.map((window) => partOf(window, requests));
    this.#parts = [...spend, ...rate];
    for (const { window, units } of this.#parts) {
      window.reserved++;
      window.reservedUnits += units;
    }
  }

  /** Of which something was taken. */
  get windows(): readonly HeldWindow[] {
    return this.#parts.map(({ window }) => window);
  }

  /** What was taken, window by window, as far as it is still held. */
  held(): LeaseReturn[] {
    return this.#parts.flatMap(({ window, holding, startsAtMs, units }) =>
      window.lease.holding === holding ? [{ ...window.name, starts_at_ms: startsAtMs, units }] : [],
    );
  }

  keep(): void {
    this.#end();
  }

  giveBack(nowMs: number): void {
    this.#end();
    for (const { window, holding, units } of this.#parts) window.lease.giveBack(units, holding, nowMs);
  }

  passOn(nowMs: number): void {
    this.#end();
    for (const { window, holding, units } of this.#parts) window.lease.passOn(units, holding, nowMs);
  }

  #end(): void {
    assert(!this.#isEnded, 'a reservation ends once');
    this.#isEnded = true;
    for (const { window, units } of this.#parts) {
      window.reserved--;
      window.reservedUnits -= units;
    }
  }
}

interface Part {
  readonly window: HeldWindow;
  readonly holding: number;
  readonly startsAtMs: LeaseReturn['starts_at_ms'];
  readonly units: number;
}

function partOf(window: HeldWindow, units: number): Part {
  const { holding, startsAtMs } = window.lease;
  assert(startsAtMs !== null, 'what was taken was taken from a window');
  return { window, holding, startsAtMs, units };
}
