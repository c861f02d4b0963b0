import { mustHold } from '../../shared/model/limits.ts';
import { dayMs, hourMs, minuteMs, secondMs } from '../../shared/model/time.ts';

/** Bounds of this room alone, each with its reason. */
export const oauthLimits = {
  /**
   * Life of an access token of `/mcp`, which bounds the use of a stolen one; clients renew it by themselves.
   */
  accessTokenMs: 10 * minuteMs,
  /**
   * A used identity assertion is remembered for so long after its end, so that it stays used if the clock is
   * set forward by less than that, and back.
   */
  assertionKeptMs: dayMs,
  /** An authorization code travels from the browser to the client, and is redeemed at once. */
  codeMs: minuteMs,
  /** A person finds an API key and pastes it. */
  consentMs: 10 * minuteMs,
  /** Keys that may be tried on one consent page: typing errors, no guessing. */
  consentAttemptsMax: 5,
  /** Maximum life of a client's connection, over all refresh tokens; then a person consents again. */
  grantMs: 30 * dayMs,
  /** Expired rows of the authorization server removed per new row. */
  artifactsPerTrimMax: 10,
  /**
   * Live tokens of a key, connections (grants) of a key, and tokens of one connection, each. The oldest are
   * evicted, so that no caller fills the disk.
   */
  artifactsPerParentMax: 1000,
  /** Client metadata documents are a kilobyte or two; their draft asks servers to stop at 5 KB. */
  clientDocumentBytesMax: 5 * 1024,
  clientDocumentMsMax: 2 * secondMs,
  /** Anyone can cause a fetch, so all together are bounded. */
  clientFetchesAtOnceMax: 32,
  /** Per host, because webhooks to the same host share `outboxLimits.attemptsAtOnceMax`. */
  clientFetchesPerHostMax: 4,
  /**
   * Documents that one address may make us fetch in a minute. A person authorizes a few clients a day, and a
   * document once fetched is kept; 60 leave room for an office behind one address.
   */
  clientFetchesPerAddressMax: 60,
  /** Addresses whose attempts are counted, about 200 bytes each. */
  addressesCountedMax: 10_000,
  /**
   * Minimum and maximum time for which a fetched document is cached, whatever its headers; a consent page
   * must not outlive it.
   */
  clientDocumentKeptMsMin: 10 * minuteMs,
  clientDocumentKeptMsMax: hourMs,
  /** A registered client without consent is removed after this (contract §13). */
  registrationKeptMs: dayMs,
  /**
   * Registrations of one address in an hour: enough for an office behind one address, too few to fill the
   * table.
   */
  registrationsPerAddressMax: 60,
  /** Registered clients without consent, of all addresses; about 500 bytes each. The oldest are evicted. */
  unusedClientsMax: 10_000,
  /** Of one registration. */
  redirectUrisMax: 10,
  redirectUriCharsMax: 1024,
  /** The form of the consent page: an API key and a token of its own. */
  formBytesMax: 4 * 1024,
} as const;

mustHold(
  oauthLimits.consentMs <= oauthLimits.clientDocumentKeptMsMin,
  'the client that a person consents to is the one that was shown',
);
