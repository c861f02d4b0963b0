import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { MonotonicMillis, UnixMillis } from '../../../shared/model/time.ts';
import { CarriedClock } from '../../../shared/runtime/carried-clock.ts';

/** Our clocks, and theirs, which is asked over a line that takes its time. */
function setUp() {
  const world = { wallMs: 5_000_000, monotonicMs: 700, theirsMs: 9_000_000 };
  const clock = new CarriedClock({
    now: () => world.wallMs as UnixMillis,
    monotonic: () => world.monotonicMs as MonotonicMillis,
  });
  const pass = (durationMs: number, theirPaceMs = durationMs) => {
    world.wallMs += durationMs;
    world.monotonicMs += durationMs;
    world.theirsMs += theirPaceMs;
  };
  const read = (thereMs: number, backMs: number): number => {
    const askedAtMs = world.monotonicMs as MonotonicMillis;
    pass(thereMs);
    const nowMs = Math.floor(world.theirsMs) as UnixMillis;
    pass(backMs);
    return clock.note({ nowMs, askedAtMs });
  };
  return { world, clock, pass, read };
}

describe('a clock that is carried', () => {
  it('is our own wall clock before the first reading, and theirs from then on', () => {
    const { world, clock, pass, read } = setUp();
    expect(clock).toMatchObject({ isKnown: false, offsetMs: null });
    expect(clock.now()).toBe(world.wallMs);
    expect(read(1, 1)).toBe(0);
    expect(clock).toMatchObject({ isKnown: true, offsetMs: -3_999_999 });
    pass(60_000);
    expect(clock.now()).toBe(world.theirsMs);
  });

  it('tells the time of a moment that was just read, without another reading', () => {
    const { world, clock, pass, read } = setUp();
    read(1, 1);
    const [momentMs, thenMs] = [clock.monotonic(), world.theirsMs];
    pass(5_000);
    expect([clock.now(momentMs), clock.now()]).toEqual([thenMs, world.theirsMs]);
  });

  it('does not follow a jump of our wall clock, and shows it at once', () => {
    const { world, clock, read } = setUp();
    read(1, 1);
    world.wallMs += 90_000;
    expect(clock.now()).toBe(world.theirsMs);
    expect(clock.offsetMs).toBe(-3_909_999);
  });

  it.each([
    ['the way there', 4_200, 0],
    ['the way back', 0, 4_200],
    ['both ways', 2_100, 2_100],
  ])('takes no clock for wrong because %s was slow', (_what, thereMs, backMs) => {
    const { world, clock, read } = setUp();
    world.theirsMs = world.wallMs;
    read(thereMs, backMs);
    expect(clock.offsetMs).toBe(0);
    // One that is off by more than that shows all the same, and exactly once an answer was quick.
    world.wallMs += 90_000;
    expect(clock.offsetMs).toBeGreaterThanOrEqual(90_000 - 4_201);
    expect(clock.offsetMs).toBeLessThanOrEqual(90_000);
    read(1, 1);
    expect(Math.abs((clock.offsetMs ?? 0) - 90_000)).toBeLessThanOrEqual(1);
    world.wallMs -= 90_000;
    expect(clock.offsetMs).toBe(0);
  });

  it.each([3_600_000, -3_600_000, 30])(
    'follows a jump of theirs by %s ms with the next reading',
    (jumpMs) => {
      const { world, clock, pass, read } = setUp();
      read(1, 1);
      pass(1_000);
      world.theirsMs += jumpMs;
      expect(Math.abs(read(1, 1) - jumpMs)).toBeLessThanOrEqual(2);
      expect(Math.abs(clock.now() - world.theirsMs)).toBeLessThanOrEqual(1);
    },
  );

  it('is never further off than half of the quickest recent answer, whatever the latency and drift', () => {
    const leg = fc.integer({ min: 0, max: 3_000 });
    fc.assert(
      fc.property(
        fc.array(fc.tuple(leg, leg, fc.integer({ min: 0, max: 2_000 })), { minLength: 1, maxLength: 30 }),
        fc.integer({ min: -500, max: 500 }),
        (readings, driftPpm) => {
          const { world, clock, pass, read } = setUp();
          for (const [thereMs, backMs, pauseMs] of readings) {
            pass(pauseMs, pauseMs * (1 + driftPpm / 1_000_000));
            expect(read(thereMs, backMs)).toBe(0);
            expect(Math.abs(clock.now() - world.theirsMs)).toBeLessThanOrEqual((thereMs + backMs) / 2 + 2);
          }
        },
      ),
    );
  });
});
