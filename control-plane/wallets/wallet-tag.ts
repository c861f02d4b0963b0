import { contentHash } from '../../shared/crypto/content-hash.ts';
import type { Wallet } from '../../shared/model/wallet.ts';
import { renderWallet } from '../../shared/wire/api/wallet.ts';
import { entityTag } from '../http/entity-tag.ts';

/**
 * Of what a wallet is, its parent and status included: neither of what is above that, so that a move changes
 * one wallet, nor of what is used (contract §6).
 */
export function walletTag(wallet: Wallet): string {
  const { path: _, ...own } = renderWallet(wallet);
  return entityTag(contentHash(own));
}
