import { limits } from '../../shared/model/limits.ts';
import type { Share } from '../base/connection-shares.ts';
import type { BaseDeps } from '../base/deps.ts';
import { type FairShare, fairShare } from '../storage/fair-share.ts';

export interface DiscoveryDeps extends BaseDeps {
  /** All public searches together have one share of the database (contract §10). */
  readonly discoveries: FairShare<'everybody'>;
}

/** Searches need no key, so nobody tells their callers apart: all of them together are one owner. */
export const discoveryShare = (share: Share): FairShare<'everybody'> =>
  fairShare({
    ...share,
    waitingPerOwnerMax: limits.discoveriesWaitingMax,
    waitMsMax: limits.discoveryTurnMsMax,
  });
