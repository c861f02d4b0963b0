import { settleLimits } from './limits.ts';

/**
 * How many settlements may be open so that each is settled in its time. While others wait for the next call,
 * what the control plane settles is all that it can. What it settles at leisure shows only that it can settle
 * as much: that raises the rate and never lowers it. Without it a bound from a slow phase would stay, because
 * nobody waits for a call while so few may be open. Until the rate was measured for the first time
 * `settleLimits.settlementsMax` counts.
 */
export class ServiceRate {
  /** Settlements in a millisecond; Infinity until measured. */
  #perMs = Number.POSITIVE_INFINITY;
  /** Since this sample began: others have waited all the time. */
  #isSaturated = false;
  #settled = 0;
  /** In which calls were under way. */
  #busyMs = 0;
  #answeredAtMs = 0;

  /** A call of so many was answered. `isSaturated`: others wait for the next. */
  settled(
    count: number,
    call: { readonly nowMs: number; readonly sentAtMs: number; readonly isSaturated: boolean },
  ): void {
    const { nowMs, sentAtMs, isSaturated } = call;
    if (isSaturated && !this.#isSaturated) this.#begin(isSaturated);
    this.#settled += count;
    // The time of two calls at once counts once, and a pause between calls not at all.
    this.#busyMs += nowMs - Math.max(sentAtMs, this.#answeredAtMs);
    this.#answeredAtMs = nowMs;
    if (this.#busyMs >= sampleMs) {
      this.#measured(this.#settled / this.#busyMs);
      this.#begin(isSaturated);
    } else if (!isSaturated && this.#isSaturated) this.#begin(isSaturated);
  }

  #begin(isSaturated: boolean): void {
    this.#isSaturated = isSaturated;
    this.#settled = 0;
    this.#busyMs = 0;
  }

  #measured(perMs: number): void {
    if (!this.#isSaturated && perMs <= this.#perMs) return;
    this.#perMs = this.#perMs === Number.POSITIVE_INFINITY ? perMs : (this.#perMs + perMs) / 2;
  }

  openMax(patienceMs: number): number {
    const inTime = this.#perMs * patienceMs * safety;
    return Math.min(settleLimits.settlementsMax, Math.max(settleLimits.settlementsOpenMin, inTime));
  }
}

/** Several calls at the usual 10 to 30 ms each. */
const sampleMs = 100;
/** Of the time that is left: the rest is for a rate that falls meanwhile. */
const safety = 0.7;
