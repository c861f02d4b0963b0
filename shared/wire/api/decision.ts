import { type Static, Type } from 'typebox';
import { isForAMoment } from '../../decision/check-windows.ts';
import type { Decision, LimitMiss } from '../../decision/facts.ts';
import { reasons } from '../../decision/reasons.ts';
import type { FirstPermit } from '../../decision/run.ts';
import { assert, must, unreachable } from '../../errors/assert.ts';
import type { PiiFinding } from '../../model/attestation.ts';
import { checkNames, decisionReasons, type Outcome } from '../../model/decision.ts';
import type { ApprovalId, AttestationId, GateId } from '../../model/ids.ts';
import { limits } from '../../model/limits.ts';
import { type MicroUsd, renderUsd } from '../../model/money.ts';
import { latestUnixMs, renderTime, type UnixMillis } from '../../model/time.ts';
import { checksJson } from '../evidence/checks-json.ts';
import { DecisionReceipt } from '../evidence/decision-receipt.ts';
import { approvalUrl } from './console-url.ts';
import { FreeForm, nullable, Timestamp } from './fields.ts';
import { HoldAnswer, holdJson, renderHold } from './hold.ts';

/** Shared with the decision, frozen: rendered without a copy. */
const Checks = Type.Immutable(Type.Array(Type.Enum(checkNames)));
const Reason = nullable(Type.Enum(decisionReasons));

/** A limit that was missed, in USD or requests (contract §5): all four, or none. */
const missedLimit = {
  limit: Type.Optional(Type.Number()),
  used: Type.Optional(Type.Number()),
  requested: Type.Optional(Type.Number()),
  reset_at: Type.Optional(nullable(Timestamp)),
  /** Of `wallet_limit_exceeded`, for callers of the account of the wallet; others get none of the five. */
  wallet_id: Type.Optional(Type.String()),
};

const Retry = Type.Object({ retryable: Type.Boolean(), after_ms: nullable(Type.Integer()) });

/** Place and type of personal data, never its value (contract §7). */
export const PiiFindingAnswer = Type.Object({ pointer: Type.String(), type: Type.String() });

/** Shared with the decision, as the checks are. */
const Findings = Type.Immutable(Type.Array(PiiFindingAnswer));

/** At a gate with PII controls, if it found something. */
const found = { pii: Type.Optional(Findings) };

/** The condition that decided (contract §5). Its `detail` is its message, or what it lacked. */
const conditioned = { condition: Type.Optional(Type.String()) };

/** In mode `redact`, if something was found: the request without it. */
const redactedCopy = {
  request_redacted: Type.Optional(FreeForm),
  redactions: Type.Optional(Findings),
};

/** Of a request that asked for it, by a sidecar (contract §9). */
const receipted = { receipt: Type.Optional(DecisionReceipt) };

export const PermitAnswer = Type.Object({
  decision: Type.Literal('PERMIT'),
  reason: Type.Null(),
  attestation_id: Type.String(),
  constraints_evaluated: Checks,
  ...found,
  ...redactedCopy,
  /** The amount is settled later (contract §19). */
  hold: Type.Optional(HoldAnswer),
  ...receipted,
});
type PermitAnswer = Static<typeof PermitAnswer>;

/** Attested when it is resolved. Names the approval to present then (contract §8). */
export const SuspendAnswer = Type.Object({
  decision: Type.Literal('SUSPEND'),
  reason: Type.Literal('approval_required'),
  attestation_id: Type.Null(),
  constraints_evaluated: Checks,
  ...found,
  approval_id: Type.String(),
  /** The page of the console where a person answers. Absent: a sidecar of a control plane that names none. */
  approval_url: Type.Optional(Type.String()),
  expires_at: Timestamp,
  ...conditioned,
  /** Of a condition that has a message. */
  detail: Type.Optional(Type.String()),
});

export const BlockAnswer = Type.Object({
  decision: Type.Literal('BLOCK'),
  reason: Type.Enum(decisionReasons),
  attestation_id: Type.String(),
  constraints_evaluated: Checks,
  detail: Type.String(),
  retry: Retry,
  ...missedLimit,
  ...conditioned,
  ...found,
  ...receipted,
});
type BlockAnswer = Static<typeof BlockAnswer>;

