import { mustHold } from '../../shared/model/limits.ts';
import { dayMs, hourMs, minuteMs, secondMs } from '../../shared/model/time.ts';

/** Bounds of this room alone, each with its reason. */
export const oauthLimits = {
  /**
   * Whoever gets hold of an access token of `/mcp` has it for so long; its client gets the next one by
   * itself.
   */
  accessTokenMs: 10 * minuteMs,
  /** An authorization code travels from the browser to the client, and is redeemed at once. */
  codeMs: minuteMs,
  /** A person finds an API key and pastes it. */
  consentMs: 10 * minuteMs,
  /** Keys that may be tried on one consent page: typing errors, no guessing. */
  consentAttemptsMax: 5,
  /**
   * A connection of a client lasts so long at most, with however many refresh tokens; then a person consents
   * anew.
   */
  grantMs: 30 * dayMs,
  /** What the authorization server keeps and nobody may use any more, removed for each new row. */
  artifactsPerTrimMax: 10,
  /**
   * Live tokens of a key, connections (grants) of a key, and tokens of one connection, each. The oldest make
   * room: no caller fills the disk.
   */
  artifactsPerParentMax: 1000,
  /** Client metadata documents are a kilobyte or two; their draft asks servers to stop at 5 KB. */
  clientDocumentBytesMax: 5 * 1024,
  clientDocumentMsMax: 2 * secondMs,
  /** Anybody can make us fetch one: together they keep neither us nor others busy. */
  clientFetchesAtOnceMax: 32,
  /**
   * Nor do strangers who name a host keep its webhooks waiting for a connection: they share
   * `webhooksLimits.webhookAttemptsAtOnceMax`.
   */
  clientFetchesPerHostMax: 4,
  /**
   * Documents that one address may make us fetch in a minute. A person authorizes a few clients a day, and a
   * document once fetched is kept; 60 leave room for an office behind one address.
   */
  clientFetchesPerAddressMax: 60,
  /** Addresses whose attempts are counted, about 200 bytes each. */
  addressesCountedMax: 10_000,
  /**
   * So long a fetched document is used at least (a consent page must not outlive it) and at most, whatever
   * its headers say.
   */
  clientDocumentKeptMsMin: 10 * minuteMs,
  clientDocumentKeptMsMax: hourMs,
  /** A registered client that nobody lets in is removed after this (contract §13). */
  registrationKeptMs: dayMs,
  /**
   * Registrations of one address in an hour: an office behind one address, and no stranger who fills the
   * table.
   */
  registrationsPerAddressMax: 60,
  /**
   * Registered clients that nobody has let in, of all addresses together; about 500 bytes each. The oldest
   * make room.
   */
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
