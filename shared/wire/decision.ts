import { type Static, Type } from 'typebox';
import type { Decision } from '../decision/facts.ts';
import { reasons } from '../decision/reasons.ts';
import type { FirstPermit } from '../decision/run.ts';
import { assert } from '../errors/assert.ts';
import type { PiiFinding } from '../model/attestation.ts';
import { checkNames, decisionReasons, type Outcome, outcomes } from '../model/decision.ts';
import type { ApprovalId, AttestationId, GateId } from '../model/ids.ts';
import { type MicroUsd, renderUsd } from '../model/money.ts';
import { renderTime, type UnixMillis } from '../model/time.ts';
import { checksJson } from './checks-json.ts';
import { FreeForm, nullable, Timestamp } from './fields.ts';

/** Shared with the decision, frozen: rendered without a copy. */
const Checks = Type.Immutable(Type.Array(Type.Enum(checkNames)));
const Reason = nullable(Type.Enum(decisionReasons));

/** What a BLOCK says besides its reason; the last four for a limit that was missed, in USD or requests (decisions §5). */
const explanation = {
  detail: Type.Optional(Type.String()),
  retry: Type.Optional(Type.Object({ retryable: Type.Boolean(), after_ms: nullable(Type.Integer()) })),
  limit: Type.Optional(Type.Number()),
  used: Type.Optional(Type.Number()),
  requested: Type.Optional(Type.Number()),
  reset_at: Type.Optional(nullable(Timestamp)),
};

/** Shared with the decision, as the checks are. */
const Findings = Type.Immutable(Type.Array(Type.Object({ pointer: Type.String(), type: Type.String() })));

/** Of a gate with PII controls, where something was found (decisions §7): where it stands, never what it is. */
const findings = {
  pii: Type.Optional(Findings),
  /** With a PERMIT in mode `redact`: the request without what was found. */
  request_redacted: Type.Optional(FreeForm),
  redactions: Type.Optional(Findings),
};

/** The answer of `check` and `enforce`. */
export const DecisionAnswer = Type.Object({
  decision: Type.Enum(outcomes),
  reason: Reason,
  attestation_id: nullable(Type.String()),
  constraints_evaluated: Checks,
  ...explanation,
  ...findings,
  /** Of a SUSPEND: what to present once it is approved, and until when (decisions §8). */
  approval_id: Type.Optional(Type.String()),
  expires_at: Type.Optional(Timestamp),
});
export type DecisionAnswer = Static<typeof DecisionAnswer>;

/** The answer of a gate test: the same decision in other words. It opens no approval, so that it has none to name. */
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
  ...findings,
});
export type GateTestAnswer = Static<typeof GateTestAnswer>;

/** The request without what was found, and what that was; as shared/pii makes it. */
interface Redacted {
  readonly request: Readonly<Record<string, unknown>>;
  readonly redactions: readonly PiiFinding[];
}

/** What an answer says besides its decision, once everything that the decision asked for is done. */
export interface Answered {
  /** Null for a SUSPEND only: that one is attested when it is resolved. */
  readonly attestationId: AttestationId | null;
  /** Of a SUSPEND and of nothing else: the approval that was opened, or waits already. */
  readonly approval: { readonly approvalId: ApprovalId; readonly expiresAtMs: UnixMillis } | null;
  /** Where the decision `isRedacted`, else null. */
  readonly redacted: Redacted | null;
  /** The moment of the decision: from it on the time to wait counts. */
  readonly nowMs: UnixMillis;
}

export function renderDecision(decision: Decision, answered: Answered): DecisionAnswer {
  const { attestationId, approval, redacted, nowMs } = answered;
  assert((approval !== null) === (decision.outcome === 'SUSPEND'), 'a SUSPEND names its approval');
  assert(
    (redacted !== null) === decision.isRedacted,
    'a copy comes with what is redacted, and with nothing else',
  );
  return {
    decision: decision.outcome,
    reason: decision.reason,
    attestation_id: attestationId,
    constraints_evaluated: decision.evaluated,
    ...explain(decision, nowMs),
    ...renderFindings(decision, redacted),
    ...(approval === null
      ? {}
      : { approval_id: approval.approvalId, expires_at: renderTime(approval.expiresAtMs) }),
  };
}

/**
 * The JSON text of `renderDecision`. A PERMIT in which nothing was found is nothing but constants, its checks and its id, and needs no
 * serializer.
 */
export function decisionJson(decision: Decision, answered: Answered): string {
  if (decision.outcome !== 'PERMIT' || decision.pii.length > 0)
    return JSON.stringify(renderDecision(decision, answered));
  const checks = checksJson(decision.evaluated);
  return `{"decision":"PERMIT","reason":null,"attestation_id":"${answered.attestationId}","constraints_evaluated":${checks}}`;
}

/**
 * The answer to a request whose key was used for the same request before: the first PERMIT once more (decisions §5). `redacted` is made anew,
 * which gives the same from the same request; null where the mode of the gate is not `redact`, or `first` found nothing.
 */
export const renderFirstPermit = (first: FirstPermit, redacted: Redacted | null): DecisionAnswer => ({
  decision: 'PERMIT',
  reason: null,
  attestation_id: first.attestationId,
  constraints_evaluated: first.constraintsEvaluated,
  ...renderFindings(first, redacted),
});

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
  /** As in `Answered`. */
  readonly redacted: Redacted | null;
  /** The moment of the decision. */
  readonly timestampMs: UnixMillis;
}): GateTestAnswer {
  const { outcome, reason, evaluated } = test.decision;
  return {
    decision: testOutcomes[outcome],
    agent_id: test.agentId,
    gate_id: test.gateId,
    attestation_id: test.attestationId,
    timestamp: renderTime(test.timestampMs),
    guardrails_evaluated: evaluated,
    all_passed: outcome === 'PERMIT',
    reason,
    ...explain(test.decision, test.timestampMs),
    ...renderFindings(test.decision, test.redacted),
  };
}

function explain(
  { outcome, reason, limitMiss }: Decision,
  nowMs: UnixMillis,
): Pick<DecisionAnswer, keyof typeof explanation> {
  if (outcome !== 'BLOCK' || reason === null) return {};
  const { detail, retryable, afterMs } = reasons[reason];
  if (limitMiss === null) return { detail, retry: { retryable, after_ms: afterMs } };
  const { limit, used, requested, resetAtMs } = limitMiss;
  const render = limitMiss.unit === 'micro_usd' ? renderMoney : renderCount;
  return {
    detail,
    // A limit lasts as long as its window, whatever its reason says of itself; a window may end while its request is answered.
    retry:
      resetAtMs === null
        ? { retryable: false, after_ms: null }
        : { retryable: true, after_ms: Math.max(0, resetAtMs - nowMs) },
    limit: render(limit),
    used: render(used),
    requested: render(requested),
    reset_at: resetAtMs === null ? null : renderTime(resetAtMs),
  };
}

const renderMoney = (units: number): number => renderUsd(units as MicroUsd);
const renderCount = (requests: number): number => requests;

const renderFindings = (
  { pii }: { readonly pii: readonly PiiFinding[] },
  redacted: Redacted | null,
): Pick<DecisionAnswer, keyof typeof findings> => ({
  ...(pii.length === 0 ? {} : { pii }),
  ...(redacted === null ? {} : { request_redacted: redacted.request, redactions: redacted.redactions }),
});
