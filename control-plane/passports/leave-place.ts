import type { PassportId, WalletId } from '../../shared/model/ids.ts';
import { dayMs, type UnixMillis } from '../../shared/model/time.ts';
import type { Transaction } from '../base/database.ts';
import { together } from '../storage/together.ts';

/** Longer than a record waits in a spool. */
const keptMs = 30 * dayMs;

/** Notes where a passport or a wallet was until it is put elsewhere, under the lock of its row. */
export async function leavePlace(
  tx: Transaction,
  childId: PassportId | WalletId,
  { parentId, nowMs }: { readonly parentId: WalletId | null; readonly nowMs: UnixMillis },
): Promise<void> {
  await together([
    () => tx`
      INSERT INTO former_places (child_id, parent_id, ended_at_ms) VALUES (${childId}, ${parentId}, ${nowMs})`,
    () => tx`DELETE FROM former_places WHERE child_id = ${childId} AND ended_at_ms < ${nowMs - keptMs}`,
  ]);
}
