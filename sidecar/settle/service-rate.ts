import { limits } from '../../shared/model/limits.ts';
import { settleLimits } from './limits.ts';

/**
 * What a call with settlements takes: some time however few it carries, most of all where the database is far
 * away or the machine is crowded, and some for each of them. From that follows how many a call may carry, and
 * how many may be open so that each is settled in its time. A rate would say less: calls of 25 that take 160
 * ms may take 200 ms with 100.
 *
 * Both parts are learned from the calls of late, as the line through what they carried and took. Of calls
 * that are larger than any of late nothing is known, so that they are expected to be twice as large at most.
 * Before the first answer nothing is bounded but by `settleLimits.settlementsMax`.
 */
export class ServiceRate {
  #isMeasured = false;
  /** Lowered by calls without an answer, which are measured by nothing else. */
  #callMaxOfLate: number = limits.settlementsPerCallMax;
  #countMax = 0;
  #answeredAtMs = 0;
  /** Of the last few calls: means, and the time in which that of two calls at once counts once. */
  #count = 0;
  #tookMs = 0;
  #busyMs = 0;
  /** Of more of them, because a line takes many: means, and what varies around them. */
  #countOfMany = 0;
  #tookMsOfMany = 0;
  #variance = 0;
  #covariance = 0;

  /** A call of so many was answered. */
  settled(count: number, call: { readonly sentAtMs: number; readonly nowMs: number }): void {
    this.#callMaxOfLate = Math.min(limits.settlementsPerCallMax, this.#callMaxOfLate * growsAgain);
    const tookMs = call.nowMs - call.sentAtMs;
    const busyMs = call.nowMs - Math.max(call.sentAtMs, this.#answeredAtMs);
    this.#answeredAtMs = call.nowMs;
    this.#countMax = Math.max(count, this.#countMax - (this.#countMax - count) * forgets);
    const part = this.#isMeasured ? forgets : 1;
    this.#count += (count - this.#count) * part;
    this.#tookMs += (tookMs - this.#tookMs) * part;
    this.#busyMs += (busyMs - this.#busyMs) * part;
    const partOfMany = this.#isMeasured ? forgetsOfMany : 1;
    const countOff = count - this.#countOfMany;
    const tookOff = tookMs - this.#tookMsOfMany;
    this.#countOfMany += countOff * partOfMany;
    this.#tookMsOfMany += tookOff * partOfMany;
    this.#variance = (1 - partOfMany) * (this.#variance + partOfMany * countOff * countOff);
    this.#covariance = (1 - partOfMany) * (this.#covariance + partOfMany * countOff * tookOff);
    this.#isMeasured = true;
  }

  /** A call of so many was not answered in its time: with as many, the next one would not be either. */
  unanswered(count: number): void {
    this.#callMaxOfLate = Math.max(settleLimits.settlementsPerCallMin, count / 2);
  }

  /**
   * How many a call may carry: what is settled in half of the time that a request may wait, so that one that
   * waits for the next call is answered as well. Where a call takes that long by itself, as many as make it
   * twice as long.
   */
  get callMax(): number {
    if (!this.#isMeasured) return Math.floor(this.#callMaxOfLate);
    const inTime = this.#countIn(Math.max(limits.quotaWaitMsMax / 2, 2 * this.#baseMs));
    const count = Math.max(settleLimits.settlementsPerCallMin, Math.min(2 * this.#countMax, inTime));
    return Math.floor(Math.min(this.#callMaxOfLate, count));
  }

  openMax(patienceMs: number): number {
    if (!this.#isMeasured) return settleLimits.settlementsMax;
    const inMs = patienceMs * safety;
    const count = this.callMax;
    const callMs = this.#baseMs + this.#eachMs * count;
    // Several calls, one after the other, or a part of one.
    const inTime = callMs < inMs ? (count * inMs) / callMs : Math.min(count, this.#countIn(patienceMs));
    const atOnce = this.#busyMs === 0 ? 1 : this.#tookMs / this.#busyMs;
    return Math.min(settleLimits.settlementsMax, Math.max(settleLimits.settlementsOpenMin, inTime * atOnce));
  }

  #countIn(ms: number): number {
    return ms <= this.#baseMs ? 0 : (ms - this.#baseMs) / this.#eachMs;
  }

  get #baseMs(): number {
    return this.#tookMs - this.#eachMs * this.#count;
  }

  /** 0 where all carried as many: then nothing is known of it. */
  get #eachMs(): number {
    if (this.#covariance <= 0) return 0;
    return Math.min(this.#covariance / this.#variance, this.#tookMs / this.#count);
  }
}

/** Of the time that is left: the rest is for calls that take longer than the last ones. */
const safety = 0.7;
/** Of the last calls the fourth before counts a third as much as the last. */
const forgets = 1 / 4;
const forgetsOfMany = 1 / 16;
/** After a call without an answer, by each that is answered. */
const growsAgain = 1.25;
