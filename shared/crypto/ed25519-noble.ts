import { createHash } from 'node:crypto';
import { etc, getPublicKey, hash, hashes, Point, sign, verify } from '@noble/ed25519';
import type { Ed25519 } from './ed25519.ts';
import { importPublicKey, importSeed, isWellFormedSignature, publicKeyBytes } from './ed25519-checks.ts';

/** Ed25519 in plain JavaScript: twenty times slower than libsodium, and the same everywhere. */
export function nobleEd25519(): Ed25519 {
  // The library has no hash of its own.
  hashes.sha512 = (message) => Uint8Array.from(createHash('sha512').update(message).digest());
  return {
    name: 'noble',
    signer: (seed) => {
      const secret = importSeed(seed);
      return { publicKey: getPublicKey(secret), sign: (message) => sign(plainBytes(message), secret) };
    },
    verifier: (publicKey) => {
      const key = importPublicKey(publicKey);
      return (message, signature) =>
        isWellFormedSignature(signature) && verifyStrictly(plainBytes(message), plainBytes(signature), key);
    },
  };
}

/**
 * The library refuses subclasses of Uint8Array whose constructor has another name, and memory shared between
 * threads.
 */
const plainBytes = (bytes: Uint8Array): Uint8Array => Uint8Array.from(bytes);

/**
 * The library compares both sides after multiplying by the cofactor 8, so it accepts an R with a component of
 * small order. libsodium and OpenSSL compare the points themselves (RFC 8032 §5.1.7 allows both), so this
 * does too.
 */
function verifyStrictly(message: Uint8Array, signature: Uint8Array, key: Uint8Array): boolean {
  if (!verify(signature, message, key, { zip215: false })) return false;
  const r = signature.subarray(0, publicKeyBytes);
  const s = littleEndian(signature.subarray(publicKeyBytes));
  const k = etc.mod(littleEndian(hash(etc.concatBytes(r, key, message))), Point.CURVE().n);
  const right = Point.fromBytes(r).add(Point.fromBytes(key).multiply(k, false));
  return Point.BASE.multiply(s, false).equals(right);
}

const littleEndian = (bytes: Uint8Array): bigint =>
  BigInt(`0x${Buffer.from(bytes).reverse().toString('hex')}`);
