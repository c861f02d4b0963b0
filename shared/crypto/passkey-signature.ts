import { createPublicKey, verify } from 'node:crypto';
import { decodeBase64url } from './base64url.ts';

/** A public key of the kinds that passkeys have here: ES256, Ed25519 or RS256. */
export type PasskeyKey =
  | { readonly kty: 'EC'; readonly crv: 'P-256'; readonly x: string; readonly y: string }
  | { readonly kty: 'OKP'; readonly crv: 'Ed25519'; readonly x: string }
  | { readonly kty: 'RSA'; readonly n: string; readonly e: string };

/** Whether this key signed the message, in the form that WebAuthn gives signatures in (Level 3 §6.5.5). */
export function isSignedByPasskey(key: PasskeyKey, message: Uint8Array, signature: Uint8Array): boolean {
  try {
    const publicKey = createPublicKey({ key, format: 'jwk' });
    return verify(key.kty === 'OKP' ? null : 'sha256', message, publicKey, signature);
  } catch {
    // A key or a signature that is none.
    return false;
  }
}

/**
 * What a copy of a signature has in common with it. From (r, s) of ES256 anybody makes another good
 * signature of the same message, (r, n - s), so there it is r alone.
 */
export function signatureMark({ kty }: Pick<PasskeyKey, 'kty'>, signature: string): string {
  if (kty !== 'EC') return signature;
  const bytes = decodeBase64url(signature);
  // SEQUENCE, its length, INTEGER, the length of r. OpenSSL takes no other spelling of the two numbers.
  const length = bytes?.[3];
  if (bytes === null || length === undefined) return signature;
  return Buffer.from(bytes.subarray(4, 4 + length)).toString('base64url');
}
