import type { MonotonicMillis, UnixMillis } from '../model/time.ts';
import type { Clock } from './clock.ts';

/** A reading of another clock, taken between `askedAtMs` and its arrival on our monotonic clock. */
export interface ClockReading {
  readonly nowMs: UnixMillis;
  readonly askedAtMs: MonotonicMillis;
}

/**
 * Maximum drift between two clocks, one part in this many: NTP slews a clock by at most 500 ppm, and a bad
 * crystal adds the same.
 */
const driftPart = 1_000;

/**
 * The time of another clock, carried on our monotonic clock: `now` is their time, independent of jumps of our
 * wall clock. Before the first reading `now` is our wall clock (`isKnown`).
 *
 * Each reading bounds how far their clock is ahead of our monotonic one:
 *
 *     ours     asked ──────────── heard       ahead >= nowMs - heard   and   ahead < nowMs + 1 - asked
 *     theirs          nowMs                   (they cut off what is below a millisecond)
 *
 * The known interval is the intersection of all readings, widened by drift, so one quick answer keeps the
 * time exact while later ones are slow. A reading outside of it means their clock has jumped: it replaces the
 * interval.
 */
export class CarriedClock implements Clock {
  readonly #own: Clock;
  #aheadMsMin = Number.NEGATIVE_INFINITY;
  #aheadMsMax = Number.POSITIVE_INFINITY;
  #knownAtMs = 0;

  constructor(own: Clock) {
    this.#own = own;
  }

  get isKnown(): boolean {
    return this.#aheadMsMin !== Number.NEGATIVE_INFINITY;
  }

  now(momentMs: MonotonicMillis = this.#own.monotonic()): UnixMillis {
    if (!this.isKnown) return this.#own.now();
    return Math.floor((this.#aheadMsMin + this.#aheadMsMax) / 2 + momentMs) as UnixMillis;
  }

  monotonic(): MonotonicMillis {
    return this.#own.monotonic();
  }

  /**
   * The certain part of our wall clock minus theirs, in whole milliseconds: less half of the quickest recent
   * round trip, so a slow answer alone shows no offset. Null before the first reading.
   */
  get offsetMs(): number | null {
    if (!this.isKnown) return null;
    const offsetMs = this.#own.now() - this.now();
    const doubtMs = Math.floor((this.#aheadMsMax - this.#aheadMsMin) / 2);
    return offsetMs < 0 ? Math.min(0, offsetMs + doubtMs) : Math.max(0, offsetMs - doubtMs);
  }

  /** Applies a reading that has just arrived. Returns how far their clock has jumped, or 0. */
  note({ nowMs, askedAtMs }: ClockReading): number {
    const heardAtMs = this.#own.monotonic();
    const aheadMsMin = nowMs - heardAtMs;
    const aheadMsMax = nowMs + 1 - Math.min(askedAtMs, heardAtMs);
    const wasKnown = this.isKnown;
    const wideningMs = wasKnown ? (heardAtMs - this.#knownAtMs) / driftPart : 0;
    const min = Math.max(aheadMsMin, this.#aheadMsMin - wideningMs);
    const max = Math.min(aheadMsMax, this.#aheadMsMax + wideningMs);
    const expectedMs = (this.#aheadMsMin + this.#aheadMsMax) / 2;
    const isJump = min > max;
    this.#aheadMsMin = isJump ? aheadMsMin : min;
    this.#aheadMsMax = isJump ? aheadMsMax : max;
    this.#knownAtMs = heardAtMs;
    return isJump ? Math.round((aheadMsMin + aheadMsMax) / 2 - expectedMs) : 0;
  }
}
