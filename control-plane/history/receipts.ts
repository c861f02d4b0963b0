import type { Sealer } from '../../shared/crypto/seal.ts';
import type { ChainId } from '../../shared/model/attestation.ts';
import type { AccountId } from '../../shared/model/ids.ts';
import {
  parseToldHistory,
  type Receipt,
  receiptChainsMax,
  type ToldHistory,
} from '../../shared/wire/sync/receipt.ts';
import type { Position } from '../../shared/wire/sync/sync.ts';

const context = 'agent-trust.receipt.v1';

interface Told {
  readonly accountId: AccountId;
  readonly generation: string;
}

const receiptOf = (sealer: Sealer, told: ToldHistory): Receipt => {
  const text = JSON.stringify(told);
  return { text, mac: sealer.mac(text, context) };
};

/** This position was told, and is committed. */
export const feedsReceipt = (
  sealer: Sealer,
  { accountId, generation }: Told,
  { account, global }: Position,
): Receipt =>
  receiptOf(sealer, {
    account_id: accountId,
    generation,
    feeds: { account: [account.revision, account.mark], global: [global.revision, global.mark] },
  });

/** These heads of chains are committed. */
export function chainReceipts(
  sealer: Sealer,
  { accountId, generation }: Told,
  heads: ReadonlyMap<ChainId, { readonly sequence: number; readonly hash: string | null }>,
): Receipt[] {
  const places = [...heads].map(([chainId, { sequence, hash }]): [string, number, string] => [
    chainId,
    sequence,
    hash ?? '',
  ]);
  const receipts: Receipt[] = [];
  for (let first = 0; first < places.length; first += receiptChainsMax) {
    const chains = places.slice(first, first + receiptChainsMax);
    receipts.push(receiptOf(sealer, { account_id: accountId, generation, chains }));
  }
  return receipts;
}

/** What a receipt says, if this service wrote it for this account; else null. */
export function openReceipt(
  sealer: Sealer,
  { text, mac }: Receipt,
  accountId: AccountId,
): ToldHistory | null {
  if (!sealer.isMacOf(mac, text, context)) return null;
  const told = parseToldHistory(text);
  return told?.account_id === accountId ? told : null;
}
