import type { SidecarId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import type { CounterKey } from '../../shared/quota/counter.ts';
import type { WindowName } from '../../shared/quota/window.ts';
import type { Transaction } from '../base/database.ts';
import type { HeldUnits } from './held-units.ts';
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
  return [...ofLeases, ...windows].filter(({ units }) => units > 0);
}

const isLease = (source: MoneySource): source is number => typeof source === 'number';
const isWindow = (source: MoneySource): source is Exclude<MoneySource, number> => !isLease(source);
