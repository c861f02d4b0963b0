import { secondMs } from '../../shared/model/time.ts';

/** Bounds of this room alone, each with its reason. */
export const eventsLimits = {
  /** Open streams of this process, and of one account here: a buffer, a timer and a socket each. */
  streamsMax: 512,
  streamsPerAccountMax: 32,
  /** Proxies close what is silent for a minute; the caller is looked up as often. */
  heartbeatMs: 15 * secondMs,
  /** What a reader has not taken yet: several hundred hints. */
  bufferBytesMax: 64 * 1_024,
  /** A reader that was closed may take what is left for so long. */
  goodbyeMs: 5 * secondMs,
  /** Hints of records, deliveries and sidecars: at most one for each id in this time. */
  busyIntervalMs: secondMs,
  /** Ids of these that wait for their turn at one stream; beyond it a hint names its type alone. */
  busyWaitingMax: 256,
  /** Where a plan counts requests, one part in so many of the day's pays one read for each busy hint. */
  planPart: 4,
  /** Hints are published together: nobody sees a delay of a tenth of a second. */
  publishIntervalMs: 100,
  /** Of one account in that time; beyond it a hint names its type alone. */
  publishedPerAccountMax: 256,
  /** Accounts with hints in that time; those of others are lost, which a hint may be. */
  publishedAccountsMax: 4_096,
} as const;
