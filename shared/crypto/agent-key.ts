import { decodeBase64url, encodeBase64url, readBase64url } from './base64url.ts';
import { isAcceptablePublicKey } from './ed25519-checks.ts';

/** How an agent's own key pair is written (contract §3). */
const publicPrefix = 'ed25519:';
const privatePrefix = 'ed25519_private:';

/** `ed25519:` + base64url of the 32 raw bytes. */
export const renderPublicKey = (publicKey: Uint8Array): string => publicPrefix + encodeBase64url(publicKey);

/**
 * `ed25519_private:` + base64url of the 32-byte seed. The result is a secret: shown once, never stored or
 * logged.
 */
export const renderPrivateKey = (seed: Uint8Array): string => privatePrefix + encodeBase64url(seed);

/**
 * As `renderPublicKey` of these bytes, which are given in base64url. Null where `parsePublicKey` would not
 * read the result.
 */
export function publicKeyOf(x: string): string | null {
  const bytes = readBase64url(x);
  // What was read back alike is what would be written.
  return bytes !== null && isAcceptablePublicKey(bytes) ? publicPrefix + x : null;
}

/**
 * The 32 raw bytes. Null for another form, length or encoding, and for a key of small order, which everybody
 * can sign for.
 */
export function parsePublicKey(text: string): Uint8Array | null {
  if (!text.startsWith(publicPrefix)) return null;
  const bytes = decodeBase64url(text.slice(publicPrefix.length));
  return bytes !== null && isAcceptablePublicKey(bytes) ? bytes : null;
}
