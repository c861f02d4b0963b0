import type { RecordProof } from './attestation.ts';

/** How far a proof is remembered where one is required: per sidecar, or once over all of them. */
export const proofReplays = ['sidecar', 'exact'] as const;
export type ProofReplay = (typeof proofReplays)[number];

/** Whether a gate or passport requires proof of possession (contract §5). */
export type ProofDemand = 'off' | ProofReplay;

/** RFC 9449, or RFC 9421 in the profile of Web Bot Auth. */
export type ProofScheme = RecordProof;

/** The stricter of two demands. */
export const stricterProof = (one: ProofDemand, other: ProofDemand): ProofDemand =>
  one === 'exact' || other === 'exact' ? 'exact' : one === 'off' ? other : one;

/** Bounds of proofs, each with its reason. */
export const proofLimits = {
  /** Clocks of agents: how long a proof that has ended still counts (contract §5). */
  leewayBackMs: 30_000,
  /** How far in the future a proof may begin. */
  leewayAheadMs: 5_000,
  /** From `created` to `expires` of a signature (contract §5). */
  windowMsMax: 300_000,
  /** `jti` and `nonce`: a UUID has 36, a SHA-256 in hex 64. */
  nonceCharsMax: 256,
  /** Of one field of a proof: a whole token fits, with its scheme. */
  fieldCharsMax: 9 * 1024,
  /** Covered components of a signature: a message has few headers that mean something. */
  componentsMax: 32,
  /** Fields of `headers`. */
  fieldsMax: 64,
} as const;

/** As long as a proof can be good from now on: it may begin a little ahead, and is taken a little late. */
export const proofLifetimeMsMax =
  proofLimits.leewayAheadMs + proofLimits.windowMsMax + proofLimits.leewayBackMs;
