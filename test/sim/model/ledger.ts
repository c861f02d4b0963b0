import type { Entry } from '../../../control-plane/book/entry.ts';
import type { FoundLimit } from '../../../control-plane/quota/find-lanes.ts';
import { limits } from '../../../shared/model/limits.ts';
import type { UnixMillis } from '../../../shared/model/time.ts';
import { baseOf, type CounterKey, counterKey, isMoney } from '../../../shared/quota/counter.ts';
import { currentWindow, type QuotaWindow, type WindowName, windowKey } from '../../../shared/quota/window.ts';
import {
  counterOfLease,
  type LeaseAnswer,
  type LeaseCall,
  type LeaseCounter,
  type LeaseGrantBody,
  type LeaseRequest,
  type LeaseReturn,
} from '../../../shared/wire/sync/lease-call.ts';

/** Units of one window, on their way between owners. */
export interface Units {
  readonly counter: CounterKey;
  readonly window: WindowName;
  readonly startsAtMs: UnixMillis;
  readonly units: number;
}

export interface LedgerWindow {
  readonly counter: CounterKey;
  readonly window: QuotaWindow;
  /** All units that are not free. */
  leased: number;
  /** Used units of leases that are gone. */
  retired: number;
  /** Held by approvals, and spent through them. */
  held: number;
  /** The largest limit that was in force. */
  limitMax: number;
  /** Of a lane of a wallet: the window of the wallet, which counts what all its lanes give out. */
  readonly base: LedgerWindow | null;
  readonly isBase: boolean;
}

/** What a lease call is decided by. */
export interface LeaseRules {
  readonly limitOf: (ask: LeaseRequest) => FoundLimit | null;
  /** A sidecar that was heard of lately: units of the others will not come back. */
  readonly isConnected: (sidecarId: string) => boolean;
  /** As in `beginHolder`: a late call for an epoch that has ended makes no holder. */
  readonly hasEnded?: (sidecarId: string, epoch: string) => boolean;
  readonly nowMs: UnixMillis;
}

/** What lanes of a wallet may get in one call: each less what those before it may get. */
interface Offered {
  readonly free: number;
  promised: number;
}

export interface Lease {
  readonly leaseId: number;
  readonly holder: string;
  readonly sidecarId: string;
  readonly at: LedgerWindow;
  readonly isMoney: boolean;
  /** No PERMIT took them, and they were not returned. */
  unused: number;
  used: number;
  /** On record, and taken from it. */
  readonly permits: string[];
}

interface Holder {
  readonly sidecarId: string;
  readonly epoch: string | null;
  seq: number;
  answer: readonly LeaseGrantBody[];
  lastCallAtMs: number;
}

/** A PERMIT's claim on leases. */
export interface Take {
  readonly sidecarId: string;
  readonly took: readonly number[];
  readonly amountMicroUsd: number | null;
}

/**
 * The rules of `control-plane/quota` without a database: leases, their posts, returns and ends. Every call is
 * one transaction.
 */
export class Ledger {
  readonly windows = new Map<string, LedgerWindow>();
  readonly holders = new Map<string, Holder>();
  readonly leases = new Map<number, Lease>();
  /** Those that are gone, too. */
  readonly everyLease = new Map<number, Lease>();
  readonly #byWindow = new Map<string, Lease>();
  #lastLease = 0;
  /** Called after each grant. */
  onGrant: (ask: LeaseRequest, at: LedgerWindow) => void = () => undefined;
  /** Called where a holder returns more than it has, which an honest one never does. */
  onExcess: (name: string) => void = () => undefined;

  lease(call: LeaseCall, rules: LeaseRules): LeaseAnswer | 'holder_unknown' {
    const { holder: name, seq, sidecar_id: sidecarId, epoch = null } = call;
    const hasEnded = epoch !== null && rules.hasEnded?.(sidecarId, epoch) === true;
    if (seq === 1 && !this.holders.has(name) && !hasEnded)
      this.holders.set(name, { sidecarId, epoch, seq: 0, answer: [], lastCallAtMs: rules.nowMs });
    const holder = this.holders.get(name);
    if (holder === undefined || holder.sidecarId !== sidecarId) return 'holder_unknown';
    if (seq !== holder.seq && seq !== holder.seq + 1) return 'holder_unknown';
    const isNew = seq === holder.seq + 1;
    if (isNew) {
      holder.answer = this.#next(call, rules);
      holder.seq = seq;
    }
    holder.lastCallAtMs = rules.nowMs;
    const grants = holder.answer.map((grant, place) => {
      const told = this.#told(call, grant, call.asks[place], rules);
      const lease = this.#leaseOf(call, grant, call.asks[place]);
      // A repeat names a lease that the first answer had no grant for.
      return lease === undefined || (isNew && grant.granted === 0)
        ? told
        : { ...told, lease_id: lease.leaseId };
    });
    return { grants };
  }

