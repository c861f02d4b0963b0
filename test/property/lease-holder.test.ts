import fc from 'fast-check';
import { afterEach, describe, expect, it, vi } from 'vitest';
import type { AccountId, GateId, PassportId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import type { MicroUsd } from '../../shared/model/money.ts';
import { type MonotonicMillis, minuteMs, secondMs } from '../../shared/model/time.ts';
import { silentLogger } from '../../shared/runtime/logger.ts';
import { systemRandom } from '../../shared/runtime/random.ts';
import { LeaseHolder } from '../../sidecar/quota/lease-holder.ts';
import { quotaLimits } from '../../sidecar/quota/limits.ts';
import type { Reservation } from '../../sidecar/quota/reservation.ts';
import { fakedClock, fakedTimers } from '../support/base/faked-timers.ts';
import { runs } from '../support/base/runs.ts';
import { ModelLedger } from '../support/data/model-ledger.ts';

const startMs = 1_800_000_000_000;
const limit = 200;
const holderCount = 3;

const which = fc.nat({ max: holderCount - 1 });
const units = fc.integer({ min: 1, max: 40 });
const often = <T>(weight: number, arbitrary: fc.Arbitrary<T>) => ({ weight, arbitrary });
const lasting = [
  often(6, fc.record({ kind: fc.constant('permit' as const), which, units })),
  often(2, fc.record({ kind: fc.constant('reserve' as const), which, units })),
  often(2, fc.record({ kind: fc.constantFrom('keep' as const, 'give back' as const), nth: fc.nat(5) })),
  often(3, fc.record({ kind: fc.constant('wait' as const), ms: fc.nat(3_000) })),
  often(
    1,
    fc.record({ kind: fc.constant('long wait' as const), ms: fc.integer({ min: 10_000, max: 70_000 }) }),
  ),
  often(
    1,
    fc.record({ kind: fc.constantFrom('lose calls' as const, 'lose answers' as const), times: fc.nat(4) }),
  ),
  often(2, fc.record({ kind: fc.constant('to the end' as const), beforeMs: fc.nat(400) })),
  often(1, fc.record({ kind: fc.constant('slow' as const), ms: fc.nat(300) })),
] as const;
const step = fc.oneof(
  ...lasting,
  often(1, fc.record({ kind: fc.constant('crash' as const), which })),
  often(1, fc.record({ kind: fc.constant('forget' as const) })),
);
const size = { minLength: 20, maxLength: 60 };
/** Returned units can be counted only if no holder is lost: in every second history. */
const history = fc.oneof(fc.array(fc.oneof(...lasting), size), fc.array(step, size));

describe('holders of leases that share a limit', () => {
  afterEach(() => {
    vi.useRealTimers();
  });

  it('never exceed it together, despite lost, late and forgotten messages, and return unused units', async () => {
    let permits = 0;
    await fc.assert(
      fc.asyncProperty(history, async (steps) => {
        vi.useFakeTimers({ toFake: [...fakedTimers], now: startMs + 7 * secondMs });
        const world = new World();
        for (const one of steps) {
          if (one.kind === 'permit' || one.kind === 'reserve')
            world.request(one.which, one.units, one.kind === 'reserve');
          else if (one.kind === 'keep' || one.kind === 'give back') world.end(one.nth, one.kind);
          else if (one.kind === 'wait' || one.kind === 'long wait') await vi.advanceTimersByTimeAsync(one.ms);
          else if (one.kind === 'to the end')
            await vi.advanceTimersByTimeAsync(Math.max(0, minuteMs - (Date.now() % minuteMs) - one.beforeMs));
          else if (one.kind === 'lose calls') world.callsToLose = one.times;
          else if (one.kind === 'lose answers') world.answersToLose = one.times;
          else if (one.kind === 'slow') world.travelMs = one.ms;
          else if (one.kind === 'crash') world.crash(one.which);
          else world.forget();
          world.expectSound();
        }
        await world.rest();
        vi.useRealTimers();
        permits += world.permits.length;
      }),
      { numRuns: runs({ short: 12, long: 12_000 }) },
    );
    // The control: holders without units would exceed no limit either.
    expect(permits).toBeGreaterThan(0);
  });
});

interface Permit {
  readonly startsAtMs: number;
  units: number;
  taken: Reservation | null;
  readonly of: LeaseHolder;
}

class World {
  readonly ledger = new ModelLedger(fakedClock);
  readonly permits: Permit[] = [];
  callsToLose = 0;
  answersToLose = 0;
  travelMs = 0;
  /** Units of a lost or forgotten holder stay counted. */
  hasLost = false;
  #waiting = 0;
  readonly #faults: unknown[] = [];
  readonly #holders: LeaseHolder[];
  readonly #gone: LeaseHolder[] = [];
  readonly #gate = {
    gateId: 'gate_1' as GateId,
    accountId: 'acct_1' as AccountId,
    rateWindows: [],
    spendWindows: [{ kind: 'gate_spend', window: 'minute', limit, per: 'gate' }],
    standingApprovals: [],
  } as const;
  readonly #passport = {
    passportId: 'pass_1' as PassportId,
    accountId: 'acct_1' as AccountId,
    owner: null,
    tokenHash: 'x',
    rateWindows: [],
    spendWindows: [],
  };

  constructor() {
    this.ledger.limits.set('gate_spend minute', limit);
    this.ledger.before = async () => {
      if (this.travelMs > 0) await new Promise((resolve) => setTimeout(resolve, this.travelMs));
      if (this.callsToLose-- > 0) throw new Error('the call is lost');
    };
    this.ledger.afterwards = async () => {
      if (this.travelMs > 0) await new Promise((resolve) => setTimeout(resolve, this.travelMs));
      if (this.answersToLose-- > 0) throw new Error('the answer is lost');
    };
    this.#holders = Array.from({ length: holderCount }, () => this.#newHolder());
  }

  #newHolder(): LeaseHolder {
    return new LeaseHolder({
      client: this.ledger,
      clock: fakedClock,
      random: systemRandom(),
      logger: silentLogger,
    });
  }

  request(which: number, units: number, isReserved: boolean): void {
    const of = this.#holders[which] as LeaseHolder;
    const need = { moneyMicroUsd: units as MicroUsd, requests: 0 } as const;
    const untilMs = (performance.now() + limits.quotaWaitMsMax) as MonotonicMillis;
    const decide = (): boolean => {
      const view = of.view(this.#gate, this.#passport);
      const [window] = view.spendWindows;
      const startsAtMs = window?.lease.startsAtMs ?? null;
      if (window === undefined || startsAtMs === null || window.lease.available < units) return false;
      // All share one clock here, so units are used in the current window.
      expect(startsAtMs + minuteMs).toBeGreaterThan(Date.now());
      const taken = isReserved ? of.reserve(view, need) : null;
      if (!isReserved) of.take(view, need);
      this.permits.push({ startsAtMs, units, taken, of });
      return true;
    };
    if (decide()) return;
    this.#waiting++;
    of.ask(of.view(this.#gate, this.#passport), need, untilMs, ({ kind }) => {
      this.#waiting--;
      if (this.#gone.includes(of)) return;
      // The holder catches what a request throws.
      try {
        if (kind === 'granted') expect(decide()).toBe(true);
        if (kind === 'refused') expect(decide()).toBe(false);
      } catch (error) {
        this.#faults.push(error);
      }
    });
  }

  end(nth: number, how: 'keep' | 'give back'): void {
    const permit = this.permits.filter(({ taken }) => taken !== null)[nth];
    if (permit?.taken === undefined || permit.taken === null) return;
    if (how === 'keep') permit.of.keep(permit.taken);
    else permit.of.giveBack(permit.taken);
    if (how === 'give back') permit.units = 0;
    permit.taken = null;
  }

  /** The holder disappears. Its PERMITs stay valid. */
  crash(which: number): void {
    const gone = this.#holders[which] as LeaseHolder;
    this.#gone.push(gone);
    for (const permit of this.permits) if (permit.of === gone) permit.taken = null;
    this.#holders[which] = this.#newHolder();
    this.hasLost = true;
  }

  forget(): void {
    this.ledger.forgetHolders();
    this.hasLost = true;
  }

  permitted(startsAtMs: number): number {
    return this.permits.reduce((sum, one) => sum + (one.startsAtMs === startsAtMs ? one.units : 0), 0);
  }

  expectSound(): void {
    if (this.#faults.length > 0) throw this.#faults[0];
    for (const [key, leased] of this.ledger.leased) {
      const startsAtMs = Number(key.split(' ').at(-1));
      expect(leased).toBeLessThanOrEqual(limit);
      expect(this.permitted(startsAtMs)).toBeLessThanOrEqual(leased);
    }
  }

  /** Nothing is lost or slow any more: every holder is answered, and unused units are returned. */
  async rest(): Promise<void> {
    this.callsToLose = 0;
    this.answersToLose = 0;
    this.travelMs = 0;
    for (const permit of this.permits) if (permit.taken !== null) this.end(0, 'keep');
    await vi.advanceTimersByTimeAsync(4 * secondMs);
    expect(this.#waiting).toBe(0);
    this.expectSound();
    const startsAtMs = Date.now() - (Date.now() % minuteMs);
    const leased = [...this.ledger.leased].find(([key]) => key.endsWith(` ${startsAtMs}`))?.[1] ?? 0;
    if (!this.hasLost) expect(leased).toBe(this.permitted(startsAtMs));
    for (const holder of [...this.#holders, ...this.#gone]) {
      const stopping = holder.stop();
      await vi.advanceTimersByTimeAsync(quotaLimits.leaseStopMsMax);
      await stopping;
    }
  }
}
