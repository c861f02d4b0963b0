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

/** How long somebody is waited for where nobody said otherwise (contract §4). */
export const approvalExpiryMsDefault = 300 * secondMs;

/**
 * A request that waits for a person, or did. It belongs to one passport, gate, gate policy and request, and
 * to no other.
 */
export interface Approval {
  readonly approvalId: ApprovalId;
  readonly status: ApprovalStatus;
  readonly passportId: PassportId;
  readonly agentId: string;
  readonly gateId: GateId;
  /** `Gate.policyVersion` when it was opened. */
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
 * What is behind the approval that a request presents. `none`: it presents none. `unasked`: it presents one,
 * and the store of approvals was not asked yet. `mismatch`: there is none of that id, or it belongs to
 * something else.
 */
export type PresentedApproval = 'none' | 'unasked' | 'mismatch' | ApprovalStatus;
