import { decodeBase64url, encodeBase64url, readBase64url } from './base64url.ts';
import { isAcceptablePublicKey } from './ed25519-checks.ts';

/** Text form of an agent's key pair (contract §3). */
const publicPrefix = 'ed25519:';
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
