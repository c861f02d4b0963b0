import type { UnixMillis } from '../../shared/model/time.ts';
import { windowAt, windowKey } from '../../shared/quota/window.ts';
import type { LeaseReturn } from '../../shared/wire/lease-call.ts';
import type { Database, Transaction } from '../base/database.ts';
import { type HeldUnits, heldUnits } from './held-units.ts';
import { type HolderName, holderHas, lockHolder, lockLeases, takeFromHolder } from './holder-store.ts';
import { moveUnits } from './ledger.ts';

/**
 * Passes units from a holder to an approval: the ledger counts them as before, and the holder can no longer
 * give them back. Answers what really was the holder's, in the order of `held`, each window with its units:
 * fewer than named, or 0, where the ledger knows of fewer, and then nothing may be permitted on their
 * strength. Units of a window that has ended may be passed on and are worth nothing. No window may occur
 * twice.
 *
 * Locks the holder until the transaction ends, and waits while that holder has a lease call in flight.
 * Therefore before any quota windows. Nothing is asked of a holder for nothing.
 */
export async function transferFromHolder(
  tx: Transaction,
  from: HolderName,
  held: readonly LeaseReturn[],
): Promise<readonly HeldUnits[]> {
  if (held.length === 0) return [];
  const wanted = held.map(heldUnits);
  const isKnown = (await lockHolder(tx, from)) !== null;
  if (isKnown) await lockLeases(tx, from.holder, wanted.map(windowOf));
  const taken = isKnown ? await takeFromHolder(tx, from.holder, wanted) : [];
  return wanted.map((each, place) => ({ ...each, units: taken[place] ?? 0 }));
}

/**
 * Whether all of this is really the holder's, which is locked with these leases until the transaction ends,
 * so that it stays so. Before approvals, in the order of the locks. Nothing is asked of a holder for nothing.
 */
export async function lockHeld(
  tx: Transaction,
  from: HolderName,
  held: readonly LeaseReturn[],
): Promise<boolean> {
  if (held.length === 0) return true;
  if ((await lockHolder(tx, from)) === null) return false;
  const units = held.map(heldUnits);
  await lockLeases(tx, from.holder, units.map(windowOf));
  return holderHas(tx, from.holder, units);
}

const windowOf = ({ counter, window: name, startsAtMs }: HeldUnits) => ({ counter, name, startsAtMs });

/**
 * Frees units that approvals held or a void released, once: the ledger cannot tell a repeat from a second
 * hold, so this belongs into the transaction that ends what held them. Of a window that has ended nothing is
 * left to free. Locks quota windows: one call for all that the transaction frees, its last statement. When in
 * doubt, keep the units; they are free again when their window ends.
 */
export async function freeUnits(
  tx: Database | Transaction,
  freed: readonly HeldUnits[],
  nowMs: UnixMillis,
): Promise<void> {
  // Several may have held units of the same window, and the ledger takes each window once.
  const byWindow = new Map<string, HeldUnits>();
  for (const held of freed) {
    const name = windowKey(held.counter, { name: held.window, startsAtMs: held.startsAtMs });
    byWindow.set(name, { ...held, units: held.units + (byWindow.get(name)?.units ?? 0) });
  }
  const moves = [...byWindow.values()].map(({ counter, window, startsAtMs, units }) => ({
    counter,
    window: windowAt(window, startsAtMs),
    unitsBack: units,
    ask: null,
  }));
  await moveUnits(tx, moves, nowMs);
}
