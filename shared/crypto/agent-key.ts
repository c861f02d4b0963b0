import { decodeBase64url, encodeBase64url, readBase64url } from './base64url.ts';
import { sha256Bytes } from './content-hash.ts';
import { isAcceptablePublicKey } from './ed25519-checks.ts';
import { es256Jwk, es256KeyBytes, es256Verifier } from './es256.ts';
import { isJsonObject } from './json-object.ts';

/** Text form of an agent's key pair (contract §3). */
const publicPrefix = 'ed25519:';
const p256Prefix = 'p256:';
const privatePrefix = 'ed25519_private:';

/** `ed25519:` + base64url of the 32 raw bytes. */
export const renderPublicKey = (publicKey: Uint8Array): string => publicPrefix + encodeBase64url(publicKey);

/**
 * `ed25519_private:` + base64url of the 32-byte seed. The result is a secret: shown once, never stored or
 * logged.
 */
export const renderPrivateKey = (seed: Uint8Array): string => privatePrefix + encodeBase64url(seed);

/** `renderPublicKey` for bytes in base64url. Null if `parsePublicKey` would refuse the result. */
export function publicKeyOf(x: string): string | null {
  const bytes = readBase64url(x);
  // Decoding is strict, so encoding the bytes again gives the same text.
  return bytes !== null && isAcceptablePublicKey(bytes) ? publicPrefix + x : null;
}

/**
 * The 32 raw bytes. Null for another form, length or encoding, and for a key of small order, for which anyone
 * can sign.
 */
export function parsePublicKey(text: string): Uint8Array | null {
  if (!text.startsWith(publicPrefix)) return null;
  const bytes = decodeBase64url(text.slice(publicPrefix.length));
  return bytes !== null && isAcceptablePublicKey(bytes) ? bytes : null;
}

/** The public half of an agent's key, as `cnf.jwk` of a token has it (RFC 7800). */
export type AgentJwk =
  | { readonly kty: 'OKP'; readonly crv: 'Ed25519'; readonly x: string }
  | { readonly kty: 'EC'; readonly crv: 'P-256'; readonly x: string; readonly y: string };

/** An agent's public key, ready to verify with. */
export interface AgentKey {
  /** `EdDSA` is Ed25519 here (RFC 8037). */
  readonly algorithm: 'EdDSA' | 'ES256';
  /** 32 bytes of Ed25519, or 65 of P-256 (SEC 1, uncompressed). */
  readonly bytes: Uint8Array;
  /** RFC 7638. */
  readonly thumbprint: string;
}

/** Keys of agents that sign now; beyond this the cache starts over. */
const knownKeysMax = 4_096;
const knownKeys = new Map<string, AgentKey>();

/**
 * Reads the text form, which is `ed25519:` or `p256:` and the bytes in base64url. Null: it is no usable key.
 */
export function parseAgentKey(text: string): AgentKey | null {
  const known = knownKeys.get(text);
  if (known !== undefined) return known;
  const read = readAgentKey(text);
  if (read === null) return null;
  if (knownKeys.size >= knownKeysMax) knownKeys.clear();
  knownKeys.set(text, read);
  return read;
}

function readAgentKey(text: string): AgentKey | null {
  const jwk = jwkOfAgentKey(text);
  if (jwk === null) return null;
  const bytes = decodeBase64url(text.slice(text.indexOf(':') + 1));
  if (bytes === null) return null;
  return { algorithm: jwk.kty === 'OKP' ? 'EdDSA' : 'ES256', bytes, thumbprint: jwkThumbprint(jwk) };
}

/** Null: it is no usable key. */
export function jwkOfAgentKey(text: string): AgentJwk | null {
  if (text.startsWith(p256Prefix)) {
    const bytes = decodeBase64url(text.slice(p256Prefix.length));
    return bytes === null ? null : es256Jwk(bytes);
  }
  const bytes = parsePublicKey(text);
  return bytes === null ? null : { kty: 'OKP', crv: 'Ed25519', x: encodeBase64url(bytes) };
}

/**
 * The text form of a JWK: of its required members alone, because others say nothing about the key. Null for
 * keys of another kind, unusable ones, and private ones, which their owner should not have sent.
 */
export function agentKeyOfJwk(jwk: unknown): string | null {
  if (!isJsonObject(jwk) || Object.hasOwn(jwk, 'd')) return null;
  const { kty, crv, x, y } = jwk;
  if (typeof x !== 'string') return null;
  if (kty === 'OKP' && crv === 'Ed25519') return publicKeyOf(x);
  return kty === 'EC' && crv === 'P-256' && typeof y === 'string' ? p256KeyOf(x, y) : null;
}

function p256KeyOf(x: string, y: string): string | null {
  const [left, right] = [decodeBase64url(x), decodeBase64url(y)];
  if (left === null || right === null) return null;
  const bytes = Buffer.concat([Uint8Array.of(0x04), left, right]);
  if (left.length !== right.length || bytes.length !== es256KeyBytes) return null;
  return isOnCurve(bytes) ? p256Prefix + encodeBase64url(bytes) : null;
}

function isOnCurve(bytes: Uint8Array): boolean {
  try {
    es256Verifier(bytes);
    return true;
  } catch (error) {
    if (error instanceof TypeError) return false;
    throw error;
  }
}

/** RFC 7638 over a key's required members in their order. */
export const jwkThumbprint = (jwk: AgentJwk): string =>
  encodeBase64url(
    sha256Bytes(
      jwk.kty === 'OKP'
        ? `{"crv":"Ed25519","kty":"OKP","x":"${jwk.x}"}`
        : `{"crv":"P-256","kty":"EC","x":"${jwk.x}","y":"${jwk.y}"}`,
    ),
  );
