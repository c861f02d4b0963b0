import { contentHash } from '../../shared/crypto/content-hash.ts';
import type { Wallet } from '../../shared/model/wallet.ts';
import { renderWallet } from '../../shared/wire/wallet.ts';
import { entityTag } from '../http/entity-tag.ts';

/** Of what a wallet is, its place and status included: not of what is used of it (contract §6). */
export const walletTag = (wallet: Wallet): string => entityTag(contentHash(renderWallet(wallet)));
