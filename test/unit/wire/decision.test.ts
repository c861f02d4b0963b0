import { describe, expect, it } from 'vitest';
import { listChecks } from '../../../shared/decision/check-set.ts';
import type { Decision } from '../../../shared/decision/facts.ts';
import { reasons } from '../../../shared/decision/reasons.ts';
import { type CheckName, decisionReasons } from '../../../shared/model/decision.ts';
import { makeId } from '../../../shared/model/ids.ts';
import type { MicroUsd } from '../../../shared/model/money.ts';
import type { UnixMillis, UnixSeconds } from '../../../shared/model/time.ts';
import { decisionJson, renderDecision, renderGateTest } from '../../../shared/wire/decision.ts';

const nowMs = Date.UTC(2026, 0, 1, 12) as UnixMillis;
const attestationId = makeId('att', nowMs, new Uint8Array(10));
const gateId = makeId('gate', nowMs, new Uint8Array(10));

const permitted: Decision = {
  outcome: 'PERMIT',
  reason: null,
  evaluated: ['passport', 'permission'],
  amountMicroUsd: null,
  charge: { moneyMicroUsd: 0 as MicroUsd },
  limitMiss: null,
};
const blocked: Decision = { ...permitted, outcome: 'BLOCK', reason: 'passport_revoked', charge: null };
const overLimit: Decision = {
  ...blocked,
  reason: 'spend_limit_exceeded',
  limitMiss: {
    limit: 50_000_000 as MicroUsd,
    used: 12_500_000 as MicroUsd,
    requested: 40_000_001 as MicroUsd,
    resetAtS: null,
  },
};

describe('renderDecision', () => {
  it('answers a PERMIT with the four fields of the specification', () => {
    expect(renderDecision(permitted, attestationId)).toEqual({
      decision: 'PERMIT',
      reason: null,
      attestation_id: attestationId,
      constraints_evaluated: ['passport', 'permission'],
    });
  });

  it('explains a BLOCK', () => {
    expect(renderDecision(blocked, attestationId)).toEqual({
      decision: 'BLOCK',
      reason: 'passport_revoked',
      attestation_id: attestationId,
      constraints_evaluated: ['passport', 'permission'],
      detail: 'The passport was revoked.',
      retry: { retryable: false, after_ms: null },
    });
  });

  it('says in dollars how a limit was missed', () => {
    expect(renderDecision(overLimit, attestationId)).toMatchObject({
      limit: 50,
      used: 12.5,
      requested: 40.000001,
      reset_at: null,
      retry: { retryable: false },
    });
  });

  it('says when the window of a limit ends, and that the request may be sent again', () => {
    const resetAtS = (nowMs / 1_000) as UnixSeconds;
    const limitMiss = overLimit.limitMiss === null ? null : { ...overLimit.limitMiss, resetAtS };
    expect(renderDecision({ ...overLimit, limitMiss }, attestationId)).toMatchObject({
      reset_at: '2026-01-01T12:00:00.000Z',
      retry: { retryable: true },
    });
  });
});

describe('decisionJson', () => {
  const frozen = (decision: Decision): Decision => ({ ...decision, evaluated: listChecks(0b10_0111) });

  it.each([permitted, frozen(permitted), frozen(permitted), frozen(blocked), overLimit])(
    'writes what JSON.stringify writes of $outcome $reason',
    (decision) => {
      expect(decisionJson(decision, attestationId)).toBe(
        JSON.stringify(renderDecision(decision, attestationId)),
      );
    },
  );

  it('remembers no list that can still change', () => {
    const evaluated: CheckName[] = ['passport'];
    decisionJson({ ...permitted, evaluated }, attestationId);
    evaluated.push('permission');
    expect(decisionJson({ ...permitted, evaluated }, attestationId)).toContain('["passport","permission"]');
  });
});

describe('renderGateTest', () => {
  const test = { attestationId, gateId, agentId: 'agent-1', timestampMs: nowMs };

  it('says allow for PERMIT', () => {
    expect(renderGateTest({ ...test, decision: permitted })).toEqual({
      decision: 'allow',
      agent_id: 'agent-1',
      gate_id: gateId,
      attestation_id: attestationId,
      timestamp: '2026-01-01T12:00:00.000Z',
      guardrails_evaluated: ['passport', 'permission'],
      all_passed: true,
      reason: null,
    });
  });

  it('says block with its reason', () => {
    expect(renderGateTest({ ...test, decision: overLimit, agentId: null })).toMatchObject({
      decision: 'block',
      agent_id: null,
      all_passed: false,
      reason: 'spend_limit_exceeded',
      detail: 'The amount passes a spend limit.',
      limit: 50,
    });
  });
});

describe('the table of reasons', () => {
  it.each(decisionReasons)('has a sentence for %s', (reason) => {
    expect(reasons[reason].detail).toMatch(/^[A-Z][^\n]+\.$/);
  });

  it('names a time to try again only where trying again may help', () => {
    for (const { retryable, afterMs } of Object.values(reasons)) {
      if (!retryable) expect(afterMs).toBeNull();
    }
  });
});
