import { ApiError } from '../../shared/errors/api-error.ts';
import type { WalletId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { Wallet, WalletStatus } from '../../shared/model/wallet.ts';
import { renderWallet } from '../../shared/wire/api/wallet.ts';
import { administer } from '../audit/administer.ts';
import type { Caller } from '../http/caller.ts';
import type { TagCondition } from '../http/entity-tag.ts';
import type { SigningDeps } from '../signing/deps.ts';
import { setAsideAnew, tellChange } from './place-wallet.ts';
import {
  countInside,
  findWallet,
  lockTrees,
  lockWallet,
  markDeleted,
  updateWalletRow,
} from './wallet-store.ts';
import { walletTag } from './wallet-tag.ts';

/**
 * Freezing blocks all passports of a wallet and of those below it, as fast as a revocation; unfreezing ends
 * that. A wallet that has the status already is answered as it is.
 */
export async function setWalletStatus(
  deps: SigningDeps,
  caller: Caller,
  { walletId, status }: { readonly walletId: WalletId; readonly status: WalletStatus },
): Promise<Wallet> {
  return administer(deps, caller, async (tx, change) => {
    await lockTrees(tx, caller);
    const before = await lockWallet(tx, caller, walletId);
    if (before === null) throw new ApiError('wallet_not_found');
    if (before.status === status) return { result: before, audited: null };
    const after: Wallet = { ...before, status };
    await updateWalletRow(tx, after);
    await tellChange(change, after);
    return {
      result: after,
      audited: {
        operation: status === 'frozen' ? 'freezeWallet' : 'unfreezeWallet',
        target: walletId,
        before: renderWallet(before),
        after: renderWallet(after),
      },
    };
  });
}

/** Only an empty one: no wallet below it, no passport that may still be used, and no issuer's default. */
export async function deleteWallet(
  deps: SigningDeps,
  caller: Caller,
  { walletId, ifMatch }: { readonly walletId: WalletId; readonly ifMatch: TagCondition },
): Promise<UnixMillis> {
  return administer(deps, caller, async (tx, change) => {
    await lockTrees(tx, caller);
    const wallet = await lockWallet(tx, caller, walletId);
    if (wallet === null) throw new ApiError('wallet_not_found');
    if (!ifMatch(walletTag(wallet))) throw new ApiError('precondition_failed');
    const nowMs = deps.clock.now();
    const { children, passports, issuers } = await countInside(tx, walletId, nowMs);
    if (children + passports + issuers > 0)
      throw new ApiError('invalid_request', {
        message: `The wallet has ${children} wallets and ${passports} passports in it, and is that of ${issuers} issuers: move them, or delete and revoke them first, and give the issuers another one.`,
      });
    await markDeleted(tx, walletId, nowMs);
    await tellChange(change, { ...wallet, status: 'active' });
    const parent = wallet.parentId === null ? null : await findWallet(tx, caller, wallet.parentId);
    if (parent !== null) await setAsideAnew(tx, change, parent, nowMs);
    return {
      result: nowMs,
      audited: { operation: 'deleteWallet', target: walletId, before: renderWallet(wallet), after: null },
    };
  });
}
