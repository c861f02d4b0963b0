import { describe, expect, it } from 'vitest';
import { listChecks } from '../../../shared/decision/check-set.ts';
import type { Decision } from '../../../shared/decision/facts.ts';
import { reasons } from '../../../shared/decision/reasons.ts';
import type { CheckName } from '../../../shared/model/decision.ts';
import { makeId } from '../../../shared/model/ids.ts';
import type { MicroUsd } from '../../../shared/model/money.ts';
import type { UnixMillis } from '../../../shared/model/time.ts';
import {
  type Answered,
  decisionJson,
  renderDecision,
  renderFirstPermit,
  renderGateTest,
} from '../../../shared/wire/api/decision.ts';

const nowMs = Date.UTC(2026, 0, 1, 12) as UnixMillis;
const attestationId = makeId('att', nowMs, new Uint8Array(10));
const approvalId = makeId('appr', nowMs, new Uint8Array(10));
const gateId = makeId('gate', nowMs, new Uint8Array(10));

const permitted: Decision = {
  ...{ outcome: 'PERMIT', reason: null, evaluated: ['passport', 'permission'], amountMicroUsd: null },
  ...{ charge: { moneyMicroUsd: 0 as MicroUsd, requests: 1 }, standingApproval: null, limitMiss: null },
  ...{ unknown: null, pii: [], isRedacted: false, approvalExpiresInMs: null, hold: null },
  ...{ conditions: null, condition: null, detail: null },
};
const blocked: Decision = { ...permitted, outcome: 'BLOCK', reason: 'passport_revoked', charge: null };
const overLimit: Decision = {
  ...blocked,
  reason: 'spend_limit_exceeded',
  limitMiss: {
    unit: 'micro_usd',
    limit: 50_000_000,
    used: 12_500_000,
    requested: 40_000_001,
    resetAtMs: null,
  },
};
const tooOften: Decision = {
  ...blocked,
  reason: 'rate_limit_exceeded',
  limitMiss: {
    unit: 'requests',
    limit: 30,
    used: 30,
    requested: 1,
    resetAtMs: (nowMs + 12_345) as UnixMillis,
  },
};
const email = { pointer: '/note', type: 'email' };
const withEmail: Decision = { ...permitted, pii: [email] };
const redactedEmail: Decision = { ...withEmail, isRedacted: true };
const redacted = { request: { note: '[redacted:email]' }, redactions: [email] };
const suspended: Decision = {
  ...permitted,
  outcome: 'SUSPEND',
  reason: 'approval_required',
  charge: { moneyMicroUsd: 5_000_000 as MicroUsd, requests: 0 },
  approvalExpiresInMs: 300_000,
};
const answered: Answered = { attestationId, approval: null, redacted: null, nowMs };
const waiting: Answered = {
  ...answered,
  attestationId: null,
  approval: { approvalId, publicUrl: null, expiresAtMs: (nowMs + 300_000) as UnixMillis },
};

describe('renderDecision', () => {
  it('never asks for a time to wait that has passed', () => {
    const later = { ...answered, nowMs: (nowMs + 20_000) as UnixMillis };
    expect(renderDecision(tooOften, later)).toMatchObject({ retry: { retryable: true, after_ms: 0 } });
  });

  it.each([
    ['a SUSPEND without an approval', suspended, answered],
    ['a PERMIT with one', permitted, waiting],
  ])('is not asked for %s', (_what, decision, with_) => {
    expect(() => renderDecision(decision, with_)).toThrow('a SUSPEND names its approval');
  });

  it.each([
    ['https://trust.example.com', 'https://trust.example.com/console/approvals/'],
    ['https://trust.example.com/v1', 'https://trust.example.com/console/approvals/'],
    [null, undefined],
  ])('names the page where a person answers, where it is known: %s', (publicUrl, page) => {
    const approval = waiting.approval && { ...waiting.approval, publicUrl };
    const answer = renderDecision(suspended, { ...waiting, approval });
    expect('approval_url' in answer ? answer.approval_url : undefined).toBe(page && page + approvalId);
  });

  it('never answers a decision that is redacted without its copy', () => {
    expect(() => renderDecision(redactedEmail, answered)).toThrow('copy');
    expect(() => renderDecision(withEmail, { ...answered, redacted })).toThrow('copy');
  });
});

describe('renderFirstPermit', () => {
  const first = { attestationId, constraintsEvaluated: permitted.evaluated, pii: [], hold: null };

  it('repeats the first answer', () => {
    expect(renderFirstPermit(first, null)).toEqual(renderDecision(permitted, answered));
    expect(renderFirstPermit({ ...first, pii: [email] }, redacted)).toEqual(
      renderDecision(redactedEmail, { ...answered, redacted }),
    );
  });
});

describe('decisionJson', () => {
  const frozen = (decision: Decision): Decision => ({ ...decision, evaluated: listChecks(0b10_0111) });

  const heldFor = (usd: number, ms: number): Decision['hold'] => ({
    amountMicroUsd: Math.round(usd * 1e6) as MicroUsd,
    expiresAtMs: (nowMs + ms) as UnixMillis,
  });

  it.each<[Decision, Answered]>([
    [permitted, answered],
    [frozen(permitted), answered],
    [{ ...permitted, hold: heldFor(12.5, 3_600_007) }, answered],
    [{ ...permitted, hold: heldFor(0.000001, 60_000) }, answered],
    [frozen(blocked), answered],
    [overLimit, answered],
    [tooOften, answered],
    [withEmail, answered],
    [redactedEmail, { ...answered, redacted }],
    [suspended, waiting],
  ])('writes what JSON.stringify writes: %#', (decision, with_) => {
    const json = JSON.stringify(renderDecision(decision, with_));
    expect(decisionJson(decision, with_)).toBe(json);
  });

  it('remembers no list that can still change', () => {
    const evaluated: CheckName[] = ['passport'];
    decisionJson({ ...permitted, evaluated }, answered);
    evaluated.push('permission');
    expect(decisionJson({ ...permitted, evaluated }, answered)).toContain('["passport","permission"]');
  });
});

describe('renderGateTest', () => {
  const test = { attestationId, gateId, agentId: 'agent-1', redacted: null, timestampMs: nowMs };

  it('says allow for PERMIT', () => {
    expect(renderGateTest({ ...test, decision: permitted })).toEqual({
      ...{ decision: 'allow', agent_id: 'agent-1', gate_id: gateId, attestation_id: attestationId },
      ...{ timestamp: '2026-01-01T12:00:00.000Z', guardrails_evaluated: ['passport', 'permission'] },
      ...{ all_passed: true, reason: null },
    });
  });

  it('says block with its reason', () => {
    expect(renderGateTest({ ...test, decision: overLimit, agentId: null })).toMatchObject({
      ...{ decision: 'block', agent_id: null, all_passed: false, reason: 'spend_limit_exceeded' },
      ...{ detail: 'The amount exceeds a spend limit.', limit: 50 },
    });
  });

  it('says suspend, and names no approval, because it opens none', () => {
    const answer = renderGateTest({ ...test, decision: suspended, attestationId: null });
    expect(answer).toMatchObject({ decision: 'suspend', all_passed: false, reason: 'approval_required' });
    expect(answer).not.toHaveProperty('approval_id');
  });
});

describe('the table of reasons', () => {
  it('names a time to try again only where trying again may help', () => {
    for (const { retryable, afterMs } of Object.values(reasons)) {
      if (!retryable) expect(afterMs).toBeNull();
    }
  });
});
