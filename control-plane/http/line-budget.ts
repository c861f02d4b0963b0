import { LRUCache } from 'lru-cache';
import type { Clock } from '../../shared/runtime/clock.ts';

/** Lines of each key in a time. `keysMax`: more are forgotten, the longest silent first, and begin anew. */
interface LineRate {
  readonly linesMax: number;
  readonly perMs: number;
  readonly keysMax: number;
}

/**
 * Bounds log lines that callers cause, for each key. A line is written before its request is answered: a line
 * for each would take more time than the requests, hide other lines, and a slow reader of the log would stop
 * the program.
 */
export class LineBudget<Key extends string> {
  readonly #clock: Pick<Clock, 'monotonic'>;
  readonly #rate: LineRate;
  readonly #keys: LRUCache<Key, Budget>;

  constructor(clock: Pick<Clock, 'monotonic'>, rate: LineRate) {
    this.#clock = clock;
    this.#rate = rate;
    this.#keys = new LRUCache({ max: rate.keysMax });
  }

  /** Number of lines of this key left out since its last one. Null: this one is left out too. */
  take(key: Key): number | null {
    const nowMs = this.#clock.monotonic();
    const budget = this.#keys.get(key) ?? { beganAtMs: nowMs, lines: 0, leftOut: 0 };
    this.#keys.set(key, budget);
    if (nowMs - budget.beganAtMs >= this.#rate.perMs) {
      budget.beganAtMs = nowMs;
      budget.lines = 0;
    }
    if (budget.lines === this.#rate.linesMax) {
      budget.leftOut += 1;
      return null;
    }
    budget.lines += 1;
    const { leftOut } = budget;
    budget.leftOut = 0;
    return leftOut;
  }
}

interface Budget {
  beganAtMs: number;
  lines: number;
  leftOut: number;
}
