import type { Charge } from '../../shared/decision/facts.ts';
import { assert } from '../../shared/errors/assert.ts';
import type { LeaseReturn } from '../../shared/wire/sync/lease-call.ts';
import type { HeldView } from './held-view.ts';
import type { HeldWindow } from './held-window.ts';

/**
 * A charge taken for a settlement, which decides its fate:
 *
 *     reserved ──keep──> used      reserved ──giveBack──> given back      reserved ──passOn──> passed on
 *
 *   used        it is committed, with its record
 *   given back  it had no effect; its units can be taken again
 *   passed on   the control plane counts the units elsewhere: held by an approval, or freed by a void
 *
 * None of these changes a window that has ended meanwhile, or whose lease was dropped.
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

  /** Windows that units were taken from. */
  get windows(): readonly HeldWindow[] {
    return this.#parts.map(({ window }) => window);
  }

  /** Units taken, by window; windows no longer held are left out. */
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
  assert(startsAtMs !== null, 'units are reserved only in a held window');
  return { window, holding, startsAtMs, units };
}
