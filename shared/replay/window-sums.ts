import type { DrawnOf, DrawnWindow } from '../decision/windows-of.ts';
import type { Attestation } from '../model/attestation.ts';
import { renderTime, type UnixMillis } from '../model/time.ts';
import { windowAt, windowKey } from '../quota/window.ts';
import { clockLeewayMs } from './judge.ts';

interface Sum {
  readonly counter: string;
  readonly window: string;
  readonly startsAtMs: UnixMillis;
  readonly endsAtMs: number;
  /** The highest that was in force for one of its PERMITs. */
  limit: number;
  /** Units of PERMITs far enough from both ends to be of this window by every clock. */
  sure: number;
  /** Of all PERMITs with a time in it. */
  all: number;
  /** The same, with what was given back later. */
  most: number;
}

/** What a PERMIT took, or an approval held. */
export interface Taken {
  /** At the least; 0 where all of it was given back. */
  readonly units: number;
  /** Before something was given back. */
  readonly most: number;
  /** When it was taken. */
  readonly atMs: UnixMillis;
}

/** A window whose PERMITs took more than its limit. */
export interface OverLimit {
  /** As the ledger names it: `gate_spend:gate_…`, `passport_rate:pass_…`. */
  readonly counter: string;
  readonly window: string;
  readonly starts_at: string;
  readonly limit: number;
  readonly units: number;
}

/**
 * What the PERMITs of an export have taken of each window of the calendar. An export has the passports of one
 * account, so the sum of a gate may lack those of others: a sum above the limit shows a fault, and a sum
 * below it shows nothing. Memory: about 200 bytes for each counter and window.
 */
export class WindowSums {
  readonly #sums = new Map<string, Sum>();

  add(drawn: DrawnWindow, { units, most, atMs }: Taken): void {
    const sum = this.#sumOf(drawn, atMs);
    sum.limit = Math.max(sum.limit, drawn.limit);
    sum.all += units;
    sum.most += most;
    if (atMs - clockLeewayMs >= sum.startsAtMs && atMs + clockLeewayMs < sum.endsAtMs) sum.sure += units;
  }

  /** Money of a standing approval: one window without edges. */
  addTotal(
    counter: string,
    { startsAtMs, limit, units }: Pick<Sum, 'startsAtMs' | 'limit'> & { readonly units: number },
  ): void {
    const key = `${counter} ${startsAtMs}`;
    const sum = this.#sums.get(key) ?? {
      counter,
      window: 'total',
      startsAtMs,
      endsAtMs: Number.POSITIVE_INFINITY,
      limit,
      sure: 0,
      all: 0,
      most: 0,
    };
    this.#sums.set(key, sum);
    sum.sure += units;
  }

  /** Whether one of these windows may have had no room for the request of a record, by the export. */
  wereFull({ reason, amountMicroUsd, timestampMs }: Attestation, { spend, rate }: DrawnOf): boolean {
    const isOfMoney = reason === 'spend_limit_exceeded';
    const requested = isOfMoney ? (amountMicroUsd ?? 0) : 1;
    return (isOfMoney ? spend : rate).some(({ counter, window, limit }) => {
      const sum = this.#sums.get(windowKey(counter, windowAt(window, timestampMs)));
      return (sum?.most ?? 0) + requested > limit;
    });
  }

  /**
   * Each window in which more was taken than its limit, whatever the clocks were. All that lies in a window
   * may be of the one before or after it, so three limits bound it.
   */
  *overLimits(): Generator<OverLimit> {
    for (const { counter, window, startsAtMs, limit, sure, all } of this.#sums.values()) {
      const units = sure > limit ? sure : all;
      if (sure > limit || all > 3 * limit)
        yield { counter, window, starts_at: renderTime(startsAtMs), limit, units };
    }
  }

  #sumOf({ counter, window }: DrawnWindow, atMs: UnixMillis): Sum {
    const at = windowAt(window, atMs);
    const key = windowKey(counter, at);
    const known = this.#sums.get(key);
    if (known !== undefined) return known;
    const { startsAtMs, endsAtMs } = at;
    const sum: Sum = { counter, window, startsAtMs, endsAtMs, limit: 0, sure: 0, all: 0, most: 0 };
    this.#sums.set(key, sum);
    return sum;
  }
}
