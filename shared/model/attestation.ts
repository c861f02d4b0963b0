import type { CheckName, DecisionReason, Outcome } from './decision.ts';
import type { AccountId, AttestationId, GateId, PassportId, SidecarId } from './ids.ts';
import type { MicroUsd } from './money.ts';
import type { PermissionKey } from './permission.ts';
import type { UnixMillis } from './time.ts';

/** The id of the passport, gate or account whose chain a record belongs to (decisions §9). */
export type ChainId = PassportId | GateId | AccountId;

export type Resolution = 'approved' | 'denied' | 'expired';

export interface PiiFinding {
  /** JSON pointer (RFC 6901) into `request`. */
  readonly pointer: string;
  readonly type: string;
}

/** What is known of a decision at the moment it is made, before it has a place in its chain. */
export interface AttestationRecord {
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
  readonly source: SidecarId | 'control-plane';
  readonly timestampMs: UnixMillis;
}

/** A record in its place: linked to the one before, hashed and signed. */
export interface Attestation extends AttestationRecord {
  /** From 1, without holes. */
  readonly sequence: number;
  readonly previousAttestationHash: string | null;
  readonly hash: string;
  readonly signature: string;
  readonly signingKeyId: string;
}
