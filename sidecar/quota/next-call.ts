import type { PassportId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import type { Returning } from '../../shared/quota/lease.ts';
import type { LeaseRequest, LeaseReturn } from '../../shared/wire/sync/lease-call.ts';
import type { HeldWindow } from './held-window.ts';
import { eachNeed, type NeededUnits, type WaitingRequest } from './wait-queue.ts';
import type { WalletLookUp } from './wallet-paths.ts';

/** One window that is asked for. */
export interface Ask {
  readonly window: HeldWindow;
  readonly unitsMin: number;
  readonly unitsNeeded: number;
  readonly unitsAhead: number;
}

/** The content of one call to the ledger. Returned units have left their leases already. */
export interface NextCall {
  readonly asks: ReadonlyMap<HeldWindow, Ask>;
  readonly returns: ReadonlyMap<HeldWindow, Returning>;
  /** Passports whose wallets are asked for. */
  readonly lookUps: ReadonlyMap<PassportId, WalletLookUp>;
  /** Waiters covered by the asks, in order of arrival. */
  readonly waiters: readonly WaitingRequest[];
  /** Earliest time at which a waiter blocked by a dry window can be asked for; null if there is none. */
  readonly dryUntilMs: number | null;
}

/**
 * Gathers as many needs as fit, first come, first served; then windows that run low; then windows that return
 * units. Windows in the call leave `low` and `surplus`. The caller has ended expired windows at this `nowMs`.
 */
export function gatherCall(
  waiting: Iterable<WaitingRequest>,
  low: Set<HeldWindow>,
  surplus: Map<HeldWindow, number>,
  nowMs: number,
): NextCall {
  const sums = new Map<HeldWindow, Sum>();
  const waiters: WaitingRequest[] = [];
  const lookUps = new Map<PassportId, WalletLookUp>();
  let dryUntilMs: number | null = null;
  for (const waiter of waiting) {
    if (waiter.refused !== null) continue;
    const lookUp = waiter.view.heldWallet?.lookUp ?? null;
    if (lookUp !== null) {
      // Which windows it needs is known only then.
      if (lookUps.size >= limits.leasesPerCallMax) continue;
      lookUps.set(lookUp.passportId, lookUp);
      waiters.push(waiter);
      continue;
    }
    const askAtMs = askableAt(waiter);
    if (nowMs < askAtMs) {
      dryUntilMs = Math.min(dryUntilMs ?? askAtMs, askAtMs);
      continue;
    }
    if (sums.size + windowCount(waiter) > limits.leasesPerCallMax) break;
    const isDoubtful = lacksOfDry(waiter);
    eachNeed(waiter, (window, units) => addNeed(sums, window, units, isDoubtful && !window.isDry));
    waiters.push(waiter);
  }
  for (const window of low) {
    if (sums.size >= limits.leasesPerCallMax) break;
    low.delete(window);
    if (!sums.has(window) && !window.isForgotten)
      sums.set(window, { needed: 0, doubtful: 0, shortMin: null });
  }
  const asks = new Map<HeldWindow, Ask>();
  for (const [window, sum] of sums) {
    const ask = askFor(window, sum, nowMs);
    if (ask.unitsNeeded > 0 || ask.unitsAhead > 0) asks.set(window, ask);
  }
  return { asks, returns: gatherReturns(surplus, asks, sums), lookUps, waiters, dryUntilMs };
}

/** What all waiters need of one window, and the smallest shortage among waiters that lack units. */
interface Sum {
  needed: number;
  /**
   * Largest need among waiters that also lack units of a window known to be dry. They will probably take
   * nothing, so this leases for one of them. Otherwise a flood blocked by one window would keep leasing from
   * the others and starve requests that could use those units.
   */
  doubtful: number;
  shortMin: number | null;
}

function addNeed(sums: Map<HeldWindow, Sum>, window: HeldWindow, units: number, isDoubtful: boolean): void {
  const sum = sums.get(window) ?? { needed: 0, doubtful: 0, shortMin: null };
  if (isDoubtful) sum.doubtful = Math.max(sum.doubtful, units);
  else sum.needed += units;
  const short = units - window.lease.available;
  if (short > 0) sum.shortMin = Math.min(sum.shortMin ?? short, short);
  sums.set(window, sum);
}

function askFor(window: HeldWindow, sum: Sum, nowMs: number): Ask {
  const { lease } = window;
  const needed = neededOf(sum);
  lease.plan(nowMs);
  return {
    window,
    unitsMin: sum.shortMin ?? 0,
    // Ten requests for a billion dollars each exceed the exact range of a number; no limit is so large.
    unitsNeeded: Math.min(Math.max(0, needed - lease.available), unitsNeededMax),
    // Lease ahead as soon as a request has to wait, or the lease runs low.
    unitsAhead: needed > 0 || lease.isLow ? lease.aheadOf(needed) : 0,
  };
}

function gatherReturns(
  surplus: Map<HeldWindow, number>,
  asks: ReadonlyMap<HeldWindow, Ask>,
  sums: ReadonlyMap<HeldWindow, Sum>,
): ReadonlyMap<HeldWindow, Returning> {
  const returns = new Map<HeldWindow, Returning>();
  for (const [window, idle] of surplus) {
    if (returns.size >= limits.leasesPerCallMax) break;
    surplus.delete(window);
    // Units taken since are no longer idle. Units that a waiter needs do not go back, nor any unit of a
    // window that this call asks for.
    const sum = sums.get(window);
    const units = Math.min(idle, window.lease.available - (sum === undefined ? 0 : neededOf(sum)));
    if (units > 0 && !asks.has(window)) returns.set(window, window.lease.startReturn(units));
  }
  return returns;
}

const unitsNeededMax = 2 ** 52;

const neededOf = ({ needed, doubtful }: Sum): number => needed + doubtful;

/**
 * Earliest time to ask for a waiter: after the pause, or the end, of each dry window that it lacks units of.
 */
function askableAt(waiter: NeededUnits): number {
  let atMs = Number.NEGATIVE_INFINITY;
  eachNeed(waiter, ({ isDry, askAgainAtMs, lease }, units) => {
    if (isDry && units > lease.available) atMs = Math.max(atMs, Math.min(askAgainAtMs, lease.overAtMs));
  });
  return atMs;
}

function lacksOfDry(waiter: NeededUnits): boolean {
  let lacks = false;
  eachNeed(waiter, (window, units) => {
    if (window.isDry && units > window.lease.available) lacks = true;
  });
  return lacks;
}

const windowCount = ({ view }: NeededUnits): number => view.spendWindows.length + view.rateWindows.length;

export const leaseRequestOf = ({ window, unitsMin, unitsNeeded, unitsAhead }: Ask): LeaseRequest => ({
  ...window.name,
  units_min: unitsMin,
  units_needed: unitsNeeded,
  units_ahead: unitsAhead,
});

export const returnOf = ([window, { startsAtMs, units }]: readonly [HeldWindow, Returning]): LeaseReturn => ({
  ...window.name,
  starts_at_ms: startsAtMs,
  units,
});

export const lookUpOf = ({ passportId, tokenHash }: WalletLookUp) => ({
  passport_id: passportId,
  token_hash: tokenHash,
});
