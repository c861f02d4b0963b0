import { minuteMs, secondMs } from '../../shared/model/time.ts';

/** Bounds of this room alone, each with its reason. */
export const oidcLimits = {
  /** Of one call of the provider, with everything: a person looks at a button meanwhile. */
  callMsMax: 5 * secondMs,
  /** Metadata and keys of the large providers are at most a tenth of this. */
  answerBytesMax: 256 * 1024,
  /** The metadata, and with it the keys, are read again after this. */
  metadataKeptMs: 10 * minuteMs,
  /** No calls for this long after a failure, because strangers can open the login page repeatedly. */
  failureKeptMs: 5 * secondMs,
  /** Returning logins checked at once, of all networks and of one, and waiting ones. */
  checksAtOnceMax: 16,
  checksPerNetworkMax: 8,
  checksWaitingPerNetworkMax: 32,
  /** At 5 s each, of a provider that says nothing, the last one waits for the 30 s that the console does. */
  checksWaitingMax: 96,
  /** Networks with a remembered count of recent checks. */
  networksMax: 10_000,
  networkKeptMs: 15 * minuteMs,
  /** Accounts of one person named in a message; few people are in more than three. */
  accountsNamedMax: 20,
  /** Of `return_to`, which is stored in a cookie; browsers allow 4 KB. */
  returnToCharsMax: 1024,
} as const;
