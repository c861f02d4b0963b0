import { assert } from '../errors/assert.ts';
import { limits } from '../model/limits.ts';
import type { UnixMillis } from '../model/time.ts';
import { Demand } from './demand.ts';

/** The ledger's answer to one ask for one window. */
export interface LeaseGrant {
  /** 0: nothing was granted, and the other numbers show why. */
  readonly granted: number;
  /** All units given out in the window, including these. */
  readonly leased: number;
  /** Units among them lent to other holders and not used on record; absent: unknown. */
  readonly lent?: number;
  readonly startsAtMs: UnixMillis;
  readonly endsAtMs: UnixMillis;
  /** Time of the grant by the grantor's clock. */
  readonly leftMs: number;
  /** When the answered attempt of the call was sent, on the holder's monotonic clock. */
  readonly sentAtMs: number;
  /** Units requested for waiting requests, and ahead of need. */
  readonly unitsNeeded: number;
  readonly unitsAhead: number;
}

/** Units on their way back. */
export interface Returning {
  readonly startsAtMs: UnixMillis;
  readonly units: number;
  readonly holding: number;
}

/**
 * The units that one holder has of the current window of one counter (contract §6; ARCHITECTURE.md,
 * "Quotas"). It has two states:
 *
 *     empty ──grant──> held ──grant, take, giveBack, passOn, startReturn, endReturn──> held
 *       ^                │
 *       └── its end, a grant of a later window, or drop ──┘
 *
 *   empty  Nothing is known of any window and nothing can be taken: after the start, and between the end of
 *          one window and the first grant of the next. Whatever was held has vanished: it is neither given
 *          back nor used.
 *   held   A window of the ledger, by its start. Each unit that the ledger counts for this holder is in one
 *          place:
 *
 *              granted = available + taken + returning
 *
 *          `take` moves units from available to taken, `giveBack` the other way. `passOn` and `endReturn` end
 *          units of taken and of returning: the ledger counts them for another holder, or for none, from
 *          then on.
 *
 * Each stay in `held` has a number, `holding`. Later news about taken or returned units names its holding and
 * is ignored after that holding ends, so no unit of one window turns up in the next.
 *
 * The end is computed on the holder's monotonic clock from before the grant, so it is never later than by the
 * grantor's clock, whatever any wall clock shows. The earliest end of several grants counts, because replicas
 * of the grantor may have different clocks.
 *
 * No timers: every call that depends on time gets `nowMs`, on the monotonic clock, and first ends an expired
 * window. The fields `limit`, `available`, `used`, `isFinal` and `endsAtMs` are those of a WindowView of the
 * decision core.
 */
export class Lease {
  /** A lease alone is not the answer to a request. */
  readonly isFinal = false;
  #limit: number;
  #available = 0;
  #taken = 0;
  #returning = 0;
  #granted = 0;
  /** Leased by all holders at the ledger's last answer, less what was returned since. */
  #leased = 0;
  /** Units among these lent to others and not used on record, by the last answer that had this. */
  #lentToOthers = 0;
  #startsAtMs: UnixMillis | null = null;
  #endsAtMs: UnixMillis | null = null;
  /** Infinity while empty. */
  #overAtMs = Number.POSITIVE_INFINITY;
  #holding = 0;
  readonly #demand: Demand;
  #target = 0;
  /** Units the ledger granted ahead when it last granted less than asked; Infinity after a full grant. */
  #capacity = Number.POSITIVE_INFINITY;
  #lowWater = 0;
  /** Fewest units available since `markedAtMs`; that many were not needed. */
  #lowest = 0;
  #markedAtMs: number;

  constructor(limit: number, nowMs: number) {
    this.#limit = limit;
    this.#demand = new Demand(nowMs);
    this.#markedAtMs = nowMs;
  }

  get limit(): number {
    return this.#limit;
  }

  /** The configured limit. Only for answers; the ledger decides grants. */
  set limit(units: number) {
    this.#limit = units;
  }

  get available(): number {
    return this.#available;
  }

  get taken(): number {
    return this.#taken;
  }

  get returning(): number {
    return this.#returning;
  }

  get granted(): number {
    return this.#granted;
  }

