import type { UnixMillis } from './time.ts';

/**
 * The purpose of a key. A verifier accepts only keys of its own purpose (contract §11). `sync` never leaves
 * the service; keys of `log` are stored apart and reach no sidecar.
 */
export const keyPurposes = ['passport', 'catalog', 'attestation', 'sync', 'log'] as const;
export type KeyPurpose = (typeof keyPurposes)[number];

/** The public half of a key with which the service signs. */
export interface VerificationKey {
  /** RFC 7638 thumbprint. */
  readonly kid: string;
  readonly purpose: KeyPurpose;
  /** 32 raw bytes as unpadded base64url, the `x` of its JWK. */
  readonly publicKey: string;
  readonly notBeforeMs: UnixMillis;
  readonly retiredAtMs: UnixMillis | null;
  readonly compromised: boolean;
}
