import pLimit, { type LimitFunction } from 'p-limit';
import { ApiError } from '../../shared/errors/api-error.ts';
import type { AccountId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';

/** Runs the work when it is the account's turn; `overloaded` where too much of that account waits already. */
export type DecisionTurns = <T>(accountId: AccountId, work: () => Promise<T>) => Promise<T>;

/**
 * Transactions that decide wait for each other: for the head of a busy passport's chain, for the key of a claim. Each holds a database connection
 * meanwhile. So only a part of the connections decides at a time, and only a part of that for one account: whatever waits for whom, keys are
 * looked up, leases granted and other accounts served.
 */
export function decisionTurns(): DecisionTurns {
  const all = pLimit(limits.decisionsAtOnceMax);
  const ofAccounts = new Map<AccountId, LimitFunction>();
  return async (accountId, work) => {
    const own = ofAccounts.get(accountId) ?? pLimit(limits.decisionsPerAccountMax);
    if (own.pendingCount >= limits.decisionsWaitingPerAccountMax) throw new ApiError('overloaded');
    ofAccounts.set(accountId, own);
    try {
      return await own(() => all(work));
    } finally {
      // Only accounts with something to decide are remembered.
      if (own.activeCount + own.pendingCount === 0) ofAccounts.delete(accountId);
    }
  };
}
