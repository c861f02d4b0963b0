import { describe, expect, it } from 'vitest';
import { minuteMs, secondMs } from '../../../shared/model/time.ts';
import { machineClock } from '../../../shared/runtime/clock.ts';

/** A machine of which a test says when it sleeps, and when the process is stopped between two readings. */
function aMachine() {
  const machine = { awakeMs: 5_000, wallMs: 1_800_000_000_000, uptimeMs: 9_000 };
  /** After so many readings, of whichever clock, the process is stopped once, for so long. */
  const stop = { afterReadings: Number.POSITIVE_INFINITY, forMs: 0 };
  const pass = (ms: number): void => {
    machine.awakeMs += ms;
    machine.wallMs += ms;
    machine.uptimeMs += ms;
  };
  const read = (name: keyof typeof machine) => (): number => {
    const value = machine[name];
    if (--stop.afterReadings === 0) pass(stop.forMs);
    return value;
  };
  const clock = machineClock({
    awakeMs: read('awakeMs'),
    wallMs: read('wallMs'),
    uptimeMs: read('uptimeMs'),
  });
  return { machine, stop, pass, clock };
}

describe('the clock of a machine', () => {
  it('counts the time awake, whatever the wall clock is set to', () => {
    const { machine, pass, clock } = aMachine();
    const beganAtMs = clock.monotonic();
    pass(secondMs);
    machine.wallMs += 60 * minuteMs;
    expect(clock.monotonic()).toBe(beganAtMs + secondMs);
    machine.wallMs -= 90 * minuteMs;
    pass(secondMs);
    expect(clock.monotonic()).toBe(beganAtMs + 2 * secondMs);
  });

  it('counts a sleep, from the first reading after it', () => {
    const { machine, pass, clock } = aMachine();
    const beganAtMs = clock.monotonic();
    machine.wallMs += minuteMs;
    machine.uptimeMs += minuteMs;
    expect(clock.monotonic()).toBe(beganAtMs + minuteMs);
    pass(secondMs);
    expect(clock.monotonic()).toBe(beganAtMs + minuteMs + secondMs);
  });

  it.each(Array.from({ length: 12 }, (_, place) => place + 1))(
    'counts no stop of its process as a sleep: after reading %i',
    (afterReadings) => {
      const { machine, stop, pass, clock } = aMachine();
      const aheadMs = clock.monotonic() - machine.awakeMs;
      Object.assign(stop, { afterReadings, forMs: 2 * secondMs });
      for (let reading = 0; reading < 8; reading++) {
        clock.monotonic();
        pass(1);
      }
      expect(stop.afterReadings, 'it was stopped').toBeLessThanOrEqual(0);
      expect(clock.monotonic() - machine.awakeMs).toBe(aheadMs);
      // And it still notices a sleep.
      machine.wallMs += minuteMs;
      machine.uptimeMs += minuteMs;
      expect(clock.monotonic() - machine.awakeMs).toBe(aheadMs + minuteMs);
    },
  );
});
