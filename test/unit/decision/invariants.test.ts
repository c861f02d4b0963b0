import { describe, expect, it } from 'vitest';
import { missedWindow } from '../../../shared/decision/check-windows.ts';
import { aWindow, decideAt, usd } from './samples.ts';

/** What is decided is held against an oracle: test/property/decide-oracle.test.ts. */
describe('a decision on what nobody has looked at', () => {
  it('is never made where the view lacks a window', () => {
    const constraints = { spend_limits: { daily_usd: 100, monthly_usd: 1_000 } };
    const request = { amountMicroUsd: usd(1) };
    expect(() => decideAt({ constraints, request, quota: { spend: [aWindow()] } })).toThrow(
      'the view lists every limit on money',
    );
  });

  it('is never made of a request that was not scanned', () => {
    const constraints = { pii_controls: { mode: 'log_only' } };
    expect(() => decideAt({ constraints, request: { pii: null } })).toThrow('was scanned');
  });

  it('does not invent the end of a window', () => {
    const spent = aWindow({ available: 0, used: 100, isFinal: true, endsAtMs: null });
    expect(() => missedWindow([spent], 1, 'requests')).toThrow('when a window ends');
  });
});
