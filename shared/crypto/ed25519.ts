/**
 * Room `shared/crypto`: Ed25519 behind one function, with three engines; `passport-token.ts` (the envelope
 * of a token), `keyset.ts`, `canonical-json.ts`, `request-writer.ts` (the same while it checks),
 * `content-hash.ts`, `api-key.ts`, `webhook-signature.ts`, `seal.ts`. `node:crypto` is imported nowhere else
 * in the pure rooms.
 */

export interface Signer {
  /** 32 bytes. Not to be changed. */
  readonly publicKey: Uint8Array;
  /** The 64-byte signature of RFC 8032. Deterministic: the same message has one signature. */
  sign(message: Uint8Array): Uint8Array;
}

/**
 * Whether the signature is this key's over the message. Never throws, even for bytes of wrong length. Refuses
 * cases that RFC 8032 leaves open: unreduced S, and an R of small order.
 */
export type Verifier = (message: Uint8Array, signature: Uint8Array) => boolean;

/** Ed25519 by one of three libraries. All give the same answer for all input; they differ in speed only. */
export interface Ed25519 {
  readonly name: 'sodium-native' | 'node:crypto' | 'noble';
  /** Takes the 32-byte seed, which is copied. Throws TypeError for any other length. */
  signer(seed: Uint8Array): Signer;
  /**
   * Takes 32 bytes, which are copied. Throws TypeError for a wrong length, a non-canonical encoding or a key
   * of small order.
   */
  verifier(publicKey: Uint8Array): Verifier;
}
