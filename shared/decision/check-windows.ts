import { must } from '../errors/assert.ts';
import type { LimitMiss, WindowView } from './facts.ts';

/**
 * How a request misses the windows it would draw on: null if each has the units, `'unknown'` if one may have
 * them and the ledger was not asked. Of several misses the longest counts, because a retry before its end is
 * blocked again; a miss of units that are only lent is brief (`isForAMoment`). A request for more than a
 * window's whole limit never fits, whatever has been used.
 */
export function missedWindow(
  windows: readonly WindowView[],
  requested: number,
  unit: LimitMiss['unit'],
): LimitMiss | 'unknown' | null {
  let missed: WindowView | null = null;
  let isUnknown = false;
  for (const window of windows) {
    if (requested > window.limit) return missOf(window, requested, unit);
    if (requested <= window.available) continue;
    if (!window.isFinal) isUnknown = true;
    else if (missed === null || isLonger(window, missed, requested)) missed = window;
  }
  // Windows that the ledger was not asked about change neither the answer nor the reason.
  if (missed !== null) return missOf(missed, requested, unit);
  return isUnknown ? 'unknown' : null;
}

function missOf(window: WindowView, requested: number, unit: LimitMiss['unit']): LimitMiss {
  const { limit, used } = window;
  return { unit, limit, used, requested, resetAtMs: requested > limit ? null : endOf(window) };
}

/** The missing units are lent and unused: they will soon come back or be on record. */
export const isForAMoment = ({
  limit,
  used,
  requested,
}: Pick<LimitMiss, 'limit' | 'used' | 'requested'>): boolean => used + requested <= limit;

function isLonger(one: WindowView, other: WindowView, requested: number): boolean {
  const [passes, otherPasses] = [one, other].map((each) => isForAMoment({ ...each, requested }));
  return passes === otherPasses ? endOf(one) > endOf(other) : otherPasses === true;
}

const endOf = ({ endsAtMs }: WindowView) => must(endsAtMs, 'the ledger says when a window ends');
