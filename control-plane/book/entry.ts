/**
 * Room `control-plane/book`: where the units of all limits are, and what moves them
 * (docs/operate/money-book.md). This file says which entries an event of a PERMIT has, `post.ts` carries them
 * out, `count-money.ts` adds them up. `ledger.ts` counts what is given out of each window, `holder-store.ts`
 * what sidecars have of it, `take-units.ts` takes for the control plane itself; `balance.ts` asks whether all
 * this agrees.
 */

import { assert, unreachable } from '../../shared/errors/assert.ts';

/** Where the units of a window are (docs/operate/money-book.md). */
export type Place = 'free' | 'lease' | 'used' | 'approval' | 'hold' | 'overrun';

/** What one PERMIT takes from a window, going from one place to another. */
export interface Entry {
  readonly from: Place;
  readonly to: Place;
  /** Micro-USD: the units of a window of money. */
  readonly money: number;
  /** The units of a window of requests: 1, or 0 where only money moves. */
  readonly requests: number;
}

/** What a PERMIT counts, in micro-USD. */
export interface PermitMoney {
  /** Of its own take, without an overrun. */
  readonly own: number;
  /** Its hold is open. */
  readonly isHeld: boolean;
  readonly overrun: number;
}

/** What can happen to the units of a PERMIT. */
export type PermitEvent =
  | { readonly kind: 'recorded'; readonly from: 'free' | 'lease' | 'approval'; readonly counts: PermitMoney }
  /** Its hold is settled, released, extended or over, or money was refunded. */
  | { readonly kind: 'changed'; readonly before: PermitMoney; readonly after: PermitMoney }
  /** No client got it. `to`: an approval that paid it waits again. */
  | { readonly kind: 'voided'; readonly before: PermitMoney; readonly to: 'free' | 'approval' }
  /** No client got it, and no transaction has committed it. `money`: what it took of each lease. */
  | { readonly kind: 'unsettled'; readonly money: number };

/** All entries of an event. What is taken from one place is in another: none adds or removes a unit. */
export function entriesOf(event: PermitEvent): readonly Entry[] {
  switch (event.kind) {
    case 'recorded': {
      const { own, overrun } = event.counts;
      assert(overrun === 0, 'a PERMIT begins with what it took');
      return [{ from: event.from, to: placeOf(event.counts), money: own, requests: 1 }];
    }
    case 'changed':
      return moved(event.before, event.after, 'free');
    case 'voided':
      return [...moved(event.before, nothing, event.to), { from: 'used', to: 'free', money: 0, requests: 1 }];
    case 'unsettled':
      return [{ from: 'lease', to: 'free', money: event.money, requests: 1 }];
    default:
      return unreachable(event);
  }
}

const nothing: PermitMoney = { own: 0, isHeld: false, overrun: 0 };

const placeOf = ({ isHeld }: PermitMoney): Place => (isHeld ? 'hold' : 'used');

function moved(before: PermitMoney, after: PermitMoney, to: 'free' | 'approval'): readonly Entry[] {
  assert(after.own <= before.own, 'only an overrun takes more than was taken at first');
  const entries: readonly Entry[] = [
    { ...ofMoney, from: placeOf(before), to: placeOf(after), money: after.own },
    { ...ofMoney, from: placeOf(before), to, money: before.own - after.own },
    { ...ofMoney, from: 'overrun', to: 'free', money: Math.max(0, before.overrun - after.overrun) },
    { ...ofMoney, from: 'free', to: 'overrun', money: Math.max(0, after.overrun - before.overrun) },
  ];
  return entries.filter(({ from, to: into, money }) => money > 0 && from !== into);
}

const ofMoney = { requests: 0 };

/** The places of what a PERMIT counts. */
const counted: ReadonlySet<Place> = new Set<Place>(['used', 'hold', 'overrun']);

/** By how much these entries change what the PERMIT counts, and what of it an open hold has, in micro-USD. */
export function changeOf(entries: readonly Entry[]): { readonly spent: number; readonly held: number } {
  let spent = 0;
  let held = 0;
  for (const { from, to, money } of entries) {
    spent += (counted.has(to) ? money : 0) - (counted.has(from) ? money : 0);
    held += (to === 'hold' ? money : 0) - (from === 'hold' ? money : 0);
  }
  return { spent, held };
}
