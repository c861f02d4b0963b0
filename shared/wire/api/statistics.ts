import { type Static, Type } from 'typebox';
import { renderTime, type UnixMillis } from '../../model/time.ts';
import { nullable, Timestamp } from './fields.ts';

const steps = ['minute', 'hour', 'day'] as const;
export type StatisticsStep = (typeof steps)[number];

/** `GET /statistics/decisions` */
export const DecisionStatisticsQuery = Type.Object({
  from: Type.Optional(Type.String()),
  to: Type.Optional(Type.String()),
  step: Type.Enum(steps, { default: 'hour' }),
  gate_id: Type.Optional(Type.String()),
});

export const DecisionCountAnswer = Type.Object({
  decision: Type.String(),
  reason: nullable(Type.String()),
  count: Type.Integer(),
});

export const DecisionBucketAnswer = Type.Object({
  starts_at: Timestamp,
  counts: Type.Array(DecisionCountAnswer),
});

export const DecisionStatisticsAnswer = Type.Object({
  starts_at: Timestamp,
  ends_at: Timestamp,
  step: Type.Enum(steps),
  buckets: Type.Array(DecisionBucketAnswer),
});

/** Decisions of one span of time. */
export interface DecisionBucket {
  readonly startsAtMs: UnixMillis;
  readonly counts: {
    readonly decision: string;
    readonly reason: string | null;
    readonly decisions: number;
  }[];
}

export const renderDecisionBucket = ({
  startsAtMs,
  counts,
}: DecisionBucket): Static<typeof DecisionBucketAnswer> => ({
  starts_at: renderTime(startsAtMs),
  counts: counts.map(({ decision, reason, decisions }) => ({ decision, reason, count: decisions })),
});
