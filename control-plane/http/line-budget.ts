import type { ErrorCode } from '../../shared/errors/catalogue.ts';
import { secondMs } from '../../shared/model/time.ts';
import type { Clock } from '../../shared/runtime/clock.ts';

/**
 * Log lines about failed requests, for each code. A line is written before its request is answered: under an
 * overload a line for each would take more time than the requests, and a slow reader of the log would stop
 * the program.
 */
export class LineBudget {
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #codes = new Map<ErrorCode, { beganAtMs: number; lines: number; leftOut: number }>();

  constructor(clock: Pick<Clock, 'monotonic'>) {
    this.#clock = clock;
  }

  /** Number of failures left out since the last line. Null: this one is left out too. */
  take(code: ErrorCode): number | null {
    const nowMs = this.#clock.monotonic();
    const budget = this.#codes.get(code) ?? { beganAtMs: nowMs, lines: 0, leftOut: 0 };
    this.#codes.set(code, budget);
    if (nowMs - budget.beganAtMs >= secondMs) {
      budget.beganAtMs = nowMs;
      budget.lines = 0;
    }
    if (budget.lines === linesPerSecondMax) {
      budget.leftOut += 1;
      return null;
    }
    budget.lines += 1;
    const { leftOut } = budget;
    budget.leftOut = 0;
    return leftOut;
  }
}

const linesPerSecondMax = 10;
