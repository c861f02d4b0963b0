import { must } from '../errors/assert.ts';
import type { LimitMiss, WindowView } from './facts.ts';

/**
 * How a request misses the windows it would draw on: null where each of them has the units, `'unknown'` where
 * one may have them and the ledger was not asked. Of several misses the one that lasts longest counts,
 * because an agent that comes again before its end is blocked again; one that misses only units which are
 * lent lasts for a moment (`isForAMoment`). A request for more than a window's whole limit is a miss without
 * end, whatever has been used of it.
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
  // What the ledger was not asked for changes neither the answer nor its reason.
  if (missed !== null) return missOf(missed, requested, unit);
  return isUnknown ? 'unknown' : null;
}

function missOf(window: WindowView, requested: number, unit: LimitMiss['unit']): LimitMiss {
  const { limit, used } = window;
  return { unit, limit, used, requested, resetAtMs: requested > limit ? null : endOf(window) };
}

/**
 * The units that are missing are lent to somebody, and not used: they come back, or are on record, shortly.
 */
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
