import type { AccountId } from './ids.ts';
import type { UnixMillis } from './time.ts';

export const plans = ['free', 'pro', 'teams', 'enterprise'] as const;
export type Plan = (typeof plans)[number];

export const accountStatuses = ['active', 'suspended'] as const;
export type AccountStatus = (typeof accountStatuses)[number];

/** Requests per UTC minute and UTC day; null means no limit. */
export interface PlanLimits {
  readonly requestsPerMinute: number | null;
  readonly requestsPerDay: number | null;
}

/** The table of plans. Enterprise accounts have no limits unless set for the account (contract §2). */
const limitsByPlan: Readonly<Record<Plan, PlanLimits>> = {
  free: { requestsPerMinute: 30, requestsPerDay: 1_000 },
  pro: { requestsPerMinute: 120, requestsPerDay: 10_000 },
  teams: { requestsPerMinute: 300, requestsPerDay: 50_000 },
  enterprise: { requestsPerMinute: null, requestsPerDay: null },
};

/** The limits in force: the account's own, which only the enterprise plan may have, or its plan's. */
export const planLimitsOf = ({ plan, limits }: Pick<Account, 'plan' | 'limits'>): PlanLimits =>
  plan === 'enterprise' && limits !== null ? limits : limitsByPlan[plan];

/**
 * The owner of issuers, passports, gates, keys and webhooks. The operator's live `admin:*` keys manage the
 * other accounts.
 */
export interface Account {
  readonly accountId: AccountId;
  readonly name: string;
  readonly plan: Plan;
  readonly status: AccountStatus;
  /** Its own; null unless the plan is enterprise. */
  readonly limits: PlanLimits | null;
  readonly isOperator: boolean;
  readonly createdAtMs: UnixMillis;
}
