import { limits } from '../model/limits.ts';

/** Expected demand on a counter, at its recent rate. */
export interface Ahead {
  /** In the next `limits.leaseAheadMs`; follows a rise at once. */
  readonly soon: number;
  /** In the next `limits.leaseReserveMs`, by the pace of the last second or so. */
  readonly later: number;
}

/**
 * Estimates the demand on a counter from its recent rate. A rarely used counter has no demand ahead: a lease
 * for a request that may never come would cost two calls for nothing. `soon` follows a rise at once and
 * decays with time, because too little makes requests wait. `later` is the mean over the last one to two
 * spans of `limits.leasePaceMs`: steady for single requests, and 0 once those spans are over, which makes
 * units leased for further requests idle.
 *
 *     spans of leasePaceMs      │ before │  this  │
 *     takes                      x  x  x   x x ^now
 *
 * There `later` is 5 takes in the time of both spans so far, times `limits.leaseReserveMs`.
 */
export class Demand {
  #units = 0;
  #takes = 0;
  #unitsPerMs = 0;
  #takesPerMs = 0;
  #sinceMs: number;
  #spanAtMs: number;
  #spanUnits = 0;
  #spanTakes = 0;
  #unitsBefore = 0;
  #takesBefore = 0;

  constructor(nowMs: number) {
    this.#sinceMs = nowMs;
    this.#spanAtMs = nowMs;
  }

  note(units: number): void {
    this.#units += units;
    this.#takes++;
    this.#spanUnits += units;
    this.#spanTakes++;
  }

  /** Units; 0 if they would not serve two requests. Monotonic time. */
  ahead(nowMs: number): Ahead {
    return { soon: this.#soon(nowMs), later: this.#later(nowMs) };
  }

  #soon(nowMs: number): number {
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

  #later(nowMs: number): number {
    const spanMs = nowMs - this.#spanAtMs;
    if (spanMs >= limits.leasePaceMs) {
      const isNext = spanMs < 2 * limits.leasePaceMs;
      this.#unitsBefore = isNext ? this.#spanUnits : 0;
      this.#takesBefore = isNext ? this.#spanTakes : 0;
      this.#spanUnits = 0;
      this.#spanTakes = 0;
      this.#spanAtMs = isNext ? this.#spanAtMs + limits.leasePaceMs : nowMs;
    }
    if (this.#takesBefore + this.#spanTakes < 2) return 0;
    const measuredMs = limits.leasePaceMs + nowMs - this.#spanAtMs;
    return Math.floor(((this.#unitsBefore + this.#spanUnits) / measuredMs) * limits.leaseReserveMs);
  }
}

/**
 * The earlier estimate weighs less the longer the new interval is, and nothing after `limits.leaseAheadMs`.
 */
function follow(knownPerMs: number, count: number, elapsedMs: number): number {
  const measuredPerMs = count / elapsedMs;
  const weight = Math.min(1, elapsedMs / limits.leaseAheadMs);
  return Math.max(measuredPerMs, knownPerMs + (measuredPerMs - knownPerMs) * weight);
}
