import { minuteMs } from '../../shared/model/time.ts';

/** Bounds of this room alone, each with its reason. */
export const passkeysLimits = {
  /** Of one user: telephones, computers and security keys, and those that were forgotten. */
  passkeysPerUserMax: 20,
  /** What a browser gives a person for unlocking the authenticator; the challenge lives longer. */
  ceremonyMs: 5 * minuteMs,
  /** WebAuthn §6.5.1 bounds a credential id by 1,023 bytes. */
  credentialIdCharsMax: 1_364,
  /** Of each part of a signature: some hundred characters, and 683 of an RSA key of 4,096 bits. */
  assertionPartCharsMax: 4_096,
  /** Transports of an authenticator (WebAuthn has six), and the characters of each. */
  transportsMax: 8,
  transportCharsMax: 32,
} as const;
