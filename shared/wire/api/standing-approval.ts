import { type Static, Type } from 'typebox';
import { invalidRequest } from '../../errors/api-error.ts';
import { type GateId, isId, type PassportId } from '../../model/ids.ts';
import { limits } from '../../model/limits.ts';
import { type MicroUsd, parseUsd, renderUsd } from '../../model/money.ts';
import { isRequestablePermission, type PermissionKey, permissionCharsMax } from '../../model/permission.ts';
import {
  type StandingApproval,
  type StandingApprovalStatus,
  type StandingApprovalTerms,
  standingApprovalMsMax,
  standingApprovalStatuses,
} from '../../model/standing-approval.ts';
import { dayMs, parseTime, renderOptionalTime, renderTime, type UnixMillis } from '../../model/time.ts';
import type { StandingApprovalBody } from '../sync/sync-schema.ts';
import { canonicalName } from './email.ts';
import { closed, nullable, plainText, Timestamp } from './fields.ts';
import { pagingQuery } from './paging.ts';

const Status = Type.Enum(standingApprovalStatuses);
/** Above 0, at most 1e9, at most 6 decimals, which `parseUsd` checks. */
const Usd = Type.Number({ exclusiveMinimum: 0 });

/** `POST /approvals/standing` */
export const StandingApprovalCreation = closed({
  gate_id: Type.String(),
  passport_id: Type.Optional(Type.String()),
  /** A person or team whose passports it is for, in place of `passport_id`. */
  owner: Type.Optional(plainText({ minLength: 1, maxLength: limits.ownerCharsMax })),
  permission_key: Type.String({ maxLength: permissionCharsMax }),
  each_usd: Usd,
  total_usd: Usd,
  expires_at: Type.String(),
  note: Type.Optional(nullable(plainText({ maxLength: limits.reasonCharsMax }))),
});

/** Text that PostgreSQL can compare with an id. */
const FilterId = Type.String({ maxLength: 64, pattern: '^[^\\u0000]*$' });

/** `GET /approvals/standing` */
export const StandingApprovalListQuery = Type.Object({
  status: Type.Optional(Status),
  gate_id: Type.Optional(FilterId),
  passport_id: Type.Optional(FilterId),
  owner: Type.Optional(plainText({ maxLength: limits.ownerCharsMax })),
  ...pagingQuery,
});

export const StandingApprovalAnswer = Type.Object({
  standing_approval_id: Type.String(),
  status: Status,
  gate_id: Type.String(),
  /** Null with an owner; `agent_id` too. */
  passport_id: nullable(Type.String()),
  agent_id: nullable(Type.String()),
  /** Null with a passport. */
  owner: nullable(Type.String()),
  permission_key: Type.String(),
  /** The most that one request may spend, and all of them together. */
  each_usd: Type.Number(),
  total_usd: Type.Number(),
  /** Spent by PERMITs on record. */
  used_usd: Type.Number(),
  /** Of the rest, what sidecars hold and no record shows as spent. */
  leased_usd: Type.Number(),
  /** `total_usd` less `used_usd`. */
  left_usd: Type.Number(),
  note: nullable(Type.String()),
  created_at: Timestamp,
  created_by: Type.String(),
  expires_at: Timestamp,
  /** When a caller or a change of the gate's policy ended it. */
  ended_at: nullable(Timestamp),
  ended_by: nullable(Type.String()),
});
export type StandingApprovalAnswer = Static<typeof StandingApprovalAnswer>;

/** What a caller asks for; whether gate and passport exist is seen later. */
export interface NewStandingApproval {
  readonly gateId: GateId | null;
  readonly passportId: PassportId | null;
  /** Null: it is for a passport. */
  readonly owner: string | null;
  readonly permissionKey: PermissionKey;
  readonly eachMicroUsd: MicroUsd;
  readonly totalMicroUsd: MicroUsd;
  readonly expiresAtMs: UnixMillis;
  readonly note: string | null;
}

