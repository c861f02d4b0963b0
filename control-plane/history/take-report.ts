import type { AccountId } from '../../shared/model/ids.ts';
import type { HistoryAnswer, Receipt, ToldHistory } from '../../shared/wire/receipt.ts';
import type { Transaction } from '../base/database.ts';
import type { BaseDeps } from '../base/deps.ts';
import { historyOf } from './history.ts';
import { findLosses, type Missing, noteLosses, readGenerations, readMissing } from './history-store.ts';
import { openReceipt } from './receipts.ts';

/** What else is true once it is known that history went back, in the same transaction. Once per generation. */
export type OnRegressed = (tx: Transaction, missing: Missing) => Promise<void>;

/**
 * Compares what a sidecar was told with what is there. Only receipts count that this service made for the
 * sidecar's account, so nobody can make a loss up. A receipt is about committed state, so one of this
 * generation, or of one that this database never had, names a loss or is true. What an earlier generation
 * lacks was settled by the recovery that ended it.
 */
export async function takeReport(
  deps: Pick<BaseDeps, 'sql' | 'sealer' | 'logger'>,
  accountId: AccountId,
  receipts: readonly Receipt[],
  onRegressed: OnRegressed,
): Promise<HistoryAnswer> {
  const history = historyOf(deps.sql);
  const { current, earlier } = await history.generations();
  const told = receipts.flatMap((receipt): ToldHistory[] => {
    const opened = openReceipt(deps.sealer, receipt, accountId);
    return opened === null || earlier.includes(opened.generation) ? [] : [opened];
  });
  const losses = await findLosses(deps.sql, accountId, told);
  if (losses.heads.length + losses.places.length > 0) {
    await deps.sql.begin(async (tx) => {
      // Reports wait for each other, and for a recovery.
      await tx`SELECT FROM generations WHERE number = (SELECT max(number) FROM generations) FOR UPDATE`;
      const { current: now, number } = await readGenerations(tx);
      if (now !== current) return;
      const before = await readMissing(tx);
      await noteLosses(tx, number, losses);
      const missing = await readMissing(tx);
      if (before === null && missing !== null) await onRegressed(tx, missing);
    });
    await history.refresh();
  }
  return { generation: current, state: history.isRegressed ? 'regressed' : 'whole' };
}
