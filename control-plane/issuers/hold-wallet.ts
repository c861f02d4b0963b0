import { ApiError } from '../../shared/errors/api-error.ts';
import type { WalletId } from '../../shared/model/ids.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { AskedWallet } from '../../shared/wire/api/passport-issue.ts';
import type { Transaction } from '../base/database.ts';

const ofOwner = (tx: Transaction, { accountId, mode }: Owner, walletId: WalletId) => tx`
  FROM wallets WHERE wallet_id = ${walletId} AND account_id = ${accountId} AND mode = ${mode} AND deleted_at_ms IS NULL`;

const unknown = () => new ApiError('wallet_not_found', { param: 'wallet_id' });

/**
 * Throws `wallet_not_found`. The wallet is held until the transaction ends: it is not deleted meanwhile.
 * Null: none is named.
 */
export async function refuseUnknownWallet(
  tx: Transaction,
  owner: Owner,
  walletId: AskedWallet,
): Promise<void> {
  if (walletId === null) return;
  if (walletId === 'unknown') throw unknown();
  const rows = await tx`SELECT ${ofOwner(tx, owner, walletId)} FOR KEY SHARE`;
  if (rows.length === 0) throw unknown();
}

/**
 * The wallet that is named, before it may be held: what comes before it in the order of locks is written
 * first. Throws `wallet_not_found`.
 */
export async function readNamedWallet(
  tx: Transaction,
  owner: Owner,
  walletId: AskedWallet,
): Promise<WalletId | null> {
  if (walletId === null) return null;
  if (walletId === 'unknown') throw unknown();
  const rows = await tx`SELECT ${ofOwner(tx, owner, walletId)}`;
  if (rows.length === 0) throw unknown();
  return walletId;
}
