import { keyset } from '../../shared/crypto/keyset.ts';
import type { AccountId } from '../../shared/model/ids.ts';
import type { HistoryAnswer, ToldHistory } from '../../shared/wire/sync/receipt.ts';
import { globalFeed } from '../../shared/wire/sync/sync.ts';
import type { HistoryReport, SealedEntry } from '../../shared/wire/sync/sync-schema.ts';
import { changeVerifies } from '../../shared/wire/sync/sync-signature.ts';
import type { Transaction } from '../base/database.ts';
import type { SigningDeps } from '../signing/deps.ts';
import { historyOf } from './history.ts';
import { findLosses, lockGeneration, type Missing, noteLosses, readMissing } from './history-store.ts';
import { openReceipt } from './receipts.ts';

/**
 * What else is true once it is known that history went back, in the same transaction. Once per generation.
 */
export type OnRegressed = (tx: Transaction, missing: Missing) => Promise<void>;

/** Whether this service signed the entry. */
function isSignedBy({ ed25519, signingKeys }: Pick<SigningDeps, 'ed25519' | 'signingKeys'>) {
  const keys = keyset(
    ed25519,
    signingKeys.all().filter(({ purpose, compromised }) => purpose === 'sync' && !compromised),
  );
  return (entry: SealedEntry): boolean => changeVerifies(keys, entry);
}

/**
 * Compares what a sidecar was told with what is there. Only receipts count that this service made for the
 * sidecar's account, and changes of its feeds that this service signed, so nobody can make a loss up. A
 * receipt is about committed state, so one of this generation, or of one that this database never had, names
 * a loss or is true. What an earlier generation lacks was settled by the recovery that ended it.
 */
export async function takeReport(
  deps: Pick<SigningDeps, 'sql' | 'sealer' | 'ed25519' | 'signingKeys'>,
  accountId: AccountId,
  { receipts, entries }: HistoryReport,
  onRegressed: OnRegressed,
): Promise<HistoryAnswer> {
  const history = historyOf(deps.sql);
  const { current, earlier } = await history.generations();
  const told = receipts.flatMap((receipt): ToldHistory[] => {
    const opened = openReceipt(deps.sealer, receipt, accountId);
    return opened === null || earlier.includes(opened.generation) ? [] : [opened];
  });
  const shown = entries.filter(({ feed_id }) => feed_id === accountId || feed_id === globalFeed);
  const losses = await findLosses(deps.sql, { accountId, told, isSigned: isSignedBy(deps), entries: shown });
  if (losses.heads.length + losses.places.length > 0) {
    await deps.sql.begin(async (tx) => {
      const { current: now, number } = await lockGeneration(tx);
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
