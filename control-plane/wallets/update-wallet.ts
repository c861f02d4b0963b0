import { isDeepStrictEqual } from 'node:util';
import type { Static } from 'typebox';
import { ApiError } from '../../shared/errors/api-error.ts';
import type { WalletId } from '../../shared/model/ids.ts';
import type { Wallet } from '../../shared/model/wallet.ts';
import { refuseChanges } from '../../shared/wire/api/read-only.ts';
import {
  applyWalletPatch,
  renderWallet,
  type WalletPatch,
  walletReadOnly,
} from '../../shared/wire/api/wallet.ts';
import { administer } from '../audit/administer.ts';
import { alertOnNewLimits } from '../book/alert-on-spend.ts';
import type { Caller } from '../http/caller.ts';
import type { TagCondition } from '../http/entity-tag.ts';
import { leavePlace } from '../passports/leave-place.ts';
import type { SigningDeps } from '../signing/deps.ts';
import { findParent, refuseOverbooked, setAsideAnew, tellChange } from './place-wallet.ts';
import { findWallet, lockTrees, lockWallet, movePaths, updateWalletRow } from './wallet-store.ts';
import { walletTag } from './wallet-tag.ts';

/**
 * Applies a merge patch. What is lowered or moved binds units that are not leased yet; what was taken stays
 * where it was taken from.
 */
export async function updateWallet(
  deps: SigningDeps,
  caller: Caller,
  {
    walletId,
    patch,
    ifMatch,
  }: {
    readonly walletId: WalletId;
    readonly patch: Static<typeof WalletPatch>;
    readonly ifMatch: TagCondition;
  },
): Promise<Wallet> {
  return administer(deps, caller, async (tx, change) => {
    await lockTrees(tx, caller);
    const current = await lockWallet(tx, caller, walletId);
    if (current === null) throw new ApiError('wallet_not_found');
    if (!ifMatch(walletTag(current))) throw new ApiError('precondition_failed');
    refuseChanges(patch, renderWallet(current), walletReadOnly);
    const wanted = applyWalletPatch(patch, current);
    const isMoved = wanted.parentId !== current.parentId;
    const parent = await findParent(tx, caller, wanted.parentId, isMoved ? current : null);
    const { name, labels, limits, share, alertAt } = wanted;
    const place = {
      parentId: parent?.walletId ?? null,
      path: [walletId, ...(parent?.path ?? [])],
      limits,
      share,
    };
    const isElsewhere = !isDeepStrictEqual(place, {
      parentId: current.parentId,
      path: [...current.path],
      limits: current.limits,
      share: current.share,
    });
    const nowMs = deps.clock.now();
    const patched: Wallet = {
      ...current,
      ...place,
      name,
      labels,
      alertAt,
      changedAtMs: isElsewhere ? nowMs : current.changedAtMs,
    };
    if (isDeepStrictEqual(patched, current)) return { result: current, audited: null };
    await updateWalletRow(tx, patched);
    await refuseOverbooked(tx, patched);
    if (isMoved) {
      await leavePlace(tx, walletId, { parentId: current.parentId, nowMs });
      await movePaths(tx, walletId, parent?.path ?? []);
    }
    if (parent !== null) await refuseOverbooked(tx, parent);
    const wasAlertedAt = [current.limits, current.alertAt];
    if (!isDeepStrictEqual([limits, alertAt], wasAlertedAt)) await alertOnNewLimits(tx, deps, patched, nowMs);
    if (isElsewhere) {
      await tellChange(change, patched);
      const before =
        isMoved && current.parentId !== null ? await findWallet(tx, caller, current.parentId) : null;
      for (const above of [before, parent]) if (above !== null) await setAsideAnew(tx, change, above, nowMs);
    }
    return {
      result: patched,
      audited: {
        operation: 'updateWallet',
        target: walletId,
        before: renderWallet(current),
        after: renderWallet(patched),
      },
    };
  });
}
