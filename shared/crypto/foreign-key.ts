import { constants, createPublicKey, type JsonWebKey, type KeyObject, verify } from 'node:crypto';
import type { FederatedAlgorithm, ForeignKey } from '../model/federation.ts';
import { isFederatedAlgorithm } from '../model/federation.ts';
import { limits } from '../model/limits.ts';
import { decodeBase64url, encodeBase64url } from './base64url.ts';
import type { Verifier } from './ed25519.ts';
import { isAcceptablePublicKey, isWellFormedSignature } from './ed25519-checks.ts';
import { isJsonObject, type JsonObject } from './json-object.ts';

/** An unusable key set of another issuer. The message continues "the key set ...". */
export class KeySetError extends Error {
  override readonly name = 'KeySetError';
}

/** What a key set has for us. */
export interface ReadKeys {
  readonly keys: readonly ForeignKey[];
  /** What it should not hold and is passed over. Continues "the key set ..."; null: nothing. */
  readonly fault: string | null;
}

/**
 * The keys of a JWKS (RFC 7517) that verify signatures by one of these algorithms; others are passed over, as
 * RFC 7517 §5 asks. A key is bound to one algorithm: its own `alg`, else that of its curve, else of RSA the
 * first that is listed. So no token chooses how a key is used. A key that is private, symmetric or one too
 * many is passed over, too, and named. Throws KeySetError for no JWKS, and no key left.
 */
export function readForeignKeys(jwks: unknown, algorithms: readonly FederatedAlgorithm[]): ReadKeys {
  const entries: unknown = isJsonObject(jwks) ? jwks['keys'] : null;
  if (!Array.isArray(entries)) throw new KeySetError('is not an object with an array "keys"');
  const isSecret = (entry: unknown) =>
    isJsonObject(entry) && (entry['d'] !== undefined || entry['k'] !== undefined);
  const usable = entries.flatMap((entry) => (isSecret(entry) ? [] : (readKey(entry, algorithms) ?? [])));
  const faults = [
    ...(entries.some(isSecret) ? ['holds a private or symmetric key: publish public keys only'] : []),
    ...(usable.length > limits.foreignKeysMax
      ? [`has ${usable.length} keys; at most ${limits.foreignKeysMax} are allowed`]
      : []),
  ];
  const fault = faults.length === 0 ? null : faults.join(', and ');
  if (usable.length === 0)
    throw new KeySetError(fault ?? `has no key for signatures by ${algorithms.join(', ')}`);
  return { keys: usable.slice(0, limits.foreignKeysMax), fault };
}

function readKey(entry: unknown, algorithms: readonly FederatedAlgorithm[]): ForeignKey | null {
  if (!isJsonObject(entry)) return null;
  const { kid, use, key_ops: operations } = entry;
  // SPIFFE bundles say what kind of SVID a key is for (SPIFFE Trust Domain and Bundle §4.2.2).
  if (use !== undefined && use !== 'sig' && use !== 'jwt-svid') return null;
  if (operations !== undefined && !(Array.isArray(operations) && operations.includes('verify'))) return null;
  if (kid !== undefined && (typeof kid !== 'string' || kid.length > limits.foreignKidCharsMax)) return null;
  const algorithm = algorithmOf(entry, algorithms);
  if (algorithm === null) return null;
  const key = importKey(entry);
  if (key === null || !fits(key, algorithm)) return null;
  return {
    kid: kid ?? null,
    algorithm,
    publicKey: encodeBase64url(key.export({ format: 'der', type: 'spki' })),
  };
}

/** Null: none of these. */
function algorithmOf(
  { alg, kty, crv }: JsonObject,
  algorithms: readonly FederatedAlgorithm[],
): FederatedAlgorithm | null {
  const named = alg === 'Ed25519' ? 'EdDSA' : alg;
  if (named !== undefined) return isFederatedAlgorithm(named) && algorithms.includes(named) ? named : null;
  const fitting = algorithms.find((each) => {
    const { kty: type, crv: curve } = kinds[each];
    return type === kty && (curve === null || curve === crv);
  });
  return fitting ?? null;
}

