import type { AccountId } from '../../shared/model/ids.ts';
import type { Share } from '../base/connection-shares.ts';
import { type FairShare, fairShare } from '../storage/fair-share.ts';
import { admissionLimits } from './limits.ts';

/**
 * Deciding transactions wait for each other's locks, such as the head of a busy chain or the key of a claim,
 * each on a database connection. So only a part of the connections may decide at a time, and only a part of
 * those for one account: key look-ups and other accounts always find a connection, as lease calls do, which
 * have a share of their own.
 */
export const decisionSlots = (share: Share): FairShare<AccountId> =>
  fairShare({
    ...share,
    waitingPerOwnerMax: admissionLimits.decisionsWaitingPerAccountMax,
    waitMsMax: admissionLimits.decisionTurnMsMax,
  });
