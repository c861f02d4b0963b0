import { aLoop, theLoop, theProcess } from '../loop.ts';

/*
 * Timers and clocks of the simulated process. `build-simulation.ts` puts them in place of the globals of all
 * code in the bundle.
 */

class Timer {
  readonly #again: (() => void) | null;
  #cancel: () => void;

  constructor(run: () => void, delayMs: number, repeats: boolean) {
    const process = theProcess();
    const pauseMs = delayMs >= 1 ? delayMs : 1;
    const start = (): (() => void) => {
      const scheduled = theLoop().schedule(process, pauseMs, 'timer', () => {
        if (this.#again !== null) this.#again();
        run();
      });
      return () => scheduled.cancel();
    };
    this.#again = repeats
      ? () => {
          this.#cancel = start();
        }
      : null;
    this.#cancel = start();
  }

  stop(): void {
    this.#cancel();
  }

  ref(): this {
    return this;
  }

  unref(): this {
    return this;
  }
}

const begin =
  (repeats: boolean) =>
  (run: (...values: unknown[]) => void, delayMs = 0, ...values: unknown[]): Timer =>
    new Timer(() => run(...values), delayMs, repeats);
const stop = (timer: Timer | undefined | null): void => timer?.stop();

const RealDate = globalThis.Date;

class SimulatedDate extends RealDate {
  constructor(...given: readonly unknown[]) {
    super(...((given.length === 0 ? [SimulatedDate.now()] : given) as [number]));
  }

  static override now(): number {
    const loop = aLoop();
    return loop === null ? 0 : Math.floor(loop.trueMs + theProcess().machine.wallSkewMs);
  }
}

const simulatedPerformance = {
  now: (): number => (aLoop() === null ? 0 : theLoop().nowMs - theProcess().machine.startedAtMs),
};

const nextTurn = (run: (...values: unknown[]) => void, ...values: unknown[]): { stop(): void } => {
  const scheduled = theLoop().schedule(theProcess(), 0, 'io', () => run(...values));
  return { stop: () => scheduled.cancel() };
};

export {
  nextTurn as setImmediate,
  SimulatedDate as Date,
  simulatedPerformance as performance,
  stop as clearImmediate,
  stop as clearInterval,
  stop as clearTimeout,
};
export const setTimeout = begin(false);
export const setInterval = begin(true);
