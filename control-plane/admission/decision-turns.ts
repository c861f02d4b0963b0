import type { AccountId } from '../../shared/model/ids.ts';
import type { Share } from '../base/connection-shares.ts';
import { type FairShare, fairShare } from '../storage/fair-share.ts';
import { admissionLimits } from './limits.ts';

/**
 * Transactions that decide wait for each other: for the head of a busy passport's chain, for the key of a
 * claim. Each holds a database connection meanwhile. So only a part of the connections decides at a time, and
 * only a part of that for one account: whatever waits for whom, keys are looked up, leases granted and other
 * accounts served.
 */
export const decisionTurns = (share: Share): FairShare<AccountId> =>
  fairShare({
    ...share,
    waitingPerOwnerMax: admissionLimits.decisionsWaitingPerAccountMax,
  });
