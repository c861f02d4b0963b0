import type { AttestationRecord } from '../../shared/model/attestation.ts';
import { moneyKinds } from '../../shared/quota/counter.ts';
import type { Transaction } from '../base/database.ts';

/** A record and the leases its decision took from (SpooledRecord.took). */
export interface TakingRecord {
  readonly record: Pick<AttestationRecord, 'source' | 'amountMicroUsd'>;
  readonly took: readonly number[];
}

/**
 * Posts what these PERMITs took: one unit of a request lease, the amount of a money lease. Call it in the
 * transaction that stores the records, so that each counts once. Skips a lease that is gone or belongs to
 * another sidecar, because it has no units to return.
 *
 * Waits only for an EpochEnd of the same holder. Only adds rows, so it blocks no other transaction.
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
    SELECT lease_id, CASE WHEN split_part(l.counter, ':', 1) = ANY(${[...moneyKinds]}::text[]) THEN money ELSE requests END
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
 * Moves posted units from returnable to used, and removes the posts. No lease ever counts more than it was
 * granted. The holder's row is locked.
 */
export async function foldPosts(tx: Transaction, holder: string): Promise<void> {
  // In the lock order of voids, which do not lock holders.
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
