import type { Gate, StepCounts } from '../../shared/model/gate.ts';
import { hourMs, type UnixMillis } from '../../shared/model/time.ts';
import { type PromotionAnswer, renderPromotion } from '../../shared/wire/api/promotion.ts';
import { countAsked } from '../approvals/approval-store.ts';
import type { Database } from '../base/database.ts';
import { statisticsLimits } from '../statistics/limits.ts';
import { readDecisionStatistics } from '../statistics/read-statistics.ts';
import { findPromotion } from './shadow-store.ts';

/**
 * What was predicted of the newest promotion of a gate beside what is counted since, over whole minutes, or
 * hours where minutes are not kept. Null: none of its shadows was promoted.
 */
export async function readPromotion(
  sql: Database,
  gate: Pick<Gate, 'gateId' | 'accountId' | 'mode'>,
  nowMs: UnixMillis,
): Promise<PromotionAnswer | null> {
  const found = await findPromotion(sql, gate.gateId);
  if (found === null) return null;
  const { atMs, predicted } = found;
  const nothing = renderPromotion(found, null);
  if (predicted === null) return nothing;
  const isOld = nowMs - atMs >= statisticsLimits.minutesKeptMs - hourMs;
  const stepMs = isOld ? hourMs : predicted.step_ms;
  const perStep = stepMs / predicted.step_ms;
  const fromMs = (Math.ceil(atMs / stepMs) * stepMs) as UnixMillis;
  const steps = Math.min(
    Math.floor((nowMs - fromMs) / stepMs),
    Math.floor(predicted.steps.length / perStep),
    statisticsLimits.bucketsMax,
  );
  if (steps <= 0) return nothing;
  const toMs = (fromMs + steps * stepMs) as UnixMillis;
  const step = stepMs === hourMs ? 'hour' : 'minute';
  const buckets = await readDecisionStatistics(sql, gate, { step, fromMs, toMs }, gate.gateId);
  const counts = buckets.flatMap((bucket) => bucket.counts);
  const of = (outcome: string): number =>
    counts.reduce((sum, { decision, decisions }) => sum + (decision === outcome ? decisions : 0), 0);
  const observed: StepCounts = [of('PERMIT'), of('BLOCK'), await countAsked(sql, gate, { fromMs, toMs })];
  const before = predicted.steps.slice(0, steps * perStep);
  const sumOf = (place: 0 | 1 | 2): number => before.reduce((sum, counts) => sum + counts[place], 0);
  return renderPromotion(found, {
    predicted: [sumOf(0), sumOf(1), sumOf(2)],
    observed,
    durationMs: steps * stepMs,
  });
}
