/**
 * Room `control-plane/wallets`: budgets of many passports, in trees (contract §6). One file per use case, SQL
 * in `wallet-store.ts`. What a request draws on is in `control-plane/quota/wallet-paths.ts`, and counted by
 * the ledger: a lane of a wallet is one more of its counters (`control-plane/book/lanes.ts`).
 */

import { idDigest } from '../../shared/crypto/id-digest.ts';
import { invalidRequest } from '../../shared/errors/api-error.ts';
import type { Owner } from '../../shared/model/owner.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { type Wallet, walletsPerAccountMax } from '../../shared/model/wallet.ts';
import type { WantedWallet } from '../../shared/wire/api/wallet.ts';
import type { Transaction } from '../base/database.ts';
import type { SigningDeps } from '../signing/deps.ts';
import type { WriteChange } from '../sync/change-transaction.ts';
import { findParent, refuseOverbooked, setAsideAnew } from './place-wallet.ts';
import { countWallets, insertWallet, lockTrees } from './wallet-store.ts';

export async function createWallet(
  tx: Transaction,
  change: WriteChange,
  { random, clock }: Pick<SigningDeps, 'random' | 'clock'>,
  { owner, wanted }: { readonly owner: Owner; readonly wanted: WantedWallet },
): Promise<Wallet> {
  await lockTrees(tx, owner);
  const nowMs = clock.now();
  if ((await countWallets(tx, owner)) >= walletsPerAccountMax)
    throw invalidRequest('name', `An account has at most ${walletsPerAccountMax} wallets; delete one first.`);
  const parent = await findParent(tx, owner, wanted.parentId);
  const walletId = random.newId('wal', nowMs);
  const wallet: Wallet = {
    walletId,
    accountId: owner.accountId,
    mode: owner.mode,
    key: idDigest(walletId),
    name: wanted.name,
    labels: wanted.labels,
    parentId: parent?.walletId ?? null,
    path: [walletId, ...(parent?.path ?? [])],
    limits: wanted.limits,
    share: wanted.share,
    setAside: {},
    alertAt: wanted.alertAt,
    status: 'active',
    createdAtMs: nowMs,
    changedAtMs: 0 as UnixMillis,
  };
  await insertWallet(tx, wallet);
  if (parent !== null) {
    await refuseOverbooked(tx, parent);
    if (wallet.share === 'reserved') await setAsideAnew(tx, change, parent, nowMs);
  }
  return wallet;
}
