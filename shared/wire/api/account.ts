import { type Static, Type } from 'typebox';
import { invalidRequest } from '../../errors/api-error.ts';
import {
  type Account,
  type AccountStatus,
  accountStatuses,
  type Plan,
  type PlanLimits,
  planLimitsOf,
  plans,
} from '../../model/account.ts';
import { limits } from '../../model/limits.ts';
import { renderTime } from '../../model/time.ts';
import { NewApiKeyAnswer } from './api-key.ts';
import { closed, Name, nullable, Timestamp } from './fields.ts';
import { readOnly, refuseChanges } from './read-only.ts';

const RequestLimit = Type.Optional(nullable(Type.Integer({ minimum: 1, maximum: limits.planRequestsMax })));

/** Absent and null mean the same: no limit. */
const Limits = closed({ requests_per_minute: RequestLimit, requests_per_day: RequestLimit });

/** `POST /accounts` */
export const AccountCreation = closed({
  name: Name,
  plan: Type.Enum(plans),
  limits: Type.Optional(nullable(Limits)),
});

/** The read-only members of an account. */
const accountReadOnly = { account_id: Type.String(), created_at: Timestamp };

/**
 * `PUT /accounts/:id`: only members that are present change; `limits` are replaced as a whole. Limits of a
 * plan other than enterprise may be sent back unchanged.
 */
export const AccountUpdate = closed({
  name: Type.Optional(Name),
  plan: Type.Optional(Type.Enum(plans)),
  status: Type.Optional(Type.Enum(accountStatuses)),
  limits: Type.Optional(nullable(Limits)),
  ...readOnly(accountReadOnly),
});

const accountFields = {
  ...accountReadOnly,
  name: Type.String(),
  plan: Type.Enum(plans),
  status: Type.Enum(accountStatuses),
  limits: nullable(
    Type.Object({
      requests_per_minute: nullable(Type.Integer()),
      requests_per_day: nullable(Type.Integer()),
    }),
  ),
};

export const AccountAnswer = Type.Object(accountFields);
/** With the first key of the account, shown only once. */
export const NewAccountAnswer = Type.Object({ ...accountFields, api_key: NewApiKeyAnswer });

export interface NewAccount {
  readonly name: string;
  readonly plan: Plan;
  readonly limits: PlanLimits | null;
}

export interface AccountState extends NewAccount {
  readonly status: AccountStatus;
}

export function parseAccountCreation(body: Static<typeof AccountCreation>): NewAccount {
  return { name: body.name, plan: body.plan, limits: parseLimits(body.plan, body.limits ?? null) };
}

/**
 * The account after the update. An account that leaves the enterprise plan loses its own limits. The limits
 * that `GET` answers may be sent with any plan (contract §4); only the enterprise plan stores them.
 */
export function parseAccountUpdate(body: Static<typeof AccountUpdate>, current: Account): AccountState {
  const shown = renderAccount(current);
  refuseChanges(body, shown, accountReadOnly);
  const plan = body.plan ?? current.plan;
  const kept = plan === 'enterprise' ? current.limits : null;
  const isUnchanged = plan !== 'enterprise' && isSameLimits(body.limits ?? null, shown.limits);
  return {
    name: body.name ?? current.name,
    plan,
    status: body.status ?? current.status,
    limits: body.limits === undefined || isUnchanged ? kept : parseLimits(plan, body.limits),
  };
}

const isSameLimits = (one: Static<typeof Limits> | null, other: Static<typeof Limits> | null): boolean =>
  (one?.requests_per_minute ?? null) === (other?.requests_per_minute ?? null) &&
  (one?.requests_per_day ?? null) === (other?.requests_per_day ?? null);

function parseLimits(plan: Plan, body: Static<typeof Limits> | null): PlanLimits | null {
  if (body === null) return null;
  if (plan !== 'enterprise')
    throw invalidRequest('limits', 'Only the enterprise plan has limits of its own.');
  const requestsPerMinute = body.requests_per_minute ?? null;
  const requestsPerDay = body.requests_per_day ?? null;
  return requestsPerMinute === null && requestsPerDay === null ? null : { requestsPerMinute, requestsPerDay };
}

/** `limits` are those in force: the account's own, or its plan's; null if it has none. */
export const renderAccount = (account: Account): Static<typeof AccountAnswer> => ({
  account_id: account.accountId,
  name: account.name,
  plan: account.plan,
  status: account.status,
  limits: renderLimits(planLimitsOf(account)),
  created_at: renderTime(account.createdAtMs),
});

const renderLimits = ({ requestsPerMinute, requestsPerDay }: PlanLimits) =>
  requestsPerMinute === null && requestsPerDay === null
    ? null
    : { requests_per_minute: requestsPerMinute, requests_per_day: requestsPerDay };
