import type { QuotaView, VerifiedPassport, WindowView } from '../decision/facts.ts';
import { type DrawnOf, type DrawnWindow, windowsOf } from '../decision/windows-of.ts';
import type { AttestationRecord } from '../model/attestation.ts';
import type { UnixMillis } from '../model/time.ts';
import { windowAt, windowKey } from '../quota/window.ts';
import type { FormerPolicy, OtherPolicy, PastWindows } from './decide-again.ts';

/** What was taken of a window, and what the other policy would have taken. */
interface Sum {
  readonly endsAtMs: UnixMillis;
  live: number;
  other: number;
}

/** What a request takes: of money and of requests. */
export interface Units {
  readonly money: number;
  readonly requests: number;
}

/** Windows at once: about 100 MB. More are counters of passports in one month, which no report is about. */
const windowsMax = 500_000;

/** Too many counters are in force at once. */
export class TooManyWindows extends Error {}

/**
 * The windows of the other policy, and those of passports, as they fill at one gate: by what PERMITs took,
 * and by what they would have. Takes come in the order of time, so that windows which are over are let go.
 */
export class SimulatedWindows {
  readonly #other: OtherPolicy;
  readonly #max: number;
  readonly #sums = new Map<string, Sum>();
  #trimAt = 10_000;

  constructor(other: OtherPolicy, max = windowsMax) {
    this.#other = other;
    this.#max = max;
  }

  /**
   * What they have left for a request. Where nothing differs so far, what is on record counts: it knows units
   * that were lent or held. Else the sums do. Other gates draw on limits of a passport, too, so those may
   * have less than the sums say.
   */
  at(
    {
      record,
      passport,
      former,
    }: {
      readonly record: AttestationRecord;
      readonly passport: VerifiedPassport;
      readonly former: FormerPolicy;
    },
    money: number,
    atMs: UnixMillis,
  ): PastWindows {
    const { spend, rate } = this.#drawnBy(passport);
    if (spend.length === 0 && rate.length === 0) return noPastWindows;
    const { reason, decision } = record;
    const afterRate = decision !== 'BLOCK' || reason === 'approvals_pending_exceeded';
    const afterSpend = afterRate || reason === 'rate_limit_exceeded';
    const gate = this.#other.gate;
    const ofSpend = this.#views(spend, {
      requested: money,
      atMs,
      ofGate: gate.spendWindows.length,
      isSame: former.has.spend,
      hasPassed: afterSpend,
      wasMissed: reason === 'spend_limit_exceeded',
    });
    const ofRate = this.#views(rate, {
      requested: 1,
      atMs,
      ofGate: gate.rateWindows.length,
      isSame: former.has.rate,
      hasPassed: afterRate,
      wasMissed: reason === 'rate_limit_exceeded',
    });
    const quota = { spend: ofSpend.views, rate: ofRate.views };
    if (ofSpend.open === null && ofRate.open === null) return { quota, open: null };
    const open = { spend: ofSpend.open ?? ofSpend.views, rate: ofRate.open ?? ofRate.views };
    return { quota, open: { cause: 'units', quota: open } };
  }

  /** `other` null: nothing. Negative units go back. */
  take(
    passport: VerifiedPassport,
    atMs: UnixMillis,
    { live, other }: { readonly live: Units; readonly other: Units },
  ): void {
    const { spend, rate } = this.#drawnBy(passport);
    for (const each of spend) this.#add(each, atMs, live.money, other.money);
    for (const each of rate) this.#add(each, atMs, live.requests, other.requests);
  }

  #views(
    drawn: readonly DrawnWindow[],
    asked: {
      readonly requested: number;
      readonly atMs: UnixMillis;
      readonly ofGate: number;
      readonly isSame: boolean;
      readonly hasPassed: boolean;
      readonly wasMissed: boolean;
    },
  ): { readonly views: readonly WindowView[]; readonly open: readonly WindowView[] | null } {
    const { requested, atMs, ofGate, isSame, hasPassed, wasMissed } = asked;
    const sums = drawn.map((each) => this.#sums.get(keyOf(each, atMs)) ?? nothing);
    if (wasMissed && isSame && sums.every(({ live, other }) => other >= live))
      return { views: drawn.map(({ limit }) => viewOf(limit, 0)), open: null };
    let isOpen = false;
    const open: WindowView[] = [];
    const views = drawn.map(({ limit }, place) => {
      const { live, other } = sums[place] ?? nothing;
      const isOwn = place >= ofGate;
      const wasThere = hasPassed && (isSame || isOwn) && other <= live;
      const available = wasThere ? limit : Math.max(0, limit - other);
      const isKnown = !isOwn || wasThere || available < requested;
      isOpen ||= !isKnown;
      open.push(viewOf(limit, isKnown ? available : 0));
      return viewOf(limit, available);
    });
    return { views, open: isOpen ? open : null };
  }

  #add(drawn: DrawnWindow, atMs: UnixMillis, live: number, other: number): void {
    if (live === 0 && other === 0) return;
    const key = keyOf(drawn, atMs);
    const sum = this.#sums.get(key);
    if (sum !== undefined) {
      sum.live += live;
      sum.other += other;
      return;
    }
    if (this.#sums.size >= this.#trimAt) this.#trim(atMs);
    this.#sums.set(key, { endsAtMs: windowAt(drawn.window, atMs).endsAtMs, live, other });
  }

  #trim(nowMs: UnixMillis): void {
    for (const [key, { endsAtMs }] of this.#sums) if (endsAtMs <= nowMs) this.#sums.delete(key);
    if (this.#sums.size >= this.#max) throw new TooManyWindows();
    this.#trimAt = Math.min(this.#max, Math.max(this.#trimAt, 2 * this.#sums.size));
  }

  #drawnBy(passport: VerifiedPassport): DrawnOf {
    const { gateId, spendWindows, rateWindows } = this.#other.gate;
    return windowsOf({ gate: { gateId, spendWindows, rateWindows }, passport });
  }
}

const nothing: Sum = { endsAtMs: 0 as UnixMillis, live: 0, other: 0 };

const noQuota: Pick<QuotaView, 'spend' | 'rate'> = { spend: [], rate: [] };
export const noPastWindows: PastWindows = { quota: noQuota, open: null };

const keyOf = ({ counter, window }: DrawnWindow, atMs: UnixMillis): string =>
  windowKey(counter, windowAt(window, atMs));

const viewOf = (limit: number, available: number): WindowView => ({
  limit,
  available,
  used: limit - available,
  isFinal: true,
  endsAtMs: 0 as UnixMillis,
});
