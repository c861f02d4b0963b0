/**
 * Checks before every engine. libsodium, OpenSSL and noble disagree about signatures that an honest signer
 * never makes; after these checks they agree (test/unit/crypto/ed25519.test.ts).
 */

const seedBytes = 32;
export const publicKeyBytes = 32;
export const signatureBytes = 64;

/**
 * The y coordinates of the eight points of small order, as they are encoded, the sign bit left out. Such a
 * key verifies forged signatures. libsodium also refuses them as the R of a signature, OpenSSL does not.
 */
const smallOrderHex = [
  '0000000000000000000000000000000000000000000000000000000000000000',
  '0100000000000000000000000000000000000000000000000000000000000000',
  '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05',
  'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a',
  'ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
];
const smallOrder = smallOrderHex.map((hex) => Uint8Array.from(Buffer.from(hex, 'hex')));

/** The order of the base point, L of RFC 8032 §5.1, little-endian. */
const order = Uint8Array.from(
  Buffer.from('edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010', 'hex'),
);

/** 2^255 - 19, the field's prime, little-endian. */
const prime = Uint8Array.from(
  Buffer.from('edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f', 'hex'),
);

const signBit = 0x80;

/**
 * Whether these bytes may be imported as a public key: 32 of them, the canonical encoding (y below the
 * prime), not of small order. It need not be a point of the curve: if it is not, no engine accepts a
 * signature for it.
 */
export const isAcceptablePublicKey = (key: Uint8Array): boolean =>
  key.length === publicKeyBytes && !isSmallOrder(key) && isBelow(key, 0, prime, ~signBit);

/**
 * Whether a signature is worth verifying: 64 bytes, R not of small order, S reduced (RFC 8032 §5.1.7;
 * otherwise S + L would be a second signature of the same message).
 */
export const isWellFormedSignature = (signature: Uint8Array): boolean =>
  signature.length === signatureBytes &&
  !isSmallOrder(signature) &&
  isBelow(signature, publicKeyBytes, order, ~0);

/** Copies the key, because the caller may change its bytes. Throws TypeError for an unacceptable key. */
export function importPublicKey(key: Uint8Array): Uint8Array {
  if (!isAcceptablePublicKey(key)) throw new TypeError('not an acceptable Ed25519 public key');
  return Uint8Array.from(key);
}

/** Likewise for the 32-byte private seed of RFC 8032. Throws TypeError for any other length. */
export function importSeed(seed: Uint8Array): Uint8Array {
  if (seed.length !== seedBytes) throw new TypeError('an Ed25519 seed has 32 bytes');
  return Uint8Array.from(seed);
}

/** Whether the first 32 bytes encode a point of small order; the sign bit does not matter. */
function isSmallOrder(bytes: Uint8Array): boolean {
  for (const point of smallOrder) {
    if (bytes[0] === point[0] && isEncodingOf(bytes, point)) return true;
  }
  return false;
}

function isEncodingOf(bytes: Uint8Array, point: Uint8Array): boolean {
  for (let i = 1; i < publicKeyBytes - 1; i++) {
    if (bytes[i] !== point[i]) return false;
  }
  return ((bytes[publicKeyBytes - 1] ?? 0) & ~signBit) === point[publicKeyBytes - 1];
}

/**
 * Whether the 32 little-endian bytes from `offset` on are a smaller number than the bound. `topMask` is laid
 * over the top byte.
 */
function isBelow(bytes: Uint8Array, offset: number, bound: Uint8Array, topMask: number): boolean {
  for (let i = publicKeyBytes - 1; i >= 0; i--) {
    const byte = (bytes[offset + i] ?? 0) & (i === publicKeyBytes - 1 ? topMask : ~0);
    const limit = bound[i] ?? 0;
    if (byte !== limit) return byte < limit;
  }
  return false;
}
