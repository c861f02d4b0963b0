import { type DecisionAnswer, renderDecision, renderFirstPermit } from '../../shared/wire/api/decision.ts';
import type { BaseDeps } from '../base/deps.ts';
import type { Enforcement } from './enforcement.ts';

/** The answer of `check`. */
export function renderEnforcement(
  enforcement: Enforcement,
  { baseUrl: publicUrl }: Pick<BaseDeps, 'baseUrl'>,
): DecisionAnswer {
  if (enforcement.kind === 'replayed') return renderFirstPermit(enforcement.first, enforcement.redacted);
  const { decision, approval, decidedAtMs: nowMs } = enforcement;
  return renderDecision(decision, {
    ...enforcement,
    approval: approval === null ? null : { ...approval, publicUrl },
    nowMs,
  });
}
