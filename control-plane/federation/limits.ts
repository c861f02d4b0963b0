import { dayMs, hourMs, minuteMs } from '../../shared/model/time.ts';

/** Bounds of this room alone, each with its reason. */
export const federationLimits = {
  /** Security events of one address in a minute: each costs a signature before anything is known of it. */
  eventsPerMinuteMax: 600,
  eventWindowMs: minuteMs,
  eventAddressesMax: 10_000,
  /** Event types in one token. RFC 8417 has one, and several for the same happening. */
  eventTypesMax: 16,
  /** Names of one subject in one event: a person has some addresses. */
  aliasesMax: 32,
  /** An older event is refused: what it says has long been superseded, and its `jti` may be forgotten. */
  eventAgeMsMax: 7 * dayMs,
  /** A transmitter's clock may be ahead by this. */
  eventAheadMsMax: minuteMs,
  /** Kept longer than an event may be old, so that each is taken once. */
  eventKeptMs: 8 * dayMs,
  /** Removed with each event that is taken. */
  eventsPerTrimMax: 100,
  eventIdCharsMax: 255,
  /** Identity assertions are made for one exchange. Providers give them five minutes to an hour. */
  assertionLifetimeMsMax: hourMs,
} as const;
