import { describe, expect, it } from 'vitest';
import { settleLimits } from '../../../sidecar/settle/limits.ts';
import { ServiceRate } from '../../../sidecar/settle/service-rate.ts';

/** Calls of `count` that take `callMs` each, one after the other. Returns when the last one ends. */
function serve(
  rate: ServiceRate,
  calls: {
    readonly fromMs: number;
    readonly calls: number;
    readonly count: number;
    readonly callMs: number;
    readonly isSaturated: boolean;
  },
): number {
  let nowMs = calls.fromMs;
  for (let call = 0; call < calls.calls; call++) {
    const sentAtMs = nowMs;
    nowMs += calls.callMs;
    rate.settled(calls.count, { nowMs, sentAtMs, isSaturated: calls.isSaturated });
  }
  return nowMs;
}

const busy = { calls: 10, count: 20, callMs: 20, isSaturated: true } as const;

describe('the rate of settlements', () => {
  it('bounds nothing but their number until it was measured', () => {
    expect(new ServiceRate().openMax(1_000)).toBe(settleLimits.settlementsMax);
  });

  it('is not measured where nobody waits: what is done at leisure says nothing', () => {
    const rate = new ServiceRate();
    serve(rate, { ...busy, count: 1, calls: 100, fromMs: 0, isSaturated: false });
    expect(rate.openMax(1_000)).toBe(settleLimits.settlementsMax);
  });

  it('lets as many be open as are settled in the time that is left, but for a reserve', () => {
    const rate = new ServiceRate();
    serve(rate, { ...busy, fromMs: 0 });
    // 1 in a millisecond.
    expect(rate.openMax(1_000)).toBeCloseTo(700);
    expect(rate.openMax(100)).toBeCloseTo(70);
  });

  it('never closes entirely: something has to be settled to measure', () => {
    const rate = new ServiceRate();
    serve(rate, { ...busy, count: 1, callMs: 1_000, fromMs: 0 });
    expect(rate.openMax(1_000)).toBe(settleLimits.settlementsOpenMin);
    expect(rate.openMax(0)).toBe(settleLimits.settlementsOpenMin);
  });

  it('follows a control plane that becomes slower, and faster again', () => {
    const rate = new ServiceRate();
    const slowAtMs = serve(rate, { ...busy, calls: 50, fromMs: 0 });
    const before = rate.openMax(1_000);
    const fastAtMs = serve(rate, { ...busy, calls: 50, callMs: 200, fromMs: slowAtMs });
    const slow = rate.openMax(1_000);
    expect(slow).toBeLessThan(before / 5);
    serve(rate, { ...busy, calls: 100, fromMs: fastAtMs });
    expect(rate.openMax(1_000)).toBeGreaterThan(before * 0.9);
  });

  it('is raised by what is settled at leisure, and never lowered', () => {
    const rate = new ServiceRate();
    const slowAtMs = serve(rate, { ...busy, calls: 50, callMs: 2_000, fromMs: 0 });
    expect(rate.openMax(1_000)).toBe(settleLimits.settlementsOpenMin);
    // A few at a time, with pauses: nobody waits for the next call.
    let nowMs = slowAtMs;
    const atLeisure = { count: 16, calls: 1, callMs: 10, isSaturated: false };
    for (let call = 0; call < 100; call++) nowMs = serve(rate, { ...atLeisure, fromMs: nowMs + 1_000 });
    const raised = rate.openMax(1_000);
    expect(raised).toBeGreaterThan(1_000);
    serve(rate, { ...atLeisure, count: 1, calls: 100, fromMs: nowMs });
    expect(rate.openMax(1_000)).toBe(raised);
  });

  it('does not count the pause between two times of much work', () => {
    const rate = new ServiceRate();
    const idleAtMs = serve(rate, { ...busy, fromMs: 0 });
    rate.settled(1, { nowMs: idleAtMs + 20, sentAtMs: idleAtMs, isSaturated: false });
    serve(rate, { ...busy, fromMs: idleAtMs + 60_000 });
    expect(rate.openMax(1_000)).toBeGreaterThan(600);
  });
});