/** The answer of `check` and `enforce`. */
export const DecisionAnswer = Type.Union([PermitAnswer, SuspendAnswer, BlockAnswer], {
  discriminator: { propertyName: 'decision' },
});
export type DecisionAnswer = Static<typeof DecisionAnswer>;

/** The answer of a gate test: the same decision in another shape. It opens no approval, so it names none. */
export const GateTestAnswer = Type.Object({
  decision: Type.Enum(['allow', 'block', 'suspend']),
  agent_id: nullable(Type.String()),
  gate_id: Type.String(),
  attestation_id: nullable(Type.String()),
  timestamp: Timestamp,
  guardrails_evaluated: Checks,
  all_passed: Type.Boolean(),
  reason: Reason,
  detail: Type.Optional(Type.String()),
  retry: Type.Optional(Retry),
  ...missedLimit,
  ...conditioned,
  ...found,
  ...redactedCopy,
});
export type GateTestAnswer = Static<typeof GateTestAnswer>;

/** The redacted request and the findings, from shared/pii. */
interface Redacted {
  readonly request: Readonly<Record<string, unknown>>;
  readonly redactions: readonly PiiFinding[];
}

interface WaitingApproval {
  readonly approvalId: ApprovalId;
  /** PUBLIC_URL of the control plane, for the page where a person answers. Null: not known. */
  readonly publicUrl: string | null;
  readonly expiresAtMs: UnixMillis;
}

/** The rest of an answer, known once all effects of the decision are done. */
export interface Answered {
  /** Null for a SUSPEND only, which is attested when it is resolved. */
  readonly attestationId: AttestationId | null;
  /** Of a SUSPEND only: its approval, new or already pending. */
  readonly approval: WaitingApproval | null;
  /** Where the decision `isRedacted`, else null. */
  readonly redacted: Redacted | null;
  /** The moment of the decision, from which `retry.after_ms` counts. */
  readonly nowMs: UnixMillis;
}

export function renderDecision(decision: Decision, answered: Answered): DecisionAnswer {
  const { attestationId, approval, redacted, nowMs } = answered;
  const { outcome, evaluated } = decision;
  assert((approval !== null) === (outcome === 'SUSPEND'), 'a SUSPEND names its approval');
  assert((attestationId === null) === (outcome === 'SUSPEND'), 'all but a SUSPEND name their record');
  assert(
    (redacted !== null) === decision.isRedacted,
    'a copy comes with what is redacted, and with nothing else',
  );
  switch (outcome) {
    case 'PERMIT':
      return {
        decision: outcome,
        reason: null,
        attestation_id: must(attestationId, 'a PERMIT names its record'),
        constraints_evaluated: evaluated,
        ...renderFindings(decision),
        ...renderRedacted(redacted),
        ...renderHeld(decision),
      };
    case 'SUSPEND': {
      const { approvalId, publicUrl, expiresAtMs } = must(approval, 'a SUSPEND names its approval');
      return {
        decision: outcome,
        reason: 'approval_required',
        attestation_id: null,
        constraints_evaluated: evaluated,
        ...renderFindings(decision),
        approval_id: approvalId,
        ...(publicUrl !== null && { approval_url: approvalUrl(publicUrl, approvalId) }),
        expires_at: renderTime(expiresAtMs),
        ...renderCondition(decision),
      };
    }
    case 'BLOCK':
      return {
        decision: outcome,
        reason: must(decision.reason, 'a BLOCK has a reason'),
        attestation_id: must(attestationId, 'a BLOCK names its record'),
        constraints_evaluated: evaluated,
        ...explain(decision, nowMs),
        ...renderFindings(decision),
      };
    default:
      return unreachable(outcome);
  }
}

/**
 * The JSON text of `renderDecision`. A PERMIT without findings consists of constants, its checks
 * and its id, and needs no serializer.
 */
export function decisionJson(decision: Decision, answered: Answered): string {
  if (decision.outcome !== 'PERMIT' || decision.pii.length > 0)
    return JSON.stringify(renderDecision(decision, answered));
  const checks = checksJson(decision.evaluated);
  const hold = decision.hold === null ? '' : `,"hold":${holdJson(decision.hold)}`;
  return `{"decision":"PERMIT","reason":null,"attestation_id":"${answered.attestationId}","constraints_evaluated":${checks}${hold}}`;
}