/** Throws `invalid_request`, naming the field. An id that is none is null. */
export function parseStandingApproval(
  body: Static<typeof StandingApprovalCreation>,
  nowMs: UnixMillis,
): NewStandingApproval {
  const { gate_id: gateId, passport_id: passportId, owner, permission_key: permissionKey } = body;
  if (owner !== undefined && passportId !== undefined)
    throw invalidRequest('owner', 'Name a passport_id or an owner, not both.');
  if (owner === undefined && passportId === undefined)
    throw invalidRequest('passport_id', 'passport_id or owner is required.');
  if (!isRequestablePermission(permissionKey))
    throw invalidRequest(
      'permission_key',
      'permission_key must be <area>:<action> in lower case, without *.',
    );
  const eachMicroUsd = parseMoney(body, 'each_usd');
  const totalMicroUsd = parseMoney(body, 'total_usd');
  if (totalMicroUsd < eachMicroUsd) throw invalidRequest('total_usd', 'total_usd must be at least each_usd.');
  return {
    gateId: isId('gate', gateId) ? gateId : null,
    passportId: isId('pass', passportId) ? passportId : null,
    owner: canonicalName(owner ?? null),
    permissionKey,
    eachMicroUsd,
    totalMicroUsd,
    expiresAtMs: parseEnd(body.expires_at, nowMs),
    note: body.note ?? null,
  };
}

function parseMoney(body: Static<typeof StandingApprovalCreation>, name: 'each_usd' | 'total_usd'): MicroUsd {
  const amount = parseUsd(body[name]);
  if (amount === null || amount === 0)
    throw invalidRequest(name, `${name} must be more than 0 and at most 1e9, with at most 6 decimals.`);
  return amount;
}

function parseEnd(text: string, nowMs: UnixMillis): UnixMillis {
  const timeMs = parseTime(text);
  if (timeMs === null) throw invalidRequest('expires_at', 'expires_at must be an RFC 3339 date-time.');
  if (timeMs <= nowMs || timeMs > nowMs + standingApprovalMsMax)
    throw invalidRequest(
      'expires_at',
      `expires_at must be in the future, and at most ${standingApprovalMsMax / dayMs} days away.`,
    );
  return timeMs;
}

/** A standing approval and what is left of it, at some moment. */
export interface CountedStandingApproval extends StandingApproval {
  readonly status: StandingApprovalStatus;
  readonly usedMicroUsd: MicroUsd;
  readonly leasedMicroUsd: MicroUsd;
}

export const renderStandingApproval = (counted: CountedStandingApproval): StandingApprovalAnswer => ({
  standing_approval_id: counted.standingApprovalId,
  status: counted.status,
  gate_id: counted.gateId,
  passport_id: counted.passportId,
  agent_id: counted.agentId,
  owner: counted.owner,
  permission_key: counted.permissionKey,
  each_usd: renderUsd(counted.eachMicroUsd),
  total_usd: renderUsd(counted.totalMicroUsd),
  used_usd: renderUsd(counted.usedMicroUsd),
  leased_usd: renderUsd(counted.leasedMicroUsd),
  left_usd: renderUsd((counted.totalMicroUsd - counted.usedMicroUsd) as MicroUsd),
  note: counted.note,
  created_at: renderTime(counted.createdAtMs),
  created_by: counted.createdBy,
  expires_at: renderTime(counted.expiresAtMs),
  ended_at: renderOptionalTime(counted.endedAtMs),
  ended_by: counted.endedBy,
});

/** As the sidecars of its gate know it. */
export const renderStandingApprovalForSidecars = (terms: StandingApprovalTerms): StandingApprovalBody => ({
  standing_approval_id: terms.standingApprovalId,
  ...(terms.passportId !== null && { passport_id: terms.passportId }),
  ...(terms.owner !== null && { owner: terms.owner }),
  permission_key: terms.permissionKey,
  each_micro_usd: terms.eachMicroUsd,
  total_micro_usd: terms.totalMicroUsd,
  expires_at_ms: terms.expiresAtMs,
});

export const parseStandingApprovalOfFeed = (body: StandingApprovalBody): StandingApprovalTerms => ({
  standingApprovalId: body.standing_approval_id,
  passportId: body.passport_id ?? null,
  owner: canonicalName(body.owner ?? null),
  permissionKey: body.permission_key,
  eachMicroUsd: body.each_micro_usd,
  totalMicroUsd: body.total_micro_usd,
  expiresAtMs: body.expires_at_ms,
});
