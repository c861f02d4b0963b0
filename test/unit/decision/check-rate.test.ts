import { describe, expect, it } from 'vitest';
import { aPassport, aWindow, decideAt, nowMs, usd } from './samples.ts';

const constraints = { rate_limits: { requests_per_minute: 100 } };
const evaluated = ['passport', 'trust_level', 'issuer', 'permission', 'rate_limit'];
const full = aWindow({ available: 0, used: 100, isFinal: true });

describe('a limit on the number of requests', () => {
  it('takes one unit of a request, whatever it costs', () => {
    const request = { amountMicroUsd: usd(5) };
    expect(decideAt({ constraints, request, quota: { rate: [aWindow({ available: 1 })] } })).toMatchObject({
      outcome: 'PERMIT',
      evaluated,
      charge: { requests: 1 },
    });
  });

  it('says in requests how it was missed', () => {
    expect(decideAt({ constraints, quota: { rate: [full] } })).toMatchObject({
      outcome: 'BLOCK',
      reason: 'rate_limit_exceeded',
      evaluated,
      charge: null,
      limitMiss: { unit: 'requests', limit: 100, used: 100, requested: 1, resetAtMs: nowMs + 60_000 },
    });
  });

  it('is not decided where the ledger was not asked', () => {
    expect(decideAt({ constraints, quota: { rate: [aWindow({ available: 0 })] } })).toMatchObject({
      outcome: 'BLOCK',
      reason: 'quota_unavailable',
      unknown: 'leases',
      evaluated,
    });
  });

  it('of the passport counts besides that of the gate', () => {
    const passport = aPassport({ constraints: { rate_limits: { requests_per_day: 100 } } });
    expect(decideAt({ constraints, passport, quota: { rate: [aWindow(), full] } }).reason).toBe(
      'rate_limit_exceeded',
    );
  });

  it('comes after the limits on money', () => {
    const both = { ...constraints, spend_limits: { per_transaction_usd: 1 } };
    const request = { amountMicroUsd: usd(2) };
    expect(decideAt({ constraints: both, request, quota: { rate: [full] } }).reason).toBe(
      'spend_limit_exceeded',
    );
  });

  it('is never passed over where the view lacks a window', () => {
    expect(() => decideAt({ constraints })).toThrow('the view lists every limit on the number of requests');
  });
});
