import type { SidecarId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { Transaction } from '../base/database.ts';
import type { HeldUnits } from './held-units.ts';
import { freeUnits } from './post.ts';

/**
 * Returns the unused units of an epoch's leases after its process has ended. The row of the epoch is locked,
 * and all of its records are stored, including every answered PERMIT.
 *
 * Each unit leased to a holder of the epoch is in one of these places, and only the last is returned:
 *   given back, or passed to an approval   in its lease no more
 *   taken by a PERMIT in the spool         posted when its record was taken; a number that was given up
 *                                          (VoidRun) or a PERMIT that does not say what it took makes the
 *                                          epoch not whole, and everything is kept
 *   taken by a PERMIT that was settled     posted in the transaction of the settlement
 *   neither                                no client got, or will get, a PERMIT for it
 *
 * Calls that the dead process left in flight, and how each meets this transaction:
 *   a lease call     has locked the holder: it comes before, and its grant goes back; or after, and there is
 *                    no holder any more; the first of a holder waits for the end
 *   a settlement     locks its leases (lease-posts.ts): it comes before, and is seen here; or after, and
 *                    finds no lease
 *   a suspend        locks the holder, and finds nothing to pass on after this
 * The caller has made sure that the process has ended (SpoolEpoch.isCertain).
 *
 * Locks, after the epoch: its holders, their leases, and last quota windows in the order of their key, in
 * several ledger calls if there are many.
 */
export async function returnLeases(
  tx: Transaction,
  { sidecarId, epoch }: { readonly sidecarId: SidecarId; readonly epoch: string },
  nowMs: UnixMillis,
): Promise<void> {
  const holders = await tx<{ holder: string }[]>`
    SELECT holder FROM lease_holders WHERE sidecar_id = ${sidecarId} AND epoch = ${epoch}
    ORDER BY holder FOR UPDATE`;
  if (holders.length === 0) return;
  const names = holders.map(({ holder }) => holder);
  const unused = await removeLeases(tx, names);
  await tx`DELETE FROM lease_holders WHERE holder = ANY(${names}::text[])`;
  await freeUnits(tx, unused, nowMs);
}

/** Removes the leases and their posts, and returns the rest of each window. */
async function removeLeases(tx: Transaction, holders: readonly string[]): Promise<readonly HeldUnits[]> {
  // A separate statement, so that the next one sees posts of the transactions this one waited for.
  await tx`SELECT FROM quota_leases WHERE holder = ANY(${[...holders]}::text[]) ORDER BY lease_id FOR UPDATE`;
  return tx<HeldUnits[]>`
    WITH posted AS (
      SELECT lease_id, sum(p.units)::bigint AS units FROM lease_posts p JOIN quota_leases l USING (lease_id)
      WHERE l.holder = ANY(${[...holders]}::text[]) GROUP BY lease_id
    ), removed AS (
      DELETE FROM quota_leases WHERE holder = ANY(${[...holders]}::text[])
      RETURNING lease_id, counter, window_name, starts_at_ms, units
    )
    SELECT r.counter, r.window_name AS window, r.starts_at_ms AS "startsAtMs",
      sum(greatest(r.units - coalesce(p.units, 0), 0))::bigint AS units
    FROM removed r LEFT JOIN posted p USING (lease_id)
    GROUP BY r.counter, r.window_name, r.starts_at_ms
    HAVING sum(greatest(r.units - coalesce(p.units, 0), 0)) > 0`;
}
