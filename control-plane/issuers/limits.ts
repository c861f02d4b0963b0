import { minuteMs, secondMs } from '../../shared/model/time.ts';

/** Bounds of this room alone, each with its reason. */
export const issuersLimits = {
  /** Metadata and keys of an issuer of others, each. A slow provider must not hold up the others. */
  keyCallMsMax: 5 * secondMs,
  /** A key set: 64 RSA keys of 4096 bits with their certificates. */
  keySetBytesMax: 256 * 1024,
  /** An OpenID Connect discovery document has about 5 KiB. */
  metadataBytesMax: 64 * 1024,
  /** Keys that nobody asks for are read so often: a key that was withdrawn verifies no longer than this. */
  keyRefreshMs: 10 * minuteMs,
  /** Between two looks for keys that are due. */
  keyLookMs: 5 * secondMs,
  /** Issuers that one replica asks at once: sixteen slow ones delay the next by `keyCallMsMax` twice. */
  keyFetchesAtOnceMax: 16,
  /**
   * Issuers of others of other accounts that the gates of one account and mode name: with 130 KB each they
   * are 8 MB of a snapshot, which its account cannot make smaller.
   */
  trustedOfOthersMax: 32,
  /** Other accounts that name one issuer: each reading of its keys is written to the feed of each. */
  trustingAccountsMax: 100,
} as const;
