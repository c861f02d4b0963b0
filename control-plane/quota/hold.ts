import { limits } from '../../shared/model/limits.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { windowAt, windowKey } from '../../shared/quota/window.ts';
import type { LeaseReturn } from '../../shared/wire/sync/lease-call.ts';
import type { Database, Transaction } from '../base/database.ts';
import { together } from '../storage/together.ts';
import { type HeldUnits, heldUnits } from './held-units.ts';
import { type HolderName, holderHas, lockHolder, lockLeases, takeFromHolder } from './holder-store.ts';
import { moveUnits } from './ledger.ts';

/**
 * Passes units from a holder to an approval: the ledger still counts them, and the holder can no longer
 * return them. Returns the units the holder really had, in the order of `held`: fewer than named, or 0, if
 * the ledger knows of fewer; then the missing units may permit nothing. Units of an ended window may be
 * passed on and are worth nothing. No window may occur twice.
 *
 * Locks the holder until the transaction ends, so it waits for a lease call in flight and must precede quota
 * windows. Skips the query if `held` is empty.
 */
export async function transferFromHolder(
  tx: Transaction,
  from: HolderName,
  held: readonly LeaseReturn[],
): Promise<readonly HeldUnits[]> {
  if (held.length === 0) return [];
  const wanted = held.map(heldUnits);
  const [known] = await together([
    () => lockHolder(tx, from),
    () => lockLeases(tx, from, wanted.map(windowOf)),
  ]);
  const taken = known === null ? [] : await takeFromHolder(tx, from.holder, wanted);
  return wanted.map((each, place) => ({ ...each, units: taken[place] ?? 0 }));
}

/**
 * Whether the holder really has all of these units. Locks the holder and the leases until the transaction
 * ends, so the answer stays true. Comes before approvals in the lock order. Skips the query if `held` is
 * empty.
 */
export async function lockHeld(
  tx: Transaction,
  from: HolderName,
  held: readonly LeaseReturn[],
): Promise<boolean> {
  if (held.length === 0) return true;
  const units = held.map(heldUnits);
  const [known, , has] = await together([
    () => lockHolder(tx, from),
    () => lockLeases(tx, from, units.map(windowOf)),
    () => holderHas(tx, from.holder, units),
  ]);
  return known !== null && has;
}

const windowOf = ({ counter, window: name, startsAtMs }: HeldUnits) => ({ counter, name, startsAtMs });

/**
 * Frees units that approvals held or a void released. The ledger cannot tell a repeat from a second hold, so
 * this must run in the transaction that ends the hold. An ended window has nothing left to free. Locks quota
 * windows in the order of their key, so it is one call per transaction and its last statements. When in
 * doubt, keep the units; they are
 * free again when their window ends.
 */
export async function freeUnits(
  tx: Database | Transaction,
  freed: readonly HeldUnits[],
  nowMs: UnixMillis,
): Promise<void> {
  // Several holds may share a window, but the ledger accepts each window once.
  const byWindow = new Map<string, HeldUnits>();
  for (const held of freed) {
    const name = windowKey(held.counter, { name: held.window, startsAtMs: held.startsAtMs });
    byWindow.set(name, { ...held, units: held.units + (byWindow.get(name)?.units ?? 0) });
  }
  const inOrder = [...byWindow.values()].sort((one, other) => (nameOf(one) < nameOf(other) ? -1 : 1));
  const moves = inOrder.map(({ counter, window, startsAtMs, units }) => ({
    counter,
    window: windowAt(window, startsAtMs),
    unitsBack: units,
    ask: null,
  }));
  for (let from = 0; from < moves.length; from += limits.quotaWindowsPerCallMax)
    await moveUnits(tx, moves.slice(from, from + limits.quotaWindowsPerCallMax), nowMs);
}

const nameOf = ({ counter, window, startsAtMs }: HeldUnits): string =>
  `${counter}\0${window}\0${String(startsAtMs).padStart(16, '0')}`;
