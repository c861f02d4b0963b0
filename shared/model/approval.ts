import type { ApprovalId, GateId, PassportId } from './ids.ts';
import type { MicroUsd } from './money.ts';
import type { PermissionKey } from './permission.ts';
import { secondMs, type UnixMillis } from './time.ts';

/**
 * States of an approval (contract §8):
 *
 *     pending ──approve──> approved ──the request comes again──> used
 *        │ └────deny────> denied
 *        └── expires_at ──> expired <── expires_at ── approved
 */
export const approvalStatuses = ['pending', 'approved', 'denied', 'expired', 'used'] as const;
export type ApprovalStatus = (typeof approvalStatuses)[number];

/** Default time to wait for a person (contract §4). */
export const approvalExpiryMsDefault = 300 * secondMs;

/**
 * A request that waits, or waited, for a person. It is bound to one passport, gate, gate policy and request.
 */
export interface Approval {
  readonly approvalId: ApprovalId;
  readonly status: ApprovalStatus;
  readonly passportId: PassportId;
  readonly agentId: string;
  readonly gateId: GateId;
  /** `Gate.policyVersion` at its opening. */
  readonly gateVersion: number;
  readonly requestHash: string;
  readonly permissionKey: PermissionKey | null;
  readonly amountMicroUsd: MicroUsd | null;
  readonly createdAtMs: UnixMillis;
  readonly expiresAtMs: UnixMillis;
  readonly resolvedAtMs: UnixMillis | null;
  /** The id of the API key or of the person. */
  readonly resolvedBy: string | null;
  readonly note: string | null;
}

/**
 * The state of the approval that a request presents. `none`: none presented. `unasked`: presented, but the
 * store of approvals was not asked yet. `mismatch`: unknown id, or bound to something else.
 */
export type PresentedApproval = 'none' | 'unasked' | 'mismatch' | ApprovalStatus;