export const withReceipt = (answer: DecisionAnswer, receipt: DecisionReceipt): DecisionAnswer =>
  answer.decision === 'SUSPEND' ? answer : { ...answer, receipt };

/**
 * The replay of the first PERMIT under an idempotency key (contract §5). `redacted` is computed again, with
 * the same result for the same request; null if the gate's mode is not `redact`, or `first` found nothing.
 */
export const renderFirstPermit = (first: FirstPermit, redacted: Redacted | null): PermitAnswer => ({
  decision: 'PERMIT',
  reason: null,
  attestation_id: first.attestationId,
  constraints_evaluated: first.constraintsEvaluated,
  ...renderFindings(first),
  ...renderRedacted(redacted),
  ...renderHeld(first),
});

const testOutcomes = { PERMIT: 'allow', BLOCK: 'block', SUSPEND: 'suspend' } as const satisfies Record<
  Outcome,
  GateTestAnswer['decision']
>;

export function renderGateTest(test: {
  readonly decision: Decision;
  readonly attestationId: AttestationId | null;
  readonly gateId: GateId;
  /** Null if the token did not verify: nothing in it is trusted, not even the agent's name. */
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
    ...(outcome === 'BLOCK' ? explain(test.decision, test.timestampMs) : renderCondition(test.decision)),
    ...renderFindings(test.decision),
    ...renderRedacted(test.redacted),
  };
}

/** The members of a BLOCK besides its reason. */
function explain(
  { reason, limitMiss, condition, detail: ofCondition }: Decision,
  nowMs: UnixMillis,
): Pick<BlockAnswer, 'detail' | 'retry' | 'condition' | keyof typeof missedLimit> {
  const { detail, retryable, afterMs } = reasons[must(reason, 'a BLOCK has a reason')];
  if (condition !== null)
    return { detail: ofCondition ?? detail, retry: { retryable, after_ms: afterMs }, condition };
  if (limitMiss === null) return { detail, retry: { retryable, after_ms: afterMs } };
  const { limit, used, requested, walletId } = limitMiss;
  const resetAtMs = neverEnds(limitMiss) ? null : limitMiss.resetAtMs;
  const render = limitMiss.unit === 'micro_usd' ? renderMoney : renderCount;
  // A limit lasts as long as its window, whatever the reason's own delay. The window may end while the
  // request is answered.
  const retry =
    resetAtMs === null
      ? { retryable: false, after_ms: null }
      : { retryable: true, after_ms: waitMs(limitMiss, Math.max(0, resetAtMs - nowMs)) };
  // The numbers of a wallet are its account's own.
  if (walletId === null) return { detail, retry: { retryable, after_ms: afterMs } };
  return {
    detail,
    retry,
    ...(walletId !== undefined && { wallet_id: walletId }),
    limit: render(limit),
    used: render(used),
    requested: render(requested),
    reset_at: resetAtMs === null || resetAtMs >= latestUnixMs ? null : renderTime(resetAtMs),
  };
}

/** A total is over for good, but for units that are only lent. */
const neverEnds = (miss: LimitMiss): boolean =>
  miss.resetAtMs !== null && miss.resetAtMs >= latestUnixMs && !isForAMoment(miss);

/** Until the window ends, or until lent units come back. */
const waitMs = (miss: LimitMiss, untilEndMs: number): number =>
  isForAMoment(miss) ? Math.min(untilEndMs, limits.lentUnitsMsMax) : untilEndMs;

const renderMoney = (units: number): number => renderUsd(units as MicroUsd);
const renderCount = (requests: number): number => requests;

const renderFindings = ({
  pii,
}: {
  readonly pii: readonly PiiFinding[];
}): Pick<DecisionAnswer, keyof typeof found> => (pii.length === 0 ? {} : { pii });

const renderCondition = ({
  condition,
  detail,
}: Decision): { readonly condition?: string; readonly detail?: string } =>
  condition === null ? {} : { condition, ...(detail !== null && { detail }) };

const renderHeld = ({ hold }: Pick<Decision, 'hold'>): Pick<PermitAnswer, 'hold'> =>
  hold === null ? {} : { hold: renderHold(hold) };

const renderRedacted = (redacted: Redacted | null): Pick<PermitAnswer, keyof typeof redactedCopy> =>
  redacted === null ? {} : { request_redacted: redacted.request, redactions: redacted.redactions };