  /** Units taken here or used by others, as far as known. */
  get used(): number {
    return Math.max(this.#taken, this.#leased - this.#available - this.#lentToOthers);
  }

  /** Null while empty. */
  get startsAtMs(): UnixMillis | null {
    return this.#startsAtMs;
  }

  get endsAtMs(): UnixMillis | null {
    return this.#endsAtMs;
  }

  /** On the monotonic clock of its holder; Infinity while empty. */
  get overAtMs(): number {
    return this.#overAtMs;
  }

  get holding(): number {
    return this.#holding;
  }

  /**
   * Units beyond those needed soon, by the last `plan`. After a partial grant only the units granted ahead
   * may stay: the rest was for a request that did not take it, and may be the last of the window.
   */
  get spare(): number {
    return Math.max(0, this.#available - Math.min(this.#target, this.#capacity));
  }

  /** Low enough to lease more before it is needed. */
  get isLow(): boolean {
    return this.#available < this.#lowWater;
  }

  endIfOver(nowMs: number): void {
    if (nowMs >= this.#overAtMs) this.drop();
  }

  /** Ends a window of which another one, by the clock that names both, shows that it is over. */
  endIfBefore(startsAtMs: number): void {
    if (this.#endsAtMs !== null && this.#endsAtMs <= startsAtMs) this.drop();
  }

  /**
   * Applies an answer of the ledger. Ignores units of a window earlier than the held one, which a grantor
   * with a slow clock gave, and units whose window ended in transit.
   */
  grant(grant: LeaseGrant, nowMs: number): void {
    this.endIfOver(nowMs);
    assert(Number.isSafeInteger(grant.granted) && grant.granted >= 0, 'whole units are granted');
    const { startsAtMs } = grant;
    if (this.#startsAtMs !== null && startsAtMs < this.#startsAtMs) return;
    const overAtMs = grant.sentAtMs + grant.leftMs;
    if (startsAtMs !== this.#startsAtMs) {
      this.drop();
      if (nowMs >= overAtMs) return;
      this.#begin(grant, nowMs);
    }
    this.#overAtMs = Math.min(this.#overAtMs, overAtMs);
    this.#available += grant.granted;
    this.#granted += grant.granted;
    // At least the units held here, whatever the ledger reports: it may have freed passed-on units before the
    // holder learned of it.
    this.#leased = Math.max(grant.leased, this.#granted);
    this.#lentToOthers = grant.lent ?? 0;
    const isCut = grant.granted < grant.unitsNeeded + grant.unitsAhead;
    this.#capacity = isCut ? Math.max(0, grant.granted - grant.unitsNeeded) : Number.POSITIVE_INFINITY;
    this.#assertWhole();
    this.endIfOver(nowMs);
    this.plan(nowMs);
  }

  #begin({ startsAtMs, endsAtMs }: LeaseGrant, nowMs: number): void {
    this.#holding++;
    this.#startsAtMs = startsAtMs;
    this.#endsAtMs = endsAtMs;
    this.#lowest = 0;
    this.#markedAtMs = nowMs;
  }

  /** The units must be there. */
  take(units: number): void {
    assert(units >= 0 && units <= this.#available, 'no more is taken than is there');
    this.#available -= units;
    this.#taken += units;
    if (this.#available < this.#lowest) this.#lowest = this.#available;
    this.#demand.note(units);
  }

  giveBack(units: number, holding: number, nowMs: number): void {
    if (!this.#isIn(holding, nowMs)) return;
    assert(units >= 0 && units <= this.#taken, 'no more is given back than was taken');
    this.#taken -= units;
    this.#available += units;
    this.#assertWhole();
  }

  /** The ledger now counts these units for another owner. */
  passOn(units: number, holding: number, nowMs: number): void {
    if (!this.#isIn(holding, nowMs)) return;
    assert(units >= 0 && units <= this.#taken, 'no more is passed on than was taken');
    this.#taken -= units;
    this.#granted -= units;
    this.#assertWhole();
  }

  /**
   * Marks units that the next call returns to the ledger. One return at a time; call `endReturn` on its
   * answer.
   */
  startReturn(units: number): Returning {
    assert(units > 0 && units <= this.#available, 'what goes back is there');
    assert(this.#returning === 0, 'one return at a time');
    assert(this.#startsAtMs !== null, 'what is there is of a window');
    this.#available -= units;
    this.#returning = units;
    this.#lowest = Math.min(this.#lowest, this.#available);
    return { startsAtMs: this.#startsAtMs, units, holding: this.#holding };
  }

  endReturn({ units, holding }: Returning): void {
    if (this.#startsAtMs === null || holding !== this.#holding) return;
    assert(units === this.#returning, 'what has gone back was on its way');
    this.#returning = 0;
    this.#granted -= units;
    this.#leased = Math.max(this.#leased - units, this.#granted);
    this.#assertWhole();
  }

  /** Goes to `empty`: the window is over, or the ledger has forgotten the holder. */
  drop(): void {
    this.#available = 0;
    this.#taken = 0;
    this.#returning = 0;
    this.#granted = 0;
    this.#leased = 0;
    this.#lentToOthers = 0;
    this.#startsAtMs = null;
    this.#endsAtMs = null;
    this.#overAtMs = Number.POSITIVE_INFINITY;
    this.#capacity = Number.POSITIVE_INFINITY;
    this.#lowWater = 0;
    this.#lowest = 0;
  }

  /**
   * Re-evaluates demand and sets the units to hold ahead.
   *
   * Far from the limit that is `limits.leaseReserveMs` of demand, to ride out a restart of the control plane,
   * but no more than lasts until the window ends and at most one part in `limits.leaseAheadPart` of the units
   * the ledger last had left. As the window runs dry this part shrinks below the demand of
   * `limits.leaseAheadMs`, which then becomes the target, and units beyond it are returned: near the limit no
   * holder keeps units that another needs now.
   *
   * A reserve is renewed when a fifth is used, so that most of it is there whenever the control plane goes
   * away. Otherwise renewal is at half, 100 ms before it runs out: many times the length of a call. After a
   * partial grant the low-water mark follows the grant: otherwise one holder would keep asking and get, slice
   * by slice, units meant for others.
   */
  plan(nowMs: number): void {
    const { soon, later } = this.#demand.ahead(nowMs);
    const isHeld = this.#startsAtMs !== null;
    const untilEnd = Math.min(1, Math.max(0, this.#overAtMs - nowMs) / limits.leaseReserveMs);
    const free = Math.max(0, this.#limit - this.#leased);
    const reserve = Math.floor(Math.min(later * untilEnd, free / limits.leaseAheadPart));
    this.#target = Math.min(Math.max(soon, reserve), this.#limit);
    const share = reserve > soon ? 4 / 5 : 1 / 2;
    this.#lowWater = isHeld ? Math.floor(Math.min(this.#target, this.#capacity) * share) : 0;
  }

  /** Units to ask for on top, once `needed` units are taken. By the last `plan`. */
  aheadOf(needed: number): number {
    return Math.max(0, this.#target - Math.max(0, this.#available - needed));
  }

  /**
   * Idle units: beyond the target and not taken for `limits.leaseIdleMs`, or for `limits.leaseSweepMs` if the
   * target is 0. A small excess does not count, or each change of pace would cost a call. 0 before that time.
   * The caller returns them; this restarts the time. By the last `plan`.
   */
  takeSurplus(nowMs: number): number {
    this.endIfOver(nowMs);
    const idleMs = this.#target === 0 ? limits.leaseSweepMs : limits.leaseIdleMs;
    if (nowMs - this.#markedAtMs < idleMs) return 0;
    const beyond = this.#lowest - this.#target;
    const surplus = beyond > 0 && beyond >= this.#target / 4 ? beyond : 0;
    this.#lowest = this.#available - surplus;
    this.#markedAtMs = nowMs;
    return surplus;
  }

  #isIn(holding: number, nowMs: number): boolean {
    this.endIfOver(nowMs);
    return this.#startsAtMs !== null && holding === this.#holding;
  }

  #assertWhole(): void {
    const { available, taken, returning, granted } = this;
    assert(available >= 0 && taken >= 0 && returning >= 0, 'no number of units is negative');
    assert(granted === available + taken + returning, 'each unit that was granted is in one place');
  }
}
