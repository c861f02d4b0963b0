import { createPublicKey, verify } from 'node:crypto';
import { encodeBase64url } from './base64url.ts';
import type { Verifier } from './ed25519.ts';

/** SEC 1 §2.3.3, uncompressed: 0x04, then x and y. */
export const es256KeyBytes = 65;
const coordinateBytes = 32;
const uncompressed = 0x04;

/** The key as a JWK; null: it is not of this length and form. Whether it is on the curve is not asked. */
export function es256Jwk(
  key: Uint8Array,
): { readonly kty: 'EC'; readonly crv: 'P-256'; readonly x: string; readonly y: string } | null {
  if (key.length !== es256KeyBytes || key[0] !== uncompressed) return null;
  const x = encodeBase64url(key.subarray(1, 1 + coordinateBytes));
  return { kty: 'EC', crv: 'P-256', x, y: encodeBase64url(key.subarray(1 + coordinateBytes)) };
}

/**
 * ECDSA with P-256 and SHA-256 by node:crypto, with signatures as JOSE and RFC 9421 write them: r and s, 32
 * bytes each. Throws TypeError for a key that is none, or is not on the curve.
 */
export function es256Verifier(publicKey: Uint8Array): Verifier {
  const jwk = es256Jwk(publicKey);
  if (jwk === null) throw new TypeError('not a public key of P-256');
  const key = importKey(jwk);
  return (message, signature) =>
    signature.length === 2 * coordinateBytes &&
    verify('sha256', message, { key, dsaEncoding: 'ieee-p1363' }, signature);
}

function importKey(jwk: NonNullable<ReturnType<typeof es256Jwk>>): ReturnType<typeof createPublicKey> {
  try {
    return createPublicKey({ key: jwk, format: 'jwk' });
  } catch (error) {
    throw new TypeError('not a public key of P-256', { cause: error });
  }
}
