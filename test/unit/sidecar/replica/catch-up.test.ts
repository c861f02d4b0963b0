import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { silentLogger } from '../../../../shared/runtime/logger.ts';
import { CatchUp } from '../../../../sidecar/replica/catch-up.ts';
import { replicaLimits } from '../../../../sidecar/replica/limits.ts';
import { fakedClock, fakedTimers } from '../../../support/base/faked-timers.ts';

let stoppedMs: number;
let asOfMs: number;
let catchUp: CatchUp;
let asked: number;
const order: string[] = [];

const clock = {
  monotonic: () => (fakedClock.monotonic() + stoppedMs) as ReturnType<typeof fakedClock.monotonic>,
};
/** Nothing runs, no timer either, and the time goes on. */
const stopFor = (durationMs: number) => {
  stoppedMs += durationMs;
};

beforeEach(() => {
  vi.useFakeTimers({ toFake: [...fakedTimers] });
  stoppedMs = 0;
  asOfMs = 0;
  asked = 0;
  order.length = 0;
  catchUp = new CatchUp({ clock, asOfMs: () => asOfMs, logger: silentLogger });
  catchUp.onBehind = () => asked++;
});
afterEach(() => {
  catchUp.stop();
  vi.useRealTimers();
});

describe('an event loop', () => {
  it('decides while it runs, also after a long time without requests', () => {
    expect(catchUp.mayDecideAt(clock.monotonic())).toBe(true);
    vi.advanceTimersByTime(10 * replicaLimits.loopStopMsMax);
    expect(catchUp.mayDecideAt(clock.monotonic())).toBe(true);
    stopFor(replicaLimits.loopStopMsMax - replicaLimits.loopTickMs);
    expect(catchUp.mayDecideAt(clock.monotonic())).toBe(true);
    expect(asked).toBe(0);
  });

  it.each(['a request', 'a tick'])(
    'asks at once and waits where it was stopped, whoever notices: %s',
    (first) => {
      stopFor(replicaLimits.loopStopMsMax + 1);
      if (first === 'a tick') vi.advanceTimersByTime(replicaLimits.loopTickMs);
      expect(catchUp.mayDecideAt(clock.monotonic())).toBe(false);
      expect(asked).toBe(1);
      // What was known before, and what was true before it went on, is not enough.
      const resumedAtMs = clock.monotonic();
      asOfMs = resumedAtMs - replicaLimits.loopTickMs - 1;
      catchUp.look();
      expect(catchUp.mayDecideAt(clock.monotonic())).toBe(false);
      asOfMs = resumedAtMs;
      expect(catchUp.mayDecideAt(clock.monotonic())).toBe(true);
      expect(asked).toBe(1);
    },
  );

  it('releases waiters in their order once the state is known, and not before', () => {
    stopFor(5_000);
    expect(catchUp.mayDecideAt(clock.monotonic())).toBe(false);
    for (const name of ['a', 'b']) expect(catchUp.wait(() => order.push(name))).toBe(true);
    vi.advanceTimersByTime(5 * replicaLimits.loopTickMs);
    expect(order).toEqual([]);
    asOfMs = clock.monotonic();
    catchUp.look();
    vi.advanceTimersByTime(0);
    expect(order).toEqual(['a', 'b']);
  });

  it('goes on without an answer after a while, and begins anew when it is stopped again meanwhile', () => {
    stopFor(5_000);
    expect(catchUp.mayDecideAt(clock.monotonic())).toBe(false);
    vi.advanceTimersByTime(replicaLimits.catchUpMsMax - replicaLimits.loopTickMs);
    expect(catchUp.mayDecideAt(clock.monotonic())).toBe(false);
    stopFor(5_000);
    expect(catchUp.mayDecideAt(clock.monotonic())).toBe(false);
    expect(asked).toBe(2);
    vi.advanceTimersByTime(replicaLimits.catchUpMsMax - replicaLimits.loopTickMs);
    expect(catchUp.mayDecideAt(clock.monotonic())).toBe(false);
    vi.advanceTimersByTime(2 * replicaLimits.loopTickMs);
    expect(catchUp.mayDecideAt(clock.monotonic())).toBe(true);
  });

  it('keeps a bounded number waiting', () => {
    stopFor(5_000);
    expect(catchUp.mayDecideAt(clock.monotonic())).toBe(false);
    for (let i = 0; i < replicaLimits.catchUpWaitersMax; i++)
      expect(catchUp.wait(() => undefined)).toBe(true);
    expect(catchUp.wait(() => order.push('one too many'))).toBe(false);
    asOfMs = clock.monotonic();
    vi.advanceTimersByTime(replicaLimits.loopTickMs);
    expect(catchUp.mayDecideAt(clock.monotonic())).toBe(true);
    expect(order).toEqual([]);
  });
});
