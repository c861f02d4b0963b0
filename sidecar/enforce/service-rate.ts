import { enforceLimits } from './limits.ts';

/**
 * How many settlements may be open so that each is settled in its time. Measured only while there is more to
 * do than the control plane has done: what is settled at leisure says nothing about what could be. Until it
 * was measured for the first time `enforceLimits.settlementsMax` counts.
 */
export class ServiceRate {
  /** Settlements in a millisecond; Infinity until measured. */
  #perMs = Number.POSITIVE_INFINITY;
  /** Since when more has waited all the time; null: it has not. */
  #saturatedSinceMs: number | null = null;
  #settledSince = 0;

  /** A call of so many was answered. `isSaturated`: others wait for the next. */
  settled(
    count: number,
    call: { readonly nowMs: number; readonly sentAtMs: number; readonly isSaturated: boolean },
  ): void {
    const { nowMs, sentAtMs, isSaturated } = call;
    if (this.#saturatedSinceMs !== null || isSaturated) {
      this.#saturatedSinceMs ??= sentAtMs;
      this.#settledSince += count;
    }
    if (this.#saturatedSinceMs === null) return;
    const elapsedMs = nowMs - this.#saturatedSinceMs;
    if (elapsedMs >= sampleMs) {
      const measured = this.#settledSince / elapsedMs;
      this.#perMs = this.#perMs === Number.POSITIVE_INFINITY ? measured : (this.#perMs + measured) / 2;
      this.#saturatedSinceMs = nowMs;
      this.#settledSince = 0;
    }
    if (!isSaturated) {
      this.#saturatedSinceMs = null;
      this.#settledSince = 0;
    }
  }

  openMax(patienceMs: number): number {
    const inTime = this.#perMs * patienceMs * safety;
    return Math.min(enforceLimits.settlementsMax, Math.max(enforceLimits.settlementsOpenMin, inTime));
  }
}

/** Several calls at the usual 10 to 30 ms each. */
const sampleMs = 100;
/** Of the time that is left: the rest is for a rate that falls meanwhile. */
const safety = 0.7;
