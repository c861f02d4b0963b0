import { Type } from 'typebox';
import { decisionReasons, outcomes } from '../../model/decision.ts';
import { nullable, Timestamp } from './fields.ts';

const Count = Type.Integer({ minimum: 0 });

const count = {
  count: Count,
  /** Of those whose requests named an amount. */
  amount_usd: Type.Number({ minimum: 0 }),
};

/** Decisions that would have been answered otherwise, of one kind. */
export const DifferentDecisions = Type.Object({
  from: Type.Enum(outcomes),
  to: Type.Enum(outcomes),
  reason: nullable(Type.Enum(decisionReasons)),
  condition: nullable(Type.String()),
  ...count,
});

/** How a policy differs from the live one: of shadows and backtests. */
export const DifferenceAnswer = Type.Object({
  decisions: Count,
  same: Count,
  different: Type.Array(DifferentDecisions),
  by_agent: Type.Object({
    named: Type.Array(Type.Object({ agent_id: nullable(Type.String()), ...count })),
    others: Type.Object(count),
  }),
  by_permission: Type.Object({
    named: Type.Array(Type.Object({ permission_key: nullable(Type.String()), ...count })),
    others: Type.Object(count),
  }),
  over_time: Type.Object({
    step_s: Type.Integer({ minimum: 1 }),
    steps: Type.Array(Type.Object({ at: Timestamp, decisions: Count, different: Count, blocked: Count })),
  }),
  examples: Type.Array(Type.String()),
  undecided: Type.Array(Type.Object({ cause: Type.String(), count: Count })),
  from: Timestamp,
  until: Timestamp,
});
