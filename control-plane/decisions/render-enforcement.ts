import { type DecisionAnswer, renderDecision, renderFirstPermit } from '../../shared/wire/decision.ts';
import type { Enforcement } from './enforcement.ts';

/** The answer of `check`. */
export const renderEnforcement = (enforcement: Enforcement): DecisionAnswer =>
  enforcement.kind === 'replayed'
    ? renderFirstPermit(enforcement.first, enforcement.redacted)
    : renderDecision(enforcement.decision, { ...enforcement, nowMs: enforcement.decidedAtMs });
