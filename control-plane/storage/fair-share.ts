import pLimit, { type LimitFunction } from 'p-limit';
import { ApiError } from '../../shared/errors/api-error.ts';

/**
 * Runs the work when it is its owner's turn; throws `overloaded` where too much of that owner waits already.
 */
export type FairShare<Owner> = <T>(owner: Owner, work: () => Promise<T>) => Promise<T>;

/**
 * Bounds one kind of work that holds a database connection: so much of it runs at once, only a part of that
 * for one owner, and only so much of one owner waits. Whatever one owner asks for, the connections beyond
 * `atOnceMax` serve everybody else, and the turns beyond `perOwnerMax` serve the other owners.
 */
export function fairShare<Owner>(bounds: {
  readonly atOnceMax: number;
  readonly perOwnerMax: number;
  readonly waitingPerOwnerMax: number;
}): FairShare<Owner> {
  const all = pLimit(bounds.atOnceMax);
  const owners = new Map<Owner, LimitFunction>();
  return async (owner, work) => {
    const own = owners.get(owner) ?? pLimit(bounds.perOwnerMax);
    const isFull = own.activeCount + own.pendingCount >= bounds.perOwnerMax + bounds.waitingPerOwnerMax;
    if (isFull) throw new ApiError('overloaded');
    owners.set(owner, own);
    try {
      return await own(() => all(work));
    } finally {
      // Only owners with work are remembered.
      if (own.activeCount + own.pendingCount === 0) owners.delete(owner);
    }
  };
}
