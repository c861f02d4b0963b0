import type { PermissionKey } from './permission.ts';

/** What a condition that is not met does: it blocks, or a person is asked (contract §5). */
export const conditionOutcomes = ['block', 'approve'] as const;
export type ConditionOutcome = (typeof conditionOutcomes)[number];

/** What a gate or a passport demands of requests, as an expression that has to be true. */
export interface Condition {
  /** 1 to 64 of `a-z0-9-`, unique in its list. Records and answers name it. */
  readonly id: string;
  /** CEL. */
  readonly require: string;
  /** Keys, or whole areas (`orders:*`), of the requests that it is asked of. Null: all. */
  readonly permissions: readonly PermissionKey[] | null;
  readonly otherwise: ConditionOutcome;
  /** The detail of an answer in which it is not met. Null: that of the reason. */
  readonly message: string | null;
}

export const conditionIdPattern = /^[a-z0-9-]{1,64}$/;
