import { type Static, Type } from 'typebox';
import type { StepCounts } from '../../model/gate.ts';
import { renderTime, secondMs, type UnixMillis } from '../../model/time.ts';
import { nullable, Timestamp } from './fields.ts';

/** Counts of decisions. */
export const OutcomeCounts = Type.Object({
  permits: Type.Integer(),
  blocks: Type.Integer(),
  suspends: Type.Integer(),
});

/** `promoted` of a gate. Null: nothing to compare yet, or there was too much to be counted. */
export const PromotionAnswer = Type.Object({
  at: Timestamp,
  policy_hash: Type.String(),
  /** Of both counts. */
  compared_s: Type.Integer(),
  predicted: nullable(OutcomeCounts),
  observed: nullable(OutcomeCounts),
});
export type PromotionAnswer = Static<typeof PromotionAnswer>;

const renderCounts = ([permits, blocks, suspends]: StepCounts) => ({ permits, blocks, suspends });

export const renderPromotion = (
  { atMs, policyHash }: { readonly atMs: UnixMillis; readonly policyHash: string },
  compared: {
    readonly predicted: StepCounts;
    readonly observed: StepCounts;
    readonly durationMs: number;
  } | null,
): PromotionAnswer => ({
  at: renderTime(atMs),
  policy_hash: policyHash,
  compared_s: (compared?.durationMs ?? 0) / secondMs,
  predicted: compared === null ? null : renderCounts(compared.predicted),
  observed: compared === null ? null : renderCounts(compared.observed),
});
