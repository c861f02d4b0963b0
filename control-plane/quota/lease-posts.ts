import type { AttestationRecord } from '../../shared/model/attestation.ts';
import type { Transaction } from '../base/database.ts';

/** A record with the leases that its decision took from (SpooledRecord.took). */
export interface TakingRecord {
  readonly record: Pick<AttestationRecord, 'source' | 'amountMicroUsd'>;
  readonly took: readonly number[];
}

/**
 * Notes what these PERMITs took: one unit of a lease of requests, the amount of a lease of money. To be
 * called in the transaction that makes the records true, so that each counts once. A lease that is gone, or
 * is of another sidecar than the record, is passed over: there is nothing that could be given back.
 *
 * Waits only for an EpochEnd of the same holder, and locks nothing that others wait for: rows are only
 * added.
 */
export async function postUnits(tx: Transaction, records: readonly TakingRecord[]): Promise<void> {
  const posts = new Map<string, { source: string; leaseId: number; requests: number; money: number }>();
  for (const { record, took } of records) {
    for (const leaseId of took) {
      const name = `${record.source} ${leaseId}`;
      const post = posts.get(name) ?? { source: record.source, leaseId, requests: 0, money: 0 };
      post.requests += 1;
      post.money += record.amountMicroUsd ?? 0;
      posts.set(name, post);
    }
  }
  if (posts.size === 0) return;
  const rows = [...posts.values()];
  await tx`
    INSERT INTO lease_posts (lease_id, units)
    SELECT lease_id, CASE WHEN split_part(l.counter, ':', 1) IN ('gate_spend', 'passport_spend') THEN money ELSE requests END
    FROM unnest(
      ${rows.map(({ source }) => source)}::text[],
      ${rows.map(({ leaseId }) => leaseId)}::bigint[],
      ${rows.map(({ requests }) => requests)}::bigint[],
      ${rows.map(({ money }) => money)}::bigint[]
    ) AS p (source, lease_id, requests, money)
    JOIN quota_leases l USING (lease_id)
    JOIN lease_holders h ON h.holder = l.holder AND h.sidecar_id = p.source`;
}

/**
 * Subtracts what was posted from what the holder may still give back, counts it as used, and removes the
 * posts. No lease ever counts more than it was granted. The holder's row is locked.
 */
export async function foldPosts(tx: Transaction, holder: string): Promise<void> {
  // In the order in which voids lock them, which know no holder.
  await tx`SELECT FROM quota_leases WHERE holder = ${holder} ORDER BY lease_id FOR NO KEY UPDATE`;
  await tx`
    WITH folded AS (
      DELETE FROM lease_posts p USING quota_leases l WHERE l.lease_id = p.lease_id AND l.holder = ${holder}
      RETURNING p.lease_id, p.units
    ), summed AS (
      SELECT lease_id, sum(units)::bigint AS units FROM folded GROUP BY lease_id
    )
    UPDATE quota_leases l SET units = l.units - least(l.units, s.units), used = l.used + least(l.units, s.units)
    FROM summed s WHERE l.lease_id = s.lease_id`;
}
