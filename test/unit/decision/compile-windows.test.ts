import { describe, expect, it } from 'vitest';
import { compileGate } from '../../../shared/decision/compile-gate.ts';
import { aGate, aPassport } from './samples.ts';

describe('the windows of a gate', () => {
  it('are those of its limits, the shortest first', () => {
    const gate = compileGate(
      aGate({
        rate_limits: { requests_per_day: 3, requests_per_hour: 2, requests_per_minute: 1 },
        spend_limits: { per_transaction_usd: 1, monthly_usd: 5, daily_usd: 0 },
      }),
    );
    expect(gate.rateWindows).toEqual([
      { kind: 'gate_rate', window: 'minute', limit: 1, per: 'gate' },
      { kind: 'gate_rate', window: 'hour', limit: 2, per: 'gate' },
      { kind: 'gate_rate', window: 'day', limit: 3, per: 'gate' },
    ]);
    expect(gate.spendWindows).toEqual([
      { kind: 'gate_spend', window: 'day', limit: 0, per: 'gate' },
      { kind: 'gate_spend', window: 'month', limit: 5_000_000, per: 'gate' },
    ]);
  });

  it('count for each passport where the limit says so', () => {
    const { rateWindows } = compileGate(aGate({ rate_limits: { requests_per_hour: 2, per: 'passport' } }));
    expect(rateWindows).toEqual([{ kind: 'gate_rate', window: 'hour', limit: 2, per: 'passport' }]);
  });
});

describe('the windows of a passport', () => {
  it("are the passport's own, at whatever gate", () => {
    const passport = aPassport({
      constraints: { rate_limits: { requests_per_minute: 4 }, spend_limits: { daily_usd: 6 } },
    });
    expect(passport.rateWindows).toEqual([
      { kind: 'passport_rate', window: 'minute', limit: 4, per: 'passport' },
    ]);
    expect(passport.spendWindows).toEqual([
      { kind: 'passport_spend', window: 'day', limit: 6_000_000, per: 'passport' },
    ]);
  });
});
