import { type Static, Type } from 'typebox';
import type { Decision } from '../decision/facts.ts';
import { reasons } from '../decision/reasons.ts';
import { checkNames, decisionReasons, type Outcome, outcomes } from '../model/decision.ts';
import type { AttestationId, GateId } from '../model/ids.ts';
import { renderUsd } from '../model/money.ts';
import { renderTime, toMillis, type UnixMillis } from '../model/time.ts';
import { checksJson } from './checks-json.ts';
import { nullable, Timestamp } from './fields.ts';

/** Shared with the decision, frozen: rendered without a copy. */
const Checks = Type.Immutable(Type.Array(Type.Enum(checkNames)));
const Reason = nullable(Type.Enum(decisionReasons));

/** What a BLOCK says besides its reason; the last four for a limit that was missed, its money in USD (decisions §5). */
const explanation = {
  detail: Type.Optional(Type.String()),
  retry: Type.Optional(Type.Object({ retryable: Type.Boolean(), after_ms: nullable(Type.Integer()) })),
  limit: Type.Optional(Type.Number()),
  used: Type.Optional(Type.Number()),
  requested: Type.Optional(Type.Number()),
  reset_at: Type.Optional(nullable(Timestamp)),
};

/** The answer of `check` and `enforce`. */
export const DecisionAnswer = Type.Object({
  decision: Type.Enum(outcomes),
  reason: Reason,
  attestation_id: nullable(Type.String()),
  constraints_evaluated: Checks,
  ...explanation,
});
export type DecisionAnswer = Static<typeof DecisionAnswer>;

/** The answer of a gate test: the same decision in other words. */
export const GateTestAnswer = Type.Object({
  decision: Type.Enum(['allow', 'block', 'suspend']),
  agent_id: nullable(Type.String()),
  gate_id: Type.String(),
  attestation_id: nullable(Type.String()),
  timestamp: Timestamp,
  guardrails_evaluated: Checks,
  all_passed: Type.Boolean(),
  reason: Reason,
  ...explanation,
});
export type GateTestAnswer = Static<typeof GateTestAnswer>;

/** `attestationId` is null for a SUSPEND only: that one is attested when it is resolved. */
export function renderDecision(decision: Decision, attestationId: AttestationId | null): DecisionAnswer {
  const answer: DecisionAnswer = {
    decision: decision.outcome,
    reason: decision.reason,
    attestation_id: attestationId,
    constraints_evaluated: decision.evaluated,
  };
  return decision.outcome === 'BLOCK' ? { ...answer, ...explain(decision) } : answer;
}

/** The JSON text of `renderDecision`. A PERMIT is nothing but constants, its checks and its id, and needs no serializer. */
export function decisionJson(decision: Decision, attestationId: AttestationId): string {
  if (decision.outcome !== 'PERMIT') return JSON.stringify(renderDecision(decision, attestationId));
  const checks = checksJson(decision.evaluated);
  return `{"decision":"PERMIT","reason":null,"attestation_id":"${attestationId}","constraints_evaluated":${checks}}`;
}

const testOutcomes = { PERMIT: 'allow', BLOCK: 'block', SUSPEND: 'suspend' } as const satisfies Record<
  Outcome,
  GateTestAnswer['decision']
>;

export function renderGateTest(test: {
  readonly decision: Decision;
  readonly attestationId: AttestationId | null;
  readonly gateId: GateId;
  /** Null where the token did not verify: nothing in it is believed, the name of its agent neither. */
  readonly agentId: string | null;
  readonly timestampMs: UnixMillis;
}): GateTestAnswer {
  const { outcome, reason, evaluated } = test.decision;
  const answer: GateTestAnswer = {
    decision: testOutcomes[outcome],
    agent_id: test.agentId,
    gate_id: test.gateId,
    attestation_id: test.attestationId,
    timestamp: renderTime(test.timestampMs),
    guardrails_evaluated: evaluated,
    all_passed: outcome === 'PERMIT',
    reason,
  };
  return outcome === 'BLOCK' ? { ...answer, ...explain(test.decision) } : answer;
}

function explain({ reason, limitMiss }: Decision): Pick<DecisionAnswer, keyof typeof explanation> {
  if (reason === null) return {};
  const { detail, retryable, afterMs } = reasons[reason];
  if (limitMiss === null) return { detail, retry: { retryable, after_ms: afterMs } };
  const { limit, used, requested, resetAtS } = limitMiss;
  return {
    detail,
    // A window that ends makes a limit worth another try, whatever its reason says of itself.
    retry: { retryable: resetAtS !== null, after_ms: afterMs },
    limit: renderUsd(limit),
    used: renderUsd(used),
    requested: renderUsd(requested),
    reset_at: resetAtS === null ? null : renderTime(toMillis(resetAtS)),
  };
}
