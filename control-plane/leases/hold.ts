import type { UnixMillis } from '../../shared/model/time.ts';
import { windowAt } from '../../shared/quota/window.ts';
import type { LeaseReturn } from '../../shared/wire/lease-call.ts';
import type { Database, Transaction } from '../deps.ts';
import { type HeldUnits, heldUnits } from './held-units.ts';
import { type HolderName, lockHolder, takeFromHolder } from './holder-store.ts';
import { moveUnits } from './ledger.ts';

/**
 * Passes units from a holder to an approval: the ledger counts them as before, and the holder can no longer give them back. Answers what really was
 * the holder's, in the order of `held`, each window with its units: fewer than named, or 0, where the ledger knows of fewer, and then nothing may be
 * permitted on their strength. Units of a window that has ended may be passed on and are worth nothing. No window may occur twice.
 *
 * Locks the holder until the transaction ends, and waits while that holder has a lease call under way. Therefore before any quota windows.
 */
export async function transferFromHolder(
  tx: Transaction,
  from: HolderName,
  held: readonly LeaseReturn[],
): Promise<readonly HeldUnits[]> {
  const wanted = held.map(heldUnits);
  const isKnown = (await lockHolder(tx, from)) !== null;
  const taken = isKnown ? await takeFromHolder(tx, from.holder, wanted) : [];
  return wanted.map((each, place) => ({ ...each, units: taken[place] ?? 0 }));
}

/**
 * Frees what approvals held, once: the ledger cannot tell a repeat from a second hold, so this belongs into the transaction that ends the
 * approvals. Of a window that has ended nothing is left to free. Locks quota windows: one call for all approvals that the transaction ends, its last
 * statement, and each window in it once. When in doubt, keep the units; they are free again when their window ends.
 */
export async function freeHold(
  sql: Database | Transaction,
  held: readonly HeldUnits[],
  nowMs: UnixMillis,
): Promise<void> {
  const moves = held.map(({ counter, window, startsAtMs, units }) => ({
    counter,
    window: windowAt(window, startsAtMs),
    unitsBack: units,
    ask: null,
  }));
  await moveUnits(sql, moves, nowMs);
}
