import type { AppendedRecord } from '../attestations/deps.ts';
import type { Transaction } from '../base/database.ts';

/**
 * Keeps which chains have records that name a wallet. The chains are locked, so no other transaction adds the
 * same rows.
 */
export async function keepWalletChains(
  tx: Transaction,
  appended: readonly Pick<AppendedRecord, 'attestation' | 'chain'>[],
): Promise<void> {
  const pairs = new Map<string, { readonly walletId: string; readonly chain: number }>();
  for (const { attestation, chain } of appended) {
    const { walletId } = attestation;
    if (walletId !== null) pairs.set(`${walletId} ${chain}`, { walletId, chain });
  }
  if (pairs.size === 0) return;
  const rows = [...pairs.values()];
  await tx`
    INSERT INTO wallet_chains (wallet_id, chain)
    SELECT wallet_id, chain FROM unnest(
      ${rows.map(({ walletId }) => walletId)}::text[],
      ${rows.map(({ chain }) => chain)}::int[]
    ) AS new (wallet_id, chain)
    ON CONFLICT DO NOTHING`;
}
