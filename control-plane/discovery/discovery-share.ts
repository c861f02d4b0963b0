import { limits } from '../../shared/model/limits.ts';
import { type FairShare, fairShare } from '../storage/fair-share.ts';

/** Searches need no key, so nobody tells their callers apart: all of them together are one owner. */
export const discoveryShare = (): FairShare<'everybody'> =>
  fairShare({
    atOnceMax: limits.discoveriesAtOnceMax,
    perOwnerMax: limits.discoveriesAtOnceMax,
    waitingPerOwnerMax: limits.discoveriesWaitingMax,
  });
