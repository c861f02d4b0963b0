import type { AccountId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import { type FairShare, fairShare } from '../storage/fair-share.ts';
import { admissionLimits } from './limits.ts';

/**
 * Transactions that decide wait for each other: for the head of a busy passport's chain, for the key of a
 * claim. Each holds a database connection meanwhile. So only a part of the connections decides at a time, and
 * only a part of that for one account: whatever waits for whom, keys are looked up, leases granted and other
 * accounts served.
 */
export const decisionTurns = (): FairShare<AccountId> =>
  fairShare({
    atOnceMax: limits.decisionsAtOnceMax,
    perOwnerMax: limits.decisionsPerAccountMax,
    waitingPerOwnerMax: admissionLimits.decisionsWaitingPerAccountMax,
  });
