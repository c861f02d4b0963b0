import type { CheckName, DecisionReason, Outcome } from './decision.ts';
import type { IdDigest } from './id-digest.ts';
import type { AccountId, ApprovalId, AttestationId, GateId, PassportId, SidecarId } from './ids.ts';
import type { MicroUsd } from './money.ts';
import type { PermissionKey } from './permission.ts';
import type { UnixMillis } from './time.ts';
import type { TrustTier } from './trust-tier.ts';

/** The id of the passport, gate or account whose chain a record belongs to (contract §9). */
export type ChainId = PassportId | GateId | AccountId;

/** Of a SUSPEND: how its approval ended. */
export const approvalResolutions = ['approved', 'denied', 'expired'] as const;

/**
 * Of a PERMIT: its hold ended or was extended, money was refunded, or an outcome was reported that moves none
 * (contract §19). `amountMicroUsd` is what the PERMIT counts from now on.
 */
export const permitResolutions = [
  'settled',
  'released',
  'expired',
  'extended',
  'refunded',
  'reported',
] as const;
export type PermitResolution = (typeof permitResolutions)[number];

/**
 * voided: the decision in `refersTo` has no effect, because no client got it as an answer; the record repeats
 * the voided decision.
 */
export type Resolution = (typeof approvalResolutions)[number] | PermitResolution | 'voided';

export interface PiiFinding {
  /** JSON pointer (RFC 6901) into `request`. */
  readonly pointer: string;
  readonly type: string;
}

/** How a passport's holder proved possession of its key (contract §9). */
export const recordProofs = ['dpop', 'httpsig'] as const;
export type RecordProof = (typeof recordProofs)[number];

/**
 * Members that newer sidecars write: this version takes, signs and exports their values, and judges none.
 * Named as on the wire, each in its RFC 8785 form, so that `JSON.stringify` writes it.
 */
export interface CarriedMembers {
  readonly conditions: readonly string[] | null;
  readonly external: { readonly commitment: string | null; readonly decision: boolean | null } | null;
  readonly facts: readonly { readonly commitment: string; readonly path: string }[] | null;
  readonly permit_token: string | null;
  readonly shadow: {
    readonly condition: string | null;
    readonly decision: string | null;
    readonly policy_hash: string;
    readonly reason: string | null;
  } | null;
  readonly units: Readonly<Record<string, number>> | null;
  readonly user: string | null;
}

export const noCarried: CarriedMembers = Object.freeze({
  conditions: null,
  external: null,
  facts: null,
  permit_token: null,
  shadow: null,
  units: null,
  user: null,
});

/** The members that records have in form 2 (contract §9). */
export interface RecordExtras {
  /** The policy that decided (`policyHash`). Null: no gate, or its policy is not on record. */
  readonly policyHash: string | null;
  /** Of the gate when it decided. */
  readonly trustLevel: TrustTier | null;
  /** Canonical, as the request named it; null where it may be personal data. */
  readonly domain: string | null;
  /**
   * Age of the state that decided. Null: of a control plane, which decides on the database, or not known.
   */
  readonly stateAgeMs: number | null;
  /** The approval that a PERMIT used, or that a SUSPEND is about. */
  readonly approvalId: string | null;
  /** `wal_…`, of the passport. */
  readonly walletId: string | null;
  /** The keys of its wallets from its own up to the root, as the source of the record knew them. */
  readonly walletPath: readonly IdDigest[] | null;
  readonly holdExpiresAtMs: UnixMillis | null;
  readonly proof: RecordProof | null;
  /** The subject was named without its token. Null: a record in form 1, which has none of these members. */
  readonly asserted: boolean | null;
  /** Null: none has a value. */
  readonly carried: CarriedMembers | null;
}

/** Of a record in form 1. */
export const noExtras: RecordExtras = Object.freeze({
  policyHash: null,
  trustLevel: null,
  domain: null,
  stateAgeMs: null,
  approvalId: null,
  walletId: null,
  walletPath: null,
  holdExpiresAtMs: null,
  proof: null,
  asserted: null,
  carried: null,
});

/** Of a record in form 2 without any of them. */
export const emptyExtras: RecordExtras = Object.freeze({ ...noExtras, asserted: false });

/**
 * `agent-trust.attestations.v1` or `.v2`. Which one a new record gets is the control plane's to say; a chain
 * may hold both.
 */
export type RecordForm = 1 | 2;

/** The facts of a decision, before the record has a place in its chain. */
export interface AttestationRecord extends RecordExtras {
  readonly id: AttestationId;
  readonly chainId: ChainId;
  readonly passportId: PassportId | null;
  readonly gateId: GateId | null;
  readonly decision: Outcome;
  readonly reason: DecisionReason | null;
  /** `sha256:` + hex over the RFC 8785 form of the request without `proof` and `approval_id`. */
  readonly requestHash: string;
  readonly permissionKey: PermissionKey | null;
  readonly amountMicroUsd: MicroUsd | null;
  readonly constraintsEvaluated: readonly CheckName[];
  readonly pii: readonly PiiFinding[];
  readonly test: boolean;
  readonly resolution: Resolution | null;
  /** The approval it resolves, or the attestation it voids. Null exactly if `resolution` is. */
  readonly refersTo: AttestationId | ApprovalId | null;
  readonly source: SidecarId | 'control-plane';
  /**
   * The account of the sidecar that decided, or of the control plane's caller. Null only in records of older
   * builds: their hashes cover neither this nor `refersTo`, so their public form omits both.
   */
  readonly sourceAccount: AccountId | null;
  readonly timestampMs: UnixMillis;
}

/** A record in its chain: linked to its predecessor, hashed and signed. */
export interface Attestation extends AttestationRecord {
  /** From 1, without holes. */
  readonly sequence: number;
  readonly previousAttestationHash: string | null;
  readonly hash: string;
  readonly signature: string;
  readonly signingKeyId: string;
}
