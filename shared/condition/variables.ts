/** What a condition may read: these and nothing else. Members are named as on the wire. */
export interface Variables {
  /** JSON, as read by contract §5. Whole numbers up to 2^53-1 are int, all others double. */
  readonly request: Readonly<Record<string, unknown>>;
  readonly passport: {
    readonly id: string;
    readonly agent_id: string;
    readonly permissions: readonly string[];
    readonly trust_tier: string;
    readonly issuer: string | null;
    readonly owner: string | null;
    readonly wallet_id: string | null;
  };
  /** Empty unless the token is of another issuer. */
  readonly claims: Readonly<Record<string, unknown>>;
  readonly gate: { readonly id: string; readonly trust_level: string };
  /** Who the agent acts for. Null: nobody is named. */
  readonly user: string | null;
  /** The moment of the decision: `now`. */
  readonly nowMs: number;
}

/** An error is a value: nothing of this room throws while it evaluates. */
export interface ConditionError {
  /** Names the path that was absent or the operator that failed, and no value. */
  readonly detail: string;
}
export type Truth = boolean | ConditionError;

/** Shared by all conditions of a decision. Each takes from `left`; below zero, all of them err. */
export interface StepBudget {
  left: number;
}
export type Evaluate = (variables: Variables, budget: StepBudget) => Truth;
