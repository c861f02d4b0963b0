/**
 * The part of sodium-native that is used here; the package comes without types. All arguments are written or
 * read in place.
 */
declare module 'sodium-native' {
  export function crypto_sign_seed_keypair(
    publicKey: Uint8Array,
    secretKey: Uint8Array,
    seed: Uint8Array,
  ): void;
  export function crypto_sign_detached(
    signature: Uint8Array,
    message: Uint8Array,
    secretKey: Uint8Array,
  ): void;
  /** Answers undefined when one of them lies in a SharedArrayBuffer. */
  export function crypto_sign_verify_detached(
    signature: Uint8Array,
    message: Uint8Array,
    publicKey: Uint8Array,
  ): boolean | undefined;
}
