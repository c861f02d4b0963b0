import { type Static, Type } from 'typebox';
import { type Approval, approvalStatuses } from '../model/approval.ts';
import { limits } from '../model/limits.ts';
import { renderUsd } from '../model/money.ts';
import { renderOptionalTime, renderTime } from '../model/time.ts';
import { DisplayAnswer } from './display.ts';
import { closed, nullable, plainText, Timestamp } from './fields.ts';
import { pagingQuery } from './paging.ts';

const Status = Type.Enum(approvalStatuses);

/** `GET /approvals` */
export const ApprovalListQuery = Type.Object({ status: Type.Optional(Status), ...pagingQuery });

/** `POST /approvals/:id/approve` and `/deny` */
export const ApprovalResolution = closed({
  note: Type.Optional(nullable(plainText({ maxLength: limits.reasonCharsMax }))),
});

/** `GET /approvals/:id` */
export const ApprovalQuery = Type.Object({
  /** 0: at once. */
  wait_ms: Type.Integer({ minimum: 0, maximum: limits.approvalWaitMsMax, default: 0 }),
});

export const ApprovalAnswer = Type.Object({
  approval_id: Type.String(),
  /** The page of the console where a person answers. */
  approval_url: Type.String(),
  /** This resource of the API. */
  approval_api_url: Type.String(),
  /** The status now: a pending approval past its time is `expired`. */
  status: Status,
  passport_id: Type.String(),
  agent_id: Type.String(),
  gate_id: Type.String(),
  request_hash: Type.String(),
  permission_key: nullable(Type.String()),
  amount_usd: nullable(Type.Number()),
  /** What is asked, as the resource server wrote it. Forgotten 90 days after `expires_at`. */
  display: nullable(DisplayAnswer),
  created_at: Timestamp,
  expires_at: Timestamp,
  resolved_at: nullable(Timestamp),
  resolved_by: nullable(Type.String()),
  note: nullable(Type.String()),
});
export type ApprovalAnswer = Static<typeof ApprovalAnswer>;

/**
 * Also the data of the events `approval.requested` and `approval.resolved`. `baseUrl`: `{PUBLIC_URL}/v1`; the
 * console is beside it.
 */
export const renderApproval = (approval: Approval, baseUrl: string): ApprovalAnswer => ({
  approval_id: approval.approvalId,
  approval_url: `${baseUrl.replace(/\/v1$/, '')}/console/approvals/${approval.approvalId}`,
  approval_api_url: `${baseUrl}/approvals/${approval.approvalId}`,
  status: approval.status,
  passport_id: approval.passportId,
  agent_id: approval.agentId,
  gate_id: approval.gateId,
  request_hash: approval.requestHash,
  permission_key: approval.permissionKey,
  amount_usd: approval.amountMicroUsd === null ? null : renderUsd(approval.amountMicroUsd),
  display: approval.display as ApprovalAnswer['display'],
  created_at: renderTime(approval.createdAtMs),
  expires_at: renderTime(approval.expiresAtMs),
  resolved_at: renderOptionalTime(approval.resolvedAtMs),
  resolved_by: approval.resolvedBy,
  note: approval.note,
});
