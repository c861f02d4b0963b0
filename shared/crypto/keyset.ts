import { assert } from '../errors/assert.ts';
import { type KeyPurpose, keyPurposes, type VerificationKey } from '../model/signing-key.ts';
import {
  isUnixMillis,
  parseTime,
  renderOptionalTime,
  toMillis,
  toSeconds,
  type UnixMillis,
  type UnixSeconds,
} from '../model/time.ts';
import { decodeBase64url, encodeBase64url } from './base64url.ts';
import { sha256Bytes } from './content-hash.ts';
import type { Ed25519, Verifier } from './ed25519.ts';
import { isAcceptablePublicKey } from './ed25519-checks.ts';
import { isJsonObject, type JsonObject } from './json-object.ts';

export interface KeysetEntry {
  readonly key: VerificationKey;
  readonly verify: Verifier;
}

/** The service's keys, ready to verify. Immutable: a change of a key makes a new set. */
export interface Keyset {
  /** The key of that id, if it has that purpose: a catalog key verifies no passport (contract §11). */
  find(purpose: KeyPurpose, kid: string): KeysetEntry | null;
}

/**
 * Imports all keys at once, so that a broken one fails here and not at the first token. Callers check times,
 * retirement and compromise at `key`. Throws TypeError for an unusable key.
 */
export function keyset(ed25519: Ed25519, keys: readonly VerificationKey[]): Keyset {
  const entries = new Map<string, KeysetEntry>();
  for (const key of keys) {
    assert(!entries.has(key.kid), 'every key of a keyset has its own kid');
    const publicKey = decodeBase64url(key.publicKey);
    if (publicKey === null) throw new TypeError(`the public key of ${key.kid} is not base64url`);
    entries.set(key.kid, { key, verify: ed25519.verifier(publicKey) });
  }
  return {
    find: (purpose, kid) => {
      const entry = entries.get(kid);
      return entry !== undefined && entry.key.purpose === purpose ? entry : null;
    },
  };
}

/**
 * RFC 7638: base64url SHA-256 of the key's required members in their order. The `kid` of every key of this
 * service.
 */
export const thumbprint = (publicKey: Uint8Array): string =>
  encodeBase64url(sha256Bytes(`{"crv":"Ed25519","kty":"OKP","x":"${encodeBase64url(publicKey)}"}`));

/** A public key as `/.well-known/jwks.json` shows it: RFC 8037, with members of our own (contract §11). */
export interface Jwk {
  readonly kty: 'OKP';
  readonly crv: 'Ed25519';
  readonly alg: 'EdDSA';
  readonly use: 'sig';
  readonly kid: string;
  readonly purpose: Exclude<KeyPurpose, 'sync'>;
  /** base64url of the 32 raw bytes. */
  readonly x: string;
  /** When the key starts to sign. Whole seconds since 1970, rounded down. */
  readonly nbf: UnixSeconds;
  /** ISO 8601; null while the key is current or still to come. */
  readonly retired_at: string | null;
  /** The private key may have leaked: its signatures prove nothing. */
  readonly compromised: boolean;
}

/** Without keys of purpose `sync`, which only our own programs use. */
export function renderJwks(keys: readonly VerificationKey[]): { readonly keys: readonly Jwk[] } {
  const published: Jwk[] = [];
  for (const key of keys) {
    if (key.purpose === 'sync') continue;
    published.push({
      kty: 'OKP',
      crv: 'Ed25519',
      alg: 'EdDSA',
      use: 'sig',
      kid: key.kid,
      purpose: key.purpose,
      x: key.publicKey,
      nbf: toSeconds(key.notBeforeMs),
      retired_at: renderOptionalTime(key.retiredAtMs),
      compromised: key.compromised,
    });
  }
  return { keys: published };
}

/** An unusable JWKS; the message names the entry at fault. */
export class JwksError extends Error {
  override readonly name = 'JwksError';
}

/**
 * Reads what `renderJwks` wrote, from parsed JSON. Ignores entries other than Ed25519 keys of a known
 * purpose, as RFC 7517 §5 asks; others must be complete, with their thumbprint as `kid`. Throws JwksError.
 */
export function parseJwks(json: unknown): VerificationKey[] {
  const entries = isJsonObject(json) ? json['keys'] : null;
  if (!Array.isArray(entries)) throw new JwksError('a JWKS is an object with an array "keys"');
  const keys: VerificationKey[] = [];
  for (const [index, entry] of entries.entries()) {
    if (!isJsonObject(entry) || entry['kty'] !== 'OKP' || entry['crv'] !== 'Ed25519') continue;
    const purpose = publishedPurposes.find((known) => known === entry['purpose']);
    if (purpose === undefined) continue;
    const key = parseKey(entry, purpose);
    if (key === null) throw new JwksError(`keys[${index}] is not a whole key of this service`);
    if (keys.some(({ kid }) => kid === key.kid)) throw new JwksError(`keys[${index}] repeats kid ${key.kid}`);
    keys.push(key);
  }
  return keys;
}

const publishedPurposes = keyPurposes.filter((purpose) => purpose !== 'sync');

function parseKey(entry: JsonObject, purpose: KeyPurpose): VerificationKey | null {
  const { x, kid, nbf, retired_at: retiredAt, compromised } = entry;
  if (typeof x !== 'string' || typeof kid !== 'string' || typeof compromised !== 'boolean') return null;
  const publicKey = decodeBase64url(x);
  if (publicKey === null || !isAcceptablePublicKey(publicKey) || thumbprint(publicKey) !== kid) return null;
  const notBeforeMs = parseNumericDate(nbf);
  const retiredAtMs = typeof retiredAt === 'string' ? parseTime(retiredAt) : null;
  if (notBeforeMs === null || (retiredAt !== null && retiredAtMs === null)) return null;
  return { kid, purpose, publicKey: x, notBeforeMs, retiredAtMs, compromised };
}

function parseNumericDate(value: unknown): UnixMillis | null {
  if (typeof value !== 'number' || !Number.isSafeInteger(value)) return null;
  const timeMs = toMillis(value as UnixSeconds);
  return isUnixMillis(timeMs) ? timeMs : null;
}
