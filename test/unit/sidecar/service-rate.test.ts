import { describe, expect, it } from 'vitest';
import { limits } from '../../../shared/model/limits.ts';
import { settleLimits } from '../../../sidecar/settle/limits.ts';
import { ServiceRate } from '../../../sidecar/settle/service-rate.ts';

/** Calls that are answered one after the other, each with how many it carried and what it took. */
function serve(rate: ServiceRate, calls: readonly (readonly [count: number, tookMs: number])[]): void {
  let nowMs = 0;
  for (const [count, tookMs] of calls) {
    const sentAtMs = nowMs;
    nowMs += tookMs;
    rate.settled(count, { sentAtMs, nowMs });
  }
}

const repeated = (times: number, count: number, tookMs: number) =>
  Array.from({ length: times }, (): [number, number] => [count, tookMs]);

describe('the rate of settlements', () => {
  it('bounds nothing but their number until it was measured', () => {
    expect(new ServiceRate().openMax(1_000)).toBe(settleLimits.settlementsMax);
  });

  it('lets as many be open as calls carry in the time that is left, but for a reserve', () => {
    const rate = new ServiceRate();
    serve(rate, repeated(50, 256, 256));
    // The largest call, again and again.
    expect(rate.openMax(1_000)).toBeCloseTo(700);
    expect(rate.openMax(500)).toBeCloseTo(350);
  });

  it('counts the distance once for a call, however many it carries', () => {
    const rate = new ServiceRate();
    serve(
      rate,
      [1, 20, 60, 128, 20, 60, 128].map((count) => [count, 300 + count]),
    );
    // 400 for the settlements of one call of 700 ms, and not 60 for each of some 140 ms.
    expect(rate.openMax(1_000)).toBeGreaterThan(250);
    expect(rate.openMax(1_000)).toBeLessThan(500);
    // No more than one call carries; and too little time for any.
    expect(rate.openMax(400)).toBeCloseTo(100);
    expect(rate.openMax(300)).toBe(settleLimits.settlementsOpenMin);
  });

  it('expects no call to carry more than twice as many as one of late', () => {
    const openAfter = (calls: readonly (readonly [number, number])[]) => {
      const rate = new ServiceRate();
      serve(rate, calls);
      return rate.openMax(1_000);
    };
    expect(openAfter(repeated(50, 40, 500))).toBeCloseTo((2 * 40 * 700) / 500);
    expect(openAfter([...repeated(50, 40, 500), ...repeated(2, 80, 500)])).toBeCloseTo((4 * 40 * 700) / 500);
  });

  it('never closes entirely: something has to be settled to measure', () => {
    const rate = new ServiceRate();
    serve(rate, repeated(10, 1, 1_000));
    expect(rate.openMax(1_000)).toBe(settleLimits.settlementsOpenMin);
    expect(rate.openMax(0)).toBe(settleLimits.settlementsOpenMin);
    const instant = new ServiceRate();
    serve(instant, [[1, 0]]);
    expect(instant.openMax(0)).toBe(settleLimits.settlementsOpenMin);
    expect(instant.openMax(1)).toBe(settleLimits.settlementsMax);
  });

  it('follows a control plane that becomes slower, and faster again', () => {
    const rate = new ServiceRate();
    const at = (factor: number) =>
      [20, 40, 60, 80].flatMap((count) => repeated(5, count, factor * (5 + count)));
    serve(rate, at(1));
    const before = rate.openMax(1_000);
    serve(rate, at(10));
    expect(rate.openMax(1_000)).toBeLessThan(before / 5);
    serve(rate, at(1));
    expect(rate.openMax(1_000)).toBeGreaterThan(before * 0.9);
  });

  it('is not lost by one call that waits for a lock', () => {
    const rate = new ServiceRate();
    serve(rate, [...repeated(50, 25, 100), [25, 900]]);
    expect(rate.openMax(1_000)).toBeGreaterThan(50);
  });

  it('counts twice what two calls at once carry', () => {
    const rate = new ServiceRate();
    for (let call = 1; call < 50; call++)
      rate.settled(256, { sentAtMs: 128 * call - 256, nowMs: 128 * call });
    expect(rate.openMax(1_000)).toBeCloseTo(1_400);
  });

  it('lets a call carry what leaves time for the next one', () => {
    expect(new ServiceRate().callMax).toBe(limits.settlementsPerCallMax);
    const costly = new ServiceRate();
    serve(
      costly,
      repeated(10, 1, 60).flatMap((one) => [one, [20, 250], [40, 450]]),
    );
    // Some 10 ms each.
    expect(costly.callMax).toBeGreaterThan(30);
    expect(costly.callMax).toBeLessThan(60);
    const hopeless = new ServiceRate();
    serve(
      hopeless,
      repeated(10, 1, 60).flatMap((one) => [one, [20, 5_000]]),
    );
    expect(hopeless.callMax).toBe(settleLimits.settlementsPerCallMin);
    // All of it is distance: with more it takes no longer.
    const distant = new ServiceRate();
    serve(distant, repeated(20, 150, 600));
    expect(distant.callMax).toBe(limits.settlementsPerCallMax);
  });
});
