import type { SidecarId } from '../../shared/model/ids.ts';
import { moneyKinds } from '../../shared/quota/counter.ts';
import type { Transaction } from '../base/database.ts';
import { databaseNowMs } from '../storage/database-clock.ts';
import type { HeldUnits } from './held-units.ts';
import { postedUnits } from './holder-store.ts';
import { quotaLimits } from './limits.ts';

/** Units that one PERMIT took from a sidecar's leases and did not use after all. */
export interface UnusedTake {
  readonly sidecarId: SidecarId;
  readonly took: readonly number[];
  readonly amountMicroUsd: number | null;
  /** The record was committed, so the units count as used. */
  readonly isPosted: boolean;
}

/** A lease, and the sidecar that claims to own it. */
interface NamedLease {
  readonly leaseId: number;
  readonly sidecarId: SidecarId;
}

/**
 * Takes units from leases of sidecars and returns them, for the caller to give back to the ledger; a window
 * may come twice. Skips a lease of another sidecar; its units stay counted. Posted units come out of the used
 * units of that lease, others out of its unused units, never more than there are: a lying sidecar cannot free
 * units given to others. A lease that is gone has left its used units, and no others: the unused ones went
 * back with it, or stay counted.
 *
 * Locks leases in the order of ids, only a sidecar's own, then former leases likewise; before approvals,
 * chains and quota windows. `alsoLock`: leases that the caller takes from afterwards.
 */
export async function releaseLeases(
  tx: Transaction,
  takes: readonly UnusedTake[],
  alsoLock: readonly NamedLease[] = [],
): Promise<readonly HeldUnits[]> {
  const sums = new Map<
    string,
    {
      readonly leaseId: number;
      readonly sidecarId: SidecarId;
      requests: number;
      money: number;
      requestsPosted: number;
      moneyPosted: number;
    }
  >();
  for (const { sidecarId, took, amountMicroUsd, isPosted } of takes) {
    for (const leaseId of took) {
      const key = `${leaseId} ${sidecarId}`;
      const none = { requests: 0, money: 0, requestsPosted: 0, moneyPosted: 0 };
      const sum = sums.get(key) ?? { leaseId, sidecarId, ...none };
      sum[isPosted ? 'requestsPosted' : 'requests'] += 1;
      sum[isPosted ? 'moneyPosted' : 'money'] += amountMicroUsd ?? 0;
      sums.set(key, sum);
    }
  }
  if (sums.size === 0) return [];
  const rows = [...sums.values()];
  const ids = rows.map(({ leaseId }) => leaseId);
  const named: readonly NamedLease[] = [...rows, ...alsoLock];
  await tx`
    SELECT FROM quota_leases l JOIN lease_holders h USING (holder)
    WHERE l.lease_id = ANY(${named.map(({ leaseId }) => leaseId)}::bigint[])
      AND (l.lease_id, h.sidecar_id) IN (
        SELECT * FROM unnest(
          ${named.map(({ leaseId }) => leaseId)}::bigint[],
          ${named.map(({ sidecarId }) => sidecarId)}::text[]))
    ORDER BY l.lease_id FOR UPDATE OF l`;
  const ofLeases = await tx<HeldUnits[]>`
    WITH asked AS (
      SELECT l.lease_id, l.counter, l.window_name, l.starts_at_ms,
        greatest(l.units - ${postedUnits(tx)}, 0) AS unused,
        greatest(l.used + least(l.units, ${postedUnits(tx)}), 0) AS used,
        CASE WHEN is_money THEN money ELSE requests END AS unused_taken,
        CASE WHEN is_money THEN money_posted ELSE requests_posted END AS used_taken
      FROM unnest(
        ${ids}::bigint[],
        ${rows.map(({ sidecarId }) => sidecarId)}::text[],
        ${rows.map(({ requests }) => requests)}::bigint[],
        ${rows.map(({ money }) => money)}::bigint[],
        ${rows.map(({ requestsPosted }) => requestsPosted)}::bigint[],
        ${rows.map(({ moneyPosted }) => moneyPosted)}::bigint[]
      ) AS a (lease_id, sidecar_id, requests, money, requests_posted, money_posted)
      JOIN quota_leases l USING (lease_id)
      JOIN lease_holders h ON h.holder = l.holder AND h.sidecar_id = a.sidecar_id,
      LATERAL (SELECT split_part(l.counter, ':', 1) = ANY(${[...moneyKinds]}::text[]) AS is_money) AS kind
    ), freed AS (
      SELECT *, least(unused_taken, unused) AS of_unused, least(used_taken, used) AS of_used FROM asked
    ), written AS (
      UPDATE quota_leases l SET units = l.units - of_unused, used = l.used - of_used FROM freed f
      WHERE l.lease_id = f.lease_id
    )
    SELECT counter, window_name AS window, starts_at_ms AS "startsAtMs", sum(of_unused + of_used)::bigint AS units
    FROM freed GROUP BY counter, window_name, starts_at_ms HAVING sum(of_unused + of_used) > 0`;
  return [...ofLeases, ...(await releaseFormer(tx, takes))];
}

/**
 * A lease that is gone by now is here: a holder that goes waits for those who have locked its leases. Settled
 * PERMITs and those on record have named leases of their own sidecar.
 */
async function releaseFormer(tx: Transaction, takes: readonly UnusedTake[]): Promise<readonly HeldUnits[]> {
  const sums = new Map<number, { requests: number; money: number }>();
  for (const { took, amountMicroUsd, isPosted } of takes) {
    for (const leaseId of isPosted ? took : []) {
      const sum = sums.get(leaseId) ?? { requests: 0, money: 0 };
      sum.requests += 1;
      sum.money += amountMicroUsd ?? 0;
      sums.set(leaseId, sum);
    }
  }
  if (sums.size === 0) return [];
  const ids = [...sums.keys()];
  const rows = [...sums.values()];
  await tx`
    SELECT FROM former_leases WHERE lease_id = ANY(${ids}::bigint[]) ORDER BY lease_id FOR UPDATE`;
  return tx<HeldUnits[]>`
    WITH freed AS (
      SELECT f.lease_id, f.counter, f.window_name, f.starts_at_ms,
        least(f.used, CASE WHEN is_money THEN money ELSE requests END) AS units
      FROM unnest(
        ${ids}::bigint[],
        ${rows.map(({ requests }) => requests)}::bigint[],
        ${rows.map(({ money }) => money)}::bigint[]
      ) AS a (lease_id, requests, money)
      JOIN former_leases f USING (lease_id),
      LATERAL (SELECT split_part(f.counter, ':', 1) = ANY(${[...moneyKinds]}::text[]) AS is_money) AS kind
    ), written AS (
      UPDATE former_leases f SET used = f.used - freed.units FROM freed WHERE f.lease_id = freed.lease_id
    )
    SELECT counter, window_name AS window, starts_at_ms AS "startsAtMs", units FROM freed WHERE units > 0`;
}

/** Removes former leases of windows that have ended. Skips locked rows. */
export async function trimFormerLeases(tx: Transaction): Promise<void> {
  await tx`
    DELETE FROM former_leases WHERE lease_id = ANY (ARRAY(
      SELECT lease_id FROM former_leases
      WHERE ends_at_ms < ${databaseNowMs(tx)} - ${quotaLimits.quotaWindowKeptMs}::bigint
      ORDER BY ends_at_ms LIMIT ${quotaLimits.quotaWindowsPerTrimMax} FOR UPDATE SKIP LOCKED))`;
}
