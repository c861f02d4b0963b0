import { createPrivateKey, createPublicKey, sign, verify } from 'node:crypto';
import { encodeBase64url } from './base64url.ts';
import type { Ed25519 } from './ed25519.ts';
import { importPublicKey, importSeed, isWellFormedSignature, publicKeyBytes } from './ed25519-checks.ts';

/** RFC 8410 §7: the PKCS #8 wrapping of an Ed25519 seed, up to the seed itself. */
const pkcs8Prefix = Buffer.from('302e020100300506032b657004220420', 'hex');

/**
 * Ed25519 by the OpenSSL inside Node. The KeyObject is made once per key: making it costs as much as
 * verifying.
 */
export const nodeEd25519 = (): Ed25519 => ({
  name: 'node:crypto',
  signer: (seed) => {
    const key = createPrivateKey({
      key: Buffer.concat([pkcs8Prefix, importSeed(seed)]),
      format: 'der',
      type: 'pkcs8',
    });
    // The public key is the tail of its SubjectPublicKeyInfo (RFC 8410 §4).
    const spki = createPublicKey(key).export({ format: 'der', type: 'spki' });
    return {
      publicKey: Uint8Array.from(spki.subarray(spki.length - publicKeyBytes)),
      sign: (message) => Uint8Array.from(sign(null, message, key)),
    };
  },
  verifier: (publicKey) => {
    const x = encodeBase64url(importPublicKey(publicKey));
    const key = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' });
    return (message, signature) => isWellFormedSignature(signature) && verify(null, message, key, signature);
  },
});
