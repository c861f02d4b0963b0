import { encode, fromBase64Url, hashOf, isObject, sha256Base64Url } from './canonical.ts';
import type { ExportCrypto } from './record.ts';

/** A key of the JWKS (docs/verify.md, 5) whose `kid` is its thumbprint. */
export interface ServiceKey {
  readonly purpose: unknown;
  readonly isCompromised: boolean;
  /** Unix seconds. */
  readonly nbf: number;
  readonly x: Uint8Array<ArrayBuffer>;
}

/**
 * The Ed25519 keys of a JWK set by `kid`. A key whose `kid` is not its thumbprint is left out, and one that
 * comes twice is compromised if either says so. Throws TypeError for what is no JWK set.
 */
export async function keysOf(jwks: unknown): Promise<ReadonlyMap<string, ServiceKey>> {
  if (!isObject(jwks) || !Array.isArray(jwks['keys'])) throw new TypeError('jwks must be a parsed JWK set');
  const keys = new Map<string, ServiceKey>();
  for (const jwk of jwks['keys']) {
    if (!isObject(jwk) || jwk['kty'] !== 'OKP' || jwk['crv'] !== 'Ed25519') continue;
    const { kid, x, nbf, purpose, compromised } = jwk;
    const bytes = fromBase64Url(x);
    const isThumbprint = kid === (await sha256Base64Url(`{"crv":"Ed25519","kty":"OKP","x":"${x}"}`));
    if (bytes?.length !== 32 || !isThumbprint || typeof kid !== 'string' || typeof nbf !== 'number') continue;
    const isCompromised = compromised !== false || keys.get(kid)?.isCompromised === true;
    keys.set(kid, { purpose, isCompromised, nbf, x: bytes });
  }
  return keys;
}

/** What verifying an export takes, with what Node.js and browsers have. */
export const webCrypto = (keys: ReadonlyMap<string, ServiceKey>): ExportCrypto => ({
  hash: hashOf,
  find: (purpose, kid) => {
    const key = keys.get(kid);
    if (key === undefined || key.purpose !== purpose) return null;
    const { nbf, isCompromised } = key;
    const notBeforeMs = nbf * 1_000;
    return {
      notBeforeMs,
      isCompromised,
      verifies: (message, signature) => verifies(key, message, signature),
    };
  },
});

const p = 2n ** 255n - 19n;
const order = 2n ** 252n + 27742317777372353535851937790883648493n;
/** y of the points of small order: 0, 1, -1, and the two of order 8. */
const smallOrder: ReadonlySet<bigint> = new Set([
  0n,
  1n,
  p - 1n,
  0x05fc536d880238b13933c6d305acdfd5f098eff289f4c345b027b2c28f95e826n,
  0x7a03ac9277fdc74ec6cc392cfa53202a0f67100d760b3cba4fd84d3d706a17c7n,
]);

const numberOf = (littleEndian: Uint8Array): bigint =>
  [...littleEndian].reduceRight((number, byte) => number * 256n + BigInt(byte), 0n);

/**
 * Contract §11: engines do not agree about points of small order, so they are refused before one is asked.
 */
function isStrictPoint(bytes: Uint8Array): boolean {
  const y = numberOf(bytes) % 2n ** 255n;
  return y < p && !smallOrder.has(y);
}

/** Ed25519 of RFC 8032 over ASCII text, with the rules of contract §11. False for any other text. */
export async function verifies(key: ServiceKey, message: string, signature: unknown): Promise<boolean> {
  const bytes = fromBase64Url(signature);
  if (bytes?.length !== 64 || numberOf(bytes.subarray(32)) >= order) return false;
  if (!isStrictPoint(key.x) || !isStrictPoint(bytes.subarray(0, 32))) return false;
  return verifyRaw(key.x, encode(message), bytes);
}

type Bytes = Uint8Array<ArrayBuffer>;
type WebCryptoKey = Awaited<ReturnType<typeof crypto.subtle.importKey>>;
/**
 * Imported once: an export has one key for thousands of records. Keys of a JWKS that is dropped go with it.
 */
const imported = new WeakMap<Bytes, Promise<WebCryptoKey>>();

/** WebCrypto; `node:crypto` where this runtime has Ed25519 there alone. */
export async function verifyRaw(x: Bytes, message: Bytes, signature: Bytes): Promise<boolean> {
  const algorithm = { name: 'Ed25519' };
  const found = imported.get(x) ?? crypto.subtle.importKey('raw', x, algorithm, false, ['verify']);
  imported.set(x, found);
  try {
    return await crypto.subtle.verify(algorithm, await found, signature, message);
  } catch (error) {
    const node = globalThis.process?.getBuiltinModule?.('node:crypto');
    // Bytes that are no point of the curve: a key that verifies nothing.
    if ((error as Error).name === 'DataError') return false;
    if (node === undefined) throw error;
    const jwk = { kty: 'OKP', crv: 'Ed25519', x: Buffer.from(x).toString('base64url') };
    return node.verify(null, message, node.createPublicKey({ key: jwk, format: 'jwk' }), signature);
  }
}
