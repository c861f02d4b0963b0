import { limits } from '../../shared/model/limits.ts';
import type { Share } from '../base/connection-shares.ts';
import { type FairShare, fairShare } from '../storage/fair-share.ts';

/** Searches need no key, so all their callers count as one owner. */
export const discoveryShare = (share: Share): FairShare<'everybody'> =>
  fairShare({
    ...share,
    waitingPerOwnerMax: limits.discoveriesWaitingMax,
  });
