import type { UnixMillis } from '../../shared/model/time.ts';
import { windowKey } from '../../shared/quota/window.ts';
import type { Transaction } from '../deps.ts';
import type { HeldUnits } from '../leases/held-units.ts';
import { freeHold } from '../leases/hold.ts';
import type { StoredApproval } from './approval-store.ts';

/**
 * Gives the money of approvals that came to nothing back to the ledger. Whoever calls this has locked the approvals and writes their last state in
 * the same transaction, so that it happens once. Quota windows stay locked to the end of it: this is its last statement.
 */
export async function freeHolds(
  tx: Transaction,
  approvals: readonly StoredApproval[],
  nowMs: UnixMillis,
): Promise<void> {
  // Many approvals may hold money of the same window, and the ledger takes each window once.
  const byWindow = new Map<string, HeldUnits>();
  for (const held of approvals.flatMap(({ holds }) => holds)) {
    const name = windowKey(held.counter, { name: held.window, startsAtMs: held.startsAtMs });
    byWindow.set(name, { ...held, units: held.units + (byWindow.get(name)?.units ?? 0) });
  }
  await freeHold(tx, [...byWindow.values()], nowMs);
}
