import type { SidecarId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { CounterKey } from '../../shared/quota/counter.ts';
import type { WindowName } from '../../shared/quota/window.ts';
import type { Transaction } from '../base/database.ts';
import { databaseNowMs } from '../storage/database-clock.ts';
import type { HeldUnits } from './held-units.ts';
import { quotaLimits } from './limits.ts';
import { releaseLeases } from './release-leases.ts';

/** Where a PERMIT took money: a lease of its sidecar, or a window of the ledger. */
export type MoneySource = number | readonly [counter: CounterKey, window: WindowName, startsAtMs: UnixMillis];

export const sourceOf = ({ counter, window, startsAtMs }: Omit<HeldUnits, 'units'>): MoneySource => [
  counter,
  window,
  startsAtMs,
];

/** Money that a PERMIT has taken and does not count any more. */
export interface MoneyReturn {
  readonly source: SidecarId | 'control-plane';
  /** Each counts the whole amount. */
  readonly from: readonly MoneySource[];
  readonly microUsd: number;
}

/**
 * Takes money of PERMITs on record out of the leases that they took from, and returns it by window, for the
 * caller to give back to the ledger (`freeUnits`). Of a lease at most what records took of it, also after it
 * went with its holder. Windows that have ended come to nothing.
 *
 * Locks leases in the order of their ids, then former leases likewise; before approvals and chains.
 */
export async function returnMoney(
  tx: Transaction,
  returns: readonly MoneyReturn[],
): Promise<readonly HeldUnits[]> {
  const takes = returns.flatMap(({ source, from, microUsd }) =>
    source === 'control-plane' || microUsd === 0
      ? []
      : [{ sidecarId: source, took: from.filter(isLease), amountMicroUsd: microUsd, isPosted: true }],
  );
  const windows = returns.flatMap(({ from, microUsd }) =>
    from.filter(isWindow).map(
      ([counter, window, startsAtMs]): HeldUnits => ({
        counter,
        window,
        startsAtMs,
        units: microUsd,
      }),
    ),
  );
  const ofLeases = await releaseLeases(tx, takes);
  const ofFormer = await releaseFormer(tx, takes);
  return [...ofLeases, ...ofFormer, ...windows].filter(({ units }) => units > 0);
}

const isLease = (source: MoneySource): source is number => typeof source === 'number';
const isWindow = (source: MoneySource): source is Exclude<MoneySource, number> => !isLease(source);

/** A lease that is gone by now is here: a holder that goes waits for those who have locked its leases. */
async function releaseFormer(
  tx: Transaction,
  takes: readonly { readonly took: readonly number[]; readonly amountMicroUsd: number }[],
): Promise<readonly HeldUnits[]> {
  const sums = new Map<number, number>();
  for (const { took, amountMicroUsd } of takes)
    for (const id of took) sums.set(id, (sums.get(id) ?? 0) + amountMicroUsd);
  if (sums.size === 0) return [];
  const ids = [...sums.keys()];
  await tx`
    SELECT FROM former_leases WHERE lease_id = ANY(${ids}::bigint[]) ORDER BY lease_id FOR UPDATE`;
  return tx<HeldUnits[]>`
    WITH freed AS (
      SELECT f.lease_id, f.counter, f.window_name, f.starts_at_ms, least(f.used, a.units) AS units
      FROM former_leases f JOIN unnest(${ids}::bigint[], ${[...sums.values()]}::bigint[]) AS a (lease_id, units)
        USING (lease_id)
    ), written AS (
      UPDATE former_leases f SET used = f.used - freed.units FROM freed WHERE f.lease_id = freed.lease_id
    )
    SELECT counter, window_name AS window, starts_at_ms AS "startsAtMs", units FROM freed`;
}

/** Removes former leases of windows that have ended. Skips locked rows. */
export async function trimFormerLeases(tx: Transaction): Promise<void> {
  await tx`
    DELETE FROM former_leases WHERE lease_id = ANY (ARRAY(
      SELECT lease_id FROM former_leases
      WHERE ends_at_ms < ${databaseNowMs(tx)} - ${quotaLimits.quotaWindowKeptMs}::bigint
      ORDER BY ends_at_ms LIMIT ${quotaLimits.quotaWindowsPerTrimMax} FOR UPDATE SKIP LOCKED))`;
}