const kinds: Readonly<
  Record<FederatedAlgorithm, { readonly kty: string; readonly crv: string | null; readonly type: string }>
> = {
  RS256: { kty: 'RSA', crv: null, type: 'rsa' },
  PS256: { kty: 'RSA', crv: null, type: 'rsa' },
  ES256: { kty: 'EC', crv: 'P-256', type: 'ec' },
  ES384: { kty: 'EC', crv: 'P-384', type: 'ec' },
  EdDSA: { kty: 'OKP', crv: 'Ed25519', type: 'ed25519' },
};

/** The members of RFC 7518 §6 and RFC 8037 alone: nothing else of an entry reaches OpenSSL. */
function importKey({ kty, crv, x, y, n, e }: JsonObject): KeyObject | null {
  const jwk = Object.fromEntries(
    Object.entries({ kty, crv, x, y, n, e }).filter(([, value]) => typeof value === 'string'),
  );
  try {
    return createPublicKey({ key: jwk as JsonWebKey, format: 'jwk' });
  } catch {
    return null;
  }
}

const curves: Readonly<Record<string, string>> = { ES256: 'prime256v1', ES384: 'secp384r1' };

/** A small RSA key is guessed, and a large one costs every verification a millisecond. */
const rsaBits = { min: 2048, max: 4096 } as const;

function fits(key: KeyObject, algorithm: FederatedAlgorithm): boolean {
  if (key.asymmetricKeyType !== kinds[algorithm].type) return false;
  const { namedCurve, modulusLength = 0, publicExponent = 0n } = key.asymmetricKeyDetails ?? {};
  if (key.asymmetricKeyType === 'ec') return namedCurve === curves[algorithm];
  if (key.asymmetricKeyType === 'rsa')
    return modulusLength >= rsaBits.min && modulusLength <= rsaBits.max && publicExponent > 1n;
  return isAcceptablePublicKey(rawEd25519(key));
}

/** The 32 bytes at the end of the SubjectPublicKeyInfo. */
const rawEd25519 = (key: KeyObject): Uint8Array =>
  Uint8Array.from(key.export({ format: 'der', type: 'spki' }).subarray(-32));

/**
 * Verifies by this algorithm and no other. `publicKey`: as of a ForeignKey. Throws TypeError for a key that
 * does not fit.
 */
export function foreignVerifier(algorithm: FederatedAlgorithm, publicKey: Uint8Array): Verifier {
  const key = importSpki(publicKey);
  if (key === null || !fits(key, algorithm)) throw new TypeError(`not a public key for ${algorithm}`);
  switch (algorithm) {
    case 'RS256':
      return (message, signature) => verify('sha256', message, key, signature);
    case 'PS256': {
      const padded = {
        key,
        padding: constants.RSA_PKCS1_PSS_PADDING,
        saltLength: constants.RSA_PSS_SALTLEN_DIGEST,
      };
      return (message, signature) => verify('sha256', message, padded, signature);
    }
    case 'ES256':
    case 'ES384': {
      const [hash, bytes] = algorithm === 'ES256' ? (['sha256', 64] as const) : (['sha384', 96] as const);
      const raw = { key, dsaEncoding: 'ieee-p1363' } as const;
      return (message, signature) => signature.length === bytes && verify(hash, message, raw, signature);
    }
    case 'EdDSA':
      return (message, signature) =>
        isWellFormedSignature(signature) && verify(null, message, key, signature);
  }
}

function importSpki(publicKey: Uint8Array): KeyObject | null {
  try {
    return createPublicKey({ key: Buffer.from(publicKey), format: 'der', type: 'spki' });
  } catch {
    return null;
  }
}

/** The bytes of a ForeignKey's public key. */
export function foreignKeyBytes({ publicKey }: Pick<ForeignKey, 'publicKey'>): Uint8Array {
  const bytes = decodeBase64url(publicKey);
  if (bytes === null) throw new TypeError('a public key is base64url');
  return bytes;
}
