import type { WindowInNeed } from '../../shared/wire/sync/settlement.ts';
import { isAbout, type Shortage } from './held-view.ts';
import { eachNeed, type NeededUnits } from './wait-queue.ts';

/**
 * The windows that a refused request lacks units of, as a look-up names them. Units held here count as
 * available.
 */
export function shortWindows({ view, need }: NeededUnits, shortage: Shortage): WindowInNeed[] {
  const short: WindowInNeed[] = [];
  eachNeed({ view, need }, (window, units) => {
    const { startsAtMs, available, limit } = window.lease;
    if (startsAtMs === null || !isAbout(shortage, window) || available >= units) return;
    // Of a wallet of another account the limit is not known here.
    const most = window.name.wallet === undefined ? limit : 0;
    short.push({ ...window.name, starts_at_ms: startsAtMs, leased_max: most - units + available });
  });
  return short;
}
