import type { UnixMillis } from '../../shared/model/time.ts';
import { type CounterKey, counterKey } from '../../shared/quota/counter.ts';
import type { WindowName } from '../../shared/quota/window.ts';
import { counterOfLease, type LeaseReturn } from '../../shared/wire/sync/lease-call.ts';

/**
 * Units of one calendar window that a holder or an approval has: no longer free for others, until
 * they come back or the window ends.
 */
export interface HeldUnits {
  readonly counter: CounterKey;
  readonly window: WindowName;
  readonly startsAtMs: UnixMillis;
  readonly units: number;
}

/** The form in which a sidecar names its units. */
export const heldUnits = (given: LeaseReturn): HeldUnits => ({
  counter: counterKey(counterOfLease(given)),
  window: given.window,
  startsAtMs: given.starts_at_ms,
  units: given.units,
});

/** Where a PERMIT took units: a lease of its sidecar, or a window of the ledger. */
export type UnitsSource = number | readonly [counter: CounterKey, window: WindowName, startsAtMs: UnixMillis];

export const sourceOf = ({ counter, window, startsAtMs }: Omit<HeldUnits, 'units'>): UnitsSource => [
  counter,
  window,
  startsAtMs,
];

export const unitsFrom = (
  [counter, window, startsAtMs]: Exclude<UnitsSource, number>,
  units: number,
): HeldUnits => ({ counter, window, startsAtMs, units });
