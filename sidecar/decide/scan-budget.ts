import type { Clock } from '../../shared/runtime/clock.ts';
import { decideLimits } from './limits.ts';

/**
 * The time that one turn of the event loop spends on personal data. A scan takes up to some milliseconds, and
 * one turn may bring a request from every connection: without a bound all others, and the timers, would wait
 * for the sum. Requests that arrive when it is spent are scanned in a later turn, in order.
 */
export class ScanBudget {
  readonly #clock: Clock;
  #spentMs = 0;
  #isCounting = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get isSpent(): boolean {
    return this.#spentMs >= decideLimits.piiTurnMsMax;
  }

  spend<T>(work: () => T): T {
    // Queued before any request that is sent to a later turn, so that it runs before them.
    if (!this.#isCounting) {
      this.#isCounting = true;
      setImmediate(() => {
        this.#isCounting = false;
        this.#spentMs = 0;
      });
    }
    const startMs = this.#clock.monotonic();
    try {
      return work();
    } finally {
      this.#spentMs += this.#clock.monotonic() - startMs;
    }
  }
}
