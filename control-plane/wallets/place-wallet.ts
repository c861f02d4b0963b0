import { ApiError, invalidRequest } from '../../shared/errors/api-error.ts';
import type { IdDigest } from '../../shared/model/id-digest.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import {
  type Wallet,
  type WalletLimits,
  walletDepthMax,
  walletLimitNames,
} from '../../shared/model/wallet.ts';
import type { WantedWallet } from '../../shared/wire/api/wallet.ts';
import { globalFeed } from '../../shared/wire/sync/sync.ts';
import type { Transaction } from '../base/database.ts';
import type { WriteChange } from '../sync/change-transaction.ts';
import { findWallet, heightOf, sumSetAside, writeSetAside } from './wallet-store.ts';

/**
 * The wallet above one that is made or moved; null: it is a root. `moved`: with all below it. Throws for a
 * circle and for a sixth level.
 */
export async function findParent(
  tx: Transaction,
  owner: Owner,
  parentId: WantedWallet['parentId'],
  moved: Wallet | null = null,
): Promise<Wallet | null> {
  if (parentId === null) return null;
  const parent = parentId === 'unknown' ? null : await findWallet(tx, owner, parentId);
  if (parent === null) throw new ApiError('wallet_not_found', { param: 'parent_wallet_id' });
  if (moved !== null && parent.path.includes(moved.walletId))
    throw invalidRequest('parent_wallet_id', 'A wallet cannot be put below itself.');
  const height = moved === null ? 1 : await heightOf(tx, moved);
  if (parent.path.length + height > walletDepthMax)
    throw invalidRequest('parent_wallet_id', `Wallets are at most ${walletDepthMax} deep.`);
  return parent;
}

/** Throws where children have set aside more than the wallet has, or of a limit that it has no more. */
export async function refuseOverbooked(
  tx: Transaction,
  { walletId, limits }: Pick<Wallet, 'walletId' | 'limits'>,
): Promise<void> {
  const sums = await sumSetAside(tx, walletId);
  const name = walletLimitNames.find(
    (each) => (sums[each] ?? 0) > (limits[each] ?? Number.POSITIVE_INFINITY),
  );
  if (name === undefined) return;
  throw invalidRequest(
    `limits.${name}`,
    `The reserved limits below a wallet may not sum to more than its own: lower ${name} of a child, or raise that of its parent.`,
  );
}

/** Sums what children set aside of this wallet, and tells sidecars that its pot is another one. */
export async function setAsideAnew(
  tx: Transaction,
  change: WriteChange,
  wallet: Pick<Wallet, 'walletId' | 'key' | 'status' | 'setAside'>,
  nowMs: UnixMillis,
): Promise<void> {
  const sums = await sumSetAside(tx, wallet.walletId);
  if (isSame(sums, wallet.setAside)) return;
  await writeSetAside(tx, wallet.walletId, sums, nowMs);
  await tellChange(change, wallet);
}

const isSame = (one: WalletLimits, other: WalletLimits): boolean =>
  walletLimitNames.every((name) => one[name] === other[name]);

/** A wallet that sidecars may know is another one by now: they ask again, and stop where it is frozen. */
export const tellChange = (
  change: WriteChange,
  { key, status }: { readonly key: IdDigest; readonly status: Wallet['status'] },
) =>
  change(globalFeed, {
    kind: 'issuer.standing',
    body: { issuer: key, standing: status === 'frozen' ? 'suspended' : 'active', of: 'wallet' },
  });
