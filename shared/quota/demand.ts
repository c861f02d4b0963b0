import { limits } from '../model/limits.ts';

/**
 * How much of a counter will be wanted soon, judged by what was taken of late. It rises at once with what is measured and falls as time
 * goes by, because too little ahead makes requests wait, and too much goes back within a second or two. A counter that is used
 * now and then has no demand ahead: a lease for a request that may never come would cost two calls for nothing.
 */
export class Demand {
  #units = 0;
  #takes = 0;
  #unitsPerMs = 0;
  #takesPerMs = 0;
  #sinceMs: number;

  constructor(nowMs: number) {
    this.#sinceMs = nowMs;
  }

  note(units: number): void {
    this.#units += units;
    this.#takes++;
  }

  /** Units for the next `limits.leaseAheadMs`; 0 where these would not serve two requests. Monotonic time. */
  ahead(nowMs: number): number {
    const elapsedMs = nowMs - this.#sinceMs;
    if (elapsedMs >= limits.leaseSampleMsMin) {
      this.#unitsPerMs = follow(this.#unitsPerMs, this.#units, elapsedMs);
      this.#takesPerMs = follow(this.#takesPerMs, this.#takes, elapsedMs);
      this.#units = 0;
      this.#takes = 0;
      this.#sinceMs = nowMs;
    }
    const requests = this.#takesPerMs * limits.leaseAheadMs;
    return requests < 2 ? 0 : Math.floor(this.#unitsPerMs * limits.leaseAheadMs);
  }
}

/** What was known weighs less the longer the new time is, and nothing after `limits.leaseAheadMs`. */
function follow(knownPerMs: number, count: number, elapsedMs: number): number {
  const measuredPerMs = count / elapsedMs;
  const weight = Math.min(1, elapsedMs / limits.leaseAheadMs);
  return Math.max(measuredPerMs, knownPerMs + (measuredPerMs - knownPerMs) * weight);
}
