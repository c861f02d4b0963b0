import { secondMs } from '../../shared/model/time.ts';

/** Bounds of this room alone, each with its reason. */
export const eventsLimits = {
  /** Open streams of this process, and of one account in it: a buffer, a timer and a socket each. */
  streamsMax: 512,
  streamsPerAccountMax: 32,
  /** Proxies close connections that are silent for a minute. Also the interval of the caller's look-up. */
  heartbeatMs: 15 * secondMs,
  /** Unread bytes of a reader: several hundred hints. */
  bufferBytesMax: 64 * 1_024,
  /** Time for a closed reader to read the rest. */
  goodbyeMs: 5 * secondMs,
  /** Hints of records, deliveries and sidecars: at most one for each id in this time. */
  busyIntervalMs: secondMs,
  /** Ids queued at one stream; beyond it a hint names its type only. */
  busyWaitingMax: 256,
  /** With a plan limit, one part in this many of the day's requests pays for reads after busy hints. */
  planPart: 4,
  /** Hints are published together: a tenth of a second is not noticeable. */
  publishIntervalMs: 100,
  /** Hints of one account in that time; beyond it a hint names its type only. */
  publishedPerAccountMax: 256,
  /** Accounts with hints in that time; hints of further ones are dropped, which hints allow. */
  publishedAccountsMax: 4_096,
} as const;
