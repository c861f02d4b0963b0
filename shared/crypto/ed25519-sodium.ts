import { createRequire } from 'node:module';
import type { Ed25519 } from './ed25519.ts';
import {
  importPublicKey,
  importSeed,
  isWellFormedSignature,
  publicKeyBytes,
  signatureBytes,
} from './ed25519-checks.ts';

type Sodium = typeof import('sodium-native');

const secretKeyBytes = 64;

/** Ed25519 by libsodium, the fastest. Throws when the native addon cannot be loaded on this machine. */
export function sodiumEd25519(): Ed25519 {
  // A dynamic import would be asynchronous, and a static one would end the program where the addon is
  // missing.
  const sodium: Sodium = createRequire(import.meta.url)('sodium-native');
  return {
    name: 'sodium-native',
    signer: (seed) => {
      const publicKey = new Uint8Array(publicKeyBytes);
      const secretKey = new Uint8Array(secretKeyBytes);
      sodium.crypto_sign_seed_keypair(publicKey, secretKey, importSeed(seed));
      return {
        publicKey,
        sign: (message) => {
          const signature = new Uint8Array(signatureBytes);
          sodium.crypto_sign_detached(signature, unshared(message), secretKey);
          return signature;
        },
      };
    },
    verifier: (publicKey) => {
      const key = importPublicKey(publicKey);
      return (message, signature) =>
        isWellFormedSignature(signature) &&
        sodium.crypto_sign_verify_detached(unshared(signature), unshared(message), key) === true;
    },
  };
}

/** The binding does not read memory shared between threads, so such bytes are copied. */
const unshared = (bytes: Uint8Array): Uint8Array =>
  bytes.buffer instanceof SharedArrayBuffer ? Uint8Array.from(bytes) : bytes;
