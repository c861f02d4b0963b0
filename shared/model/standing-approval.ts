import type { GateId, PassportId, StandingApprovalId } from './ids.ts';
import type { MicroUsd } from './money.ts';
import type { PermissionKey } from './permission.ts';
import { dayMs, type UnixMillis } from './time.ts';

/**
 * What a standing approval permits without asking a person again (contract §8): requests of one passport, or
 * of all passports of an owner, for one permission at one gate. One of `passportId` and `owner` is null.
 */
export interface StandingApprovalTerms {
  readonly standingApprovalId: StandingApprovalId;
  readonly passportId: PassportId | null;
  /** A person or team: passports of the gate's own account. */
  readonly owner: string | null;
  readonly permissionKey: PermissionKey;
  /** The most that one request may spend. */
  readonly eachMicroUsd: MicroUsd;
  /** The most that all its requests may spend together. */
  readonly totalMicroUsd: MicroUsd;
  readonly expiresAtMs: UnixMillis;
}

/**
 * `active` until one of the others. `revoked`: ended by a caller. `policy_changed`: the policy of the gate
 * changed, or the gate was deleted. One with nothing left stays `active`: a void may give money back to it.
 */
export const standingApprovalStatuses = ['active', 'expired', 'revoked', 'policy_changed'] as const;
export type StandingApprovalStatus = (typeof standingApprovalStatuses)[number];

/** A standing approval with its history. It is bound to one policy of its gate. */
export interface StandingApproval extends StandingApprovalTerms {
  readonly gateId: GateId;
  /** `Gate.policyVersion` when it was made. */
  readonly gateVersion: number;
  /** Null with an owner. */
  readonly agentId: string | null;
  readonly note: string | null;
  readonly createdAtMs: UnixMillis;
  /** The id of the API key or of the person. */
  readonly createdBy: string;
  /** When a caller or a change of the policy ended it; null: neither did. */
  readonly endedAtMs: UnixMillis | null;
  /** Of the caller that ended it; null otherwise. */
  readonly endedBy: string | null;
}

/** Longer than that nobody remembers what was approved: three months, as a passport lives by default. */
export const standingApprovalMsMax = 90 * dayMs;
