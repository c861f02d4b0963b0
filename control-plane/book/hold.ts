import type { LeaseReturn } from '../../shared/wire/sync/lease-call.ts';
import type { Transaction } from '../base/database.ts';
import { together } from '../storage/together.ts';
import { type HeldUnits, heldUnits } from './held-units.ts';
import { type HolderName, holderHas, lockHolder, lockLeases, takeFromHolder } from './holder-store.ts';

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