  #leaseOf(
    { holder }: LeaseCall,
    { starts_at_ms: startsAtMs }: LeaseGrantBody,
    ask: LeaseRequest | undefined,
  ) {
    if (ask === undefined) return undefined;
    const key = windowKey(counterKey(counterOfLease(ask)), { name: ask.window, startsAtMs });
    return this.#byWindow.get(`${holder} ${key}`);
  }

  #told(
    { holder }: LeaseCall,
    grant: LeaseGrantBody,
    ask: LeaseRequest | undefined,
    { nowMs, isConnected }: { nowMs: UnixMillis; isConnected: (sidecarId: string) => boolean },
  ): LeaseGrantBody {
    const told = { ...grant, left_ms: Math.max(grant.ends_at_ms - nowMs, 0) };
    if (ask === undefined || grant.limit === null || grant.granted >= ask.units_needed) return told;
    if (grant.limit === hidden.limit) return told;
    const key = windowKey(counterKey(counterOfLease(ask)), {
      name: ask.window,
      startsAtMs: grant.starts_at_ms,
    });
    return { ...told, lent: this.lent(key, holder, isConnected) };
  }

  #next(call: LeaseCall, rules: LeaseRules): readonly LeaseGrantBody[] {
    const wanted = call.returns.map(unitsOf);
    const returned = this.takeFromHolder(call.holder, wanted);
    for (const [place, { units }] of returned.entries()) {
      const each = wanted[place] as Units;
      if (each.units > units) this.onExcess(`${each.units} of ${keyOf(each)}, of which it has ${units}`);
    }
    this.free(returned);
    const offered = new Map<LedgerWindow, Offered>();
    const grants = new Map<LeaseRequest, LeaseGrantBody>();
    for (const ask of inOrderOfMoves(call)) grants.set(ask, this.#grant(call, ask, rules, offered));
    return call.asks.map((ask) => grants.get(ask) as LeaseGrantBody);
  }

  #grant(
    call: LeaseCall,
    ask: LeaseRequest,
    { limitOf, nowMs }: LeaseRules,
    offered: Map<LedgerWindow, Offered>,
  ): LeaseGrantBody {
    const found = limitOf(ask);
    const window = currentWindow({ window: ask.window, endsAtMs: found?.endsAtMs ?? null }, nowMs);
    const counter = counterKey(counterOfLease(ask));
    const times = {
      starts_at_ms: window.startsAtMs,
      ends_at_ms: window.endsAtMs,
      left_ms: window.endsAtMs - nowMs,
    };
    if (found === null) return { granted: 0, limit: null, leased: 0, ...times };
    const { limit, baseLimit = 0 } = found;
    // Of a standing approval that is not in force no window is opened.
    if (ask.standing_approval_id !== undefined && limit === 0)
      return { granted: 0, limit, leased: 0, ...times };
    const at = this.#windowOf(counter, window);
    at.limitMax = Math.max(at.limitMax, limit);
    if (at.base !== null) at.base.limitMax = Math.max(at.base.limitMax, baseLimit);
    const free = freeFor(at, ask, { limit, baseLimit, offered });
    const isGranted = free >= ask.units_min;
    const needed = Math.min(free, ask.units_needed);
    const ahead = Math.min(ask.units_ahead, Math.floor((free - needed) / limits.leaseAheadPart));
    const granted = isGranted ? needed + ahead : 0;
    give(at, granted);
    this.#lease(call, at, granted);
    if (granted > 0) this.onGrant(ask, at);
    if (found.isHidden === true) return { ...hidden, granted, ...times };
    const leased = at.base === null ? at.leased : Math.max(at.leased, limit - (free - granted));
    return { granted, limit, leased, ...times };
  }

  #lease({ holder, sidecar_id: sidecarId }: LeaseCall, at: LedgerWindow, granted: number): void {
    const key = `${holder} ${nameOf(at)}`;
    let lease = this.#byWindow.get(key);
    if (lease === undefined && granted > 0) {
      const leaseId = ++this.#lastLease;
      lease = {
        leaseId,
        holder,
        sidecarId,
        at,
        isMoney: isMoney(at.counter),
        unused: 0,
        used: 0,
        permits: [],
      };
      this.leases.set(leaseId, lease);
      this.everyLease.set(leaseId, lease);
      this.#byWindow.set(key, lease);
    }
    if (lease !== undefined) lease.unused += granted;
  }

  #windowOf(counter: CounterKey, window: QuotaWindow): LedgerWindow {
    const key = windowKey(counter, window);
    let at = this.windows.get(key);
    if (at === undefined) {
      const baseCounter = baseOf(counter);
      const base = baseCounter === null ? null : this.#windowOf(baseCounter, window);
      const isBase = counter.startsWith('wallet_') && base === null;
      at = { counter, window, leased: 0, retired: 0, held: 0, limitMax: 0, base, isBase };
      this.windows.set(key, at);
    }
    return at;
  }

  /** Why a PERMIT cannot have taken what it says; null: it can. */
  whyNot({ sidecarId, took, amountMicroUsd }: Take, holder: string | null): string | null {
    for (const id of took) {
      const lease = this.leases.get(id);
      if (lease === undefined) {
        if (holder === null) continue;
        return 'took names a lease that has ended';
      }
      if (lease.sidecarId !== sidecarId || (holder !== null && lease.holder !== holder))
        return 'took names a lease of another holder';
      if ((lease.isMoney ? (amountMicroUsd ?? 0) : 1) > lease.unused)
        return 'took is more than a lease has left';
    }
    return null;
  }

  post(permit: string, { sidecarId, took, amountMicroUsd }: Take): void {
    for (const id of took) {
      const lease = this.leases.get(id);
      if (lease === undefined || lease.sidecarId !== sidecarId) continue;
      lease.permits.push(permit);
      const units = Math.min(lease.unused, lease.isMoney ? (amountMicroUsd ?? 0) : 1);
      lease.unused -= units;
      lease.used += units;
    }
  }

  /** What goes free of a PERMIT. A lease that is gone has left its used units. */
  draw({ sidecarId, took }: Omit<Take, 'amountMicroUsd'>, entries: readonly Entry[]): void {
    for (const { from, to, money, requests } of entries) {
      if (to !== 'free') continue;
      for (const id of took) {
        const lease = this.everyLease.get(id);
        if (lease === undefined || lease.sidecarId !== sidecarId) continue;
        const wanted = lease.isMoney ? money : requests;
        if (from !== 'lease') this.#unuse(lease, Math.min(wanted, lease.used));
        else if (this.leases.has(id)) {
          const units = Math.min(wanted, lease.unused);
          lease.unused -= units;
          give(lease.at, -units);
        }
      }
    }
  }

  #unuse(lease: Lease, units: number): void {
    lease.used -= units;
    if (!this.leases.has(lease.leaseId)) lease.at.retired -= units;
    give(lease.at, -units);
  }

  takeFromHolder(holder: string, wanted: readonly Units[]): Units[] {
    return wanted.map((each) => {
      const lease = this.#byWindow.get(`${holder} ${keyOf(each)}`);
      const units = Math.min(each.units, lease?.unused ?? 0);
      if (lease !== undefined) lease.unused -= units;
      return { ...each, units };
    });
  }

  holderHas(holder: string, wanted: readonly Units[]): boolean {
    return wanted.every(
      (each) => (this.#byWindow.get(`${holder} ${keyOf(each)}`)?.unused ?? 0) >= each.units,
    );
  }

  free(freed: readonly Units[]): void {
    for (const each of freed) {
      const at = this.windows.get(keyOf(each));
      if (at !== undefined) give(at, -each.units);
    }
  }

  hold(held: readonly Units[]): void {
    for (const each of held) {
      const at = this.windows.get(keyOf(each));
      if (at !== undefined) at.held += each.units;
    }
  }

  freeHeld(held: readonly Units[]): void {
    for (const each of held) {
      const at = this.windows.get(keyOf(each));
      if (at === undefined) continue;
      at.held -= each.units;
      give(at, -each.units);
    }
  }

  /** The leases of an epoch that has ended whole: what no record took goes back. */
  endEpoch(sidecarId: string, epoch: string): void {
    for (const [name, holder] of this.holders) {
      if (holder.sidecarId !== sidecarId || holder.epoch !== epoch) continue;
      this.holders.delete(name);
      for (const lease of this.leases.values()) {
        if (lease.holder !== name) continue;
        this.leases.delete(lease.leaseId);
        this.#byWindow.delete(`${name} ${windowKey(lease.at.counter, lease.at.window)}`);
        give(lease.at, -lease.unused);
        lease.at.retired += lease.used;
      }
    }
  }

  /** Units of a window that holders have and did not use; null `asking`: of any holder. */
  lent(key: string, asking: string | null, isConnected: (sidecarId: string) => boolean): number {
    let units = 0;
    for (const lease of this.leases.values()) {
      if (lease.holder === asking || windowKey(lease.at.counter, lease.at.window) !== key) continue;
      if (this.isNewest(lease.holder) && isConnected(lease.sidecarId)) units += lease.unused;
    }
    return units;
  }

  /** Of its sidecar: units of the others are waited for by nothing. */
  isNewest(name: string): boolean {
    const holder = this.holders.get(name);
    if (holder === undefined) return false;
    for (const other of this.holders.values())
      if (other.sidecarId === holder.sidecarId && other.lastCallAtMs > holder.lastCallAtMs) return false;
    return true;
  }

  /** Each unit is in one place, and leases have used what their PERMITs count; null: it is so. */
  findImbalance(
    countsOf: (permit: string) => { readonly own: number; readonly isVoid: boolean } | undefined,
  ): string | null {
    for (const lease of this.everyLease.values()) {
      let counted = 0;
      for (const id of lease.permits) {
        const permit = countsOf(id);
        if (permit !== undefined) counted += lease.isMoney ? permit.own : Number(!permit.isVoid);
      }
      if (counted !== lease.used)
        return `lease ${lease.leaseId}: ${lease.used} are used, and its PERMITs count ${counted}`;
    }
    const sums = new Map<LedgerWindow, number>();
    for (const lease of this.leases.values()) {
      if (lease.unused < 0 || lease.used < 0) return `lease ${lease.leaseId} is below zero`;
      sums.set(lease.at, (sums.get(lease.at) ?? 0) + lease.unused + lease.used);
    }
    for (const at of this.windows.values())
      if (at.base !== null) sums.set(at.base, (sums.get(at.base) ?? 0) + at.leased);
    for (const at of this.windows.values()) {
      const sum = (sums.get(at) ?? 0) + at.retired + at.held;
      if (at.retired < 0) return `${nameOf(at)}: ${at.retired} are used by leases that are gone`;
      if (sum !== at.leased) return `${nameOf(at)}: ${at.leased} are given out, and ${sum} are somewhere`;
      if (at.leased > at.limitMax) return `${nameOf(at)}: ${at.leased} of ${at.limitMax} are given out`;
    }
    return null;
  }
}

