import { describe, expect, it } from 'vitest';
import type { Asked } from '../race/answers.ts';
import { ToldWhileReplaced } from './told.ts';

describe('what clients are told while programs are replaced', () => {
  const ask = (told: ToldWhileReplaced, gateId: string, end: string | null, hasKey = false): void => {
    const asked: Asked = {
      lane: { gateId, passports: [], amountsUsd: [], asksAboveUsd: null },
      passport: { id: 'pass', token: 'token' },
      amountUsd: null,
      key: hasKey ? { name: 'key', askedAtMs: 0, count: 1, attestationId: null } : null,
      body: {},
      sameAs: {},
      askedAtMs: 0,
    };
    told.asks(asked, 'http://127.0.0.1:1')(end);
  };

  it.each([
    ['open', '200 PERMIT null', false, 0],
    ['limited', '200 SUSPEND approval_required', false, 0],
    ['limited', '200 BLOCK rate_limit_exceeded', false, 0],
    ['limited', '200 BLOCK approval_mismatch', false, 0],
    ['limited', '409 idempotency_conflict', true, 0],
    ['open', '503 overloaded', false, 0],
    ['open', '200 BLOCK rate_limit_exceeded', false, 1],
    ['open', '200 SUSPEND approval_required', false, 1],
    ['limited', '409 idempotency_conflict', false, 1],
    ['limited', '200 BLOCK quota_unavailable', false, 1],
    ['limited', '200 BLOCK state_stale', false, 1],
    ['limited', '503 service_unavailable', false, 1],
    ['open', '404 gate_not_found', false, 1],
    ['open', '401 unauthorized', false, 1],
    ['open', '500 internal_error', false, 1],
  ] as const)('at a gate that is %s: %s, key %s, is refused %i times', (gateId, end, hasKey, times) => {
    const told = new ToldWhileReplaced('open');
    ask(told, gateId, end, hasKey);
    expect([...told.refused.values()].reduce((sum, count) => sum + count, 0)).toBe(times);
    expect(told.answers).toBe(1);
  });

  it('counts those sent away for a moment for themselves, and no answer not as one', () => {
    const told = new ToldWhileReplaced('open');
    ask(told, 'open', '503 overloaded');
    ask(told, 'open', null);
    expect(told).toMatchObject({ answers: 1, busy: 1 });
  });
});
