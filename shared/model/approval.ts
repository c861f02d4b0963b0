import type { ApprovalId, GateId, PassportId, UserId } from './ids.ts';
import type { MicroUsd } from './money.ts';
import type { PermissionKey } from './permission.ts';
import { hourMs, secondMs, type UnixMillis } from './time.ts';

/**
 * States of an approval (contract §8):
 *
 *     pending ──approve──> approved ──the request comes again──> used
 *        │ └────deny────> denied           (undone in time, an answer leaves it pending)
 *        └── expires_at ──> expired <── expires_at ── approved
 */
export const approvalStatuses = ['pending', 'approved', 'denied', 'expired', 'used'] as const;
export type ApprovalStatus = (typeof approvalStatuses)[number];

/** An answer can be taken back this long by the one who gave it (contract §8). */
export const approvalUndoMs = 5 * secondMs;

/** Default time to wait for a person (contract §4). */
export const approvalExpiryMsDefault = hourMs;

/** What is asked, in words for the person who answers (contract §8). Written by the resource server. */
export interface ApprovalDisplay {
  readonly title: string;
  readonly lines: readonly { readonly label: string; readonly value: string }[];
  /** An absolute http or https URL; null if none. */
  readonly url: string | null;
}

/** What one person has said (contract §8). */
export interface PersonsAnswer {
  readonly userId: UserId;
  readonly answer: 'approved' | 'denied';
  readonly atMs: UnixMillis;
  readonly note: string | null;
  /** Whether the person signed it with a passkey. */
  readonly isSigned: boolean;
  /** The key or person that had invited the person; null: nobody, or not known. */
  readonly invitedBy: string | null;
}

/**
 * A request that waits, or waited, for a person. It is bound to one passport, gate, gate policy and request.
 */
export interface Approval {
  readonly approvalId: ApprovalId;
  readonly status: ApprovalStatus;
  readonly passportId: PassportId;
  readonly agentId: string;
  /** For whom the agent acts. Null: nobody, or an issuer of another account says it. */
  readonly user: string | null;
  readonly gateId: GateId;
  /** `Gate.policyVersion` at its opening. */
  readonly gateVersion: number;
  readonly requestHash: string;
  readonly permissionKey: PermissionKey | null;
  readonly amountMicroUsd: MicroUsd | null;
  /** Null: none was given, or it was forgotten 90 days after the end. */
  readonly display: ApprovalDisplay | null;
  /** The conditions that failed, for which a person is asked; null: there are none to ask. */
  readonly conditions: readonly string[] | null;
  readonly createdAtMs: UnixMillis;
  readonly expiresAtMs: UnixMillis;
  readonly resolvedAtMs: UnixMillis | null;
  /** The id of the API key or of the person. */
  readonly resolvedBy: string | null;
  readonly note: string | null;
  /** Those of people that stand, in the order in which they were given. */
  readonly answers: readonly PersonsAnswer[];
}

/**
 * The state of the approval that a request presents. `none`: none presented. `unasked`: presented, but the
 * store of approvals was not asked yet. `mismatch`: unknown id, or bound to something else.
 */
export type PresentedApproval = 'none' | 'unasked' | 'mismatch' | ApprovalStatus;