/** Units that are given out, or come back if negative: of a lane its wallet gives them, too. */
function give(at: LedgerWindow, units: number): void {
  at.leased += units;
  if (at.base !== null) at.base.leased += units;
}

/** As `moveLanes` (control-plane/book/lanes.ts): what is left of the lane, and of its wallet as a whole. */
function freeFor(
  { leased, base }: LedgerWindow,
  { units_needed: needed, units_ahead: ahead }: LeaseRequest,
  of: { readonly limit: number; readonly baseLimit: number; readonly offered: Map<LedgerWindow, Offered> },
): number {
  const own = Math.max(0, of.limit - leased);
  if (base === null) return own;
  const before = of.offered.get(base) ?? { free: Math.max(0, of.baseLimit - base.leased), promised: 0 };
  of.offered.set(base, before);
  const free = Math.min(own, Math.max(0, before.free - before.promised));
  before.promised += Math.min(needed + ahead, own);
  return free;
}

/** Windows that a call returns to come first. */
function inOrderOfMoves({ asks, returns }: LeaseCall): readonly LeaseRequest[] {
  const places = new Map(returns.map((each, place) => [`${counterOf(each)} ${each.window}`, place]));
  const placeOf = (ask: LeaseRequest): number =>
    places.get(`${counterOf(ask)} ${ask.window}`) ?? returns.length;
  return asks.toSorted((one, other) => placeOf(one) - placeOf(other));
}

/** Of a wallet of another account: its sidecar learns what it was granted, and nothing else. */
const hidden = { limit: Number.MAX_SAFE_INTEGER, leased: 0 };

const nameOf = ({ counter, window }: LedgerWindow): string => windowKey(counter, window);

const keyOf = ({ counter, window, startsAtMs }: Omit<Units, 'units'>): string =>
  windowKey(counter, { name: window, startsAtMs });

export const unitsOf = (each: LeaseReturn): Units => ({
  counter: counterOf(each),
  window: each.window,
  startsAtMs: each.starts_at_ms,
  units: each.units,
});

export const counterOf = (of: LeaseCounter): CounterKey => counterKey(counterOfLease(of));
