import fc from 'fast-check';
import { expect, it } from 'vitest';
import {
  changeOf,
  type Entry,
  entriesOf,
  type PermitMoney,
  type Place,
} from '../../control-plane/book/entry.ts';
import {
  changePermit,
  moneyOf,
  type PermitChange,
  type PermitState,
} from '../../control-plane/outcomes/permit-change.ts';
import { holdDefaults, serviceOutcomes } from '../../shared/model/hold.ts';
import type { MicroUsd } from '../../shared/model/money.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { runs } from '../support/base/runs.ts';

const amount = fc.integer({ min: 1, max: 12 }).map((units) => units as MicroUsd);
const change: fc.Arbitrary<PermitChange> = fc.oneof(
  fc.record({
    kind: fc.constant('outcome' as const),
    outcome: fc.constantFrom(...serviceOutcomes),
    amountMicroUsd: fc.option(amount),
    detail: fc.constant(null),
  }),
  fc.constant({ kind: 'expire' as const }),
  fc.record({ kind: fc.constant('extend' as const), expiresInMs: fc.integer({ min: 1, max: 9_000 }) }),
  fc.record({ kind: fc.constant('refund' as const), amountMicroUsd: fc.option(amount) }),
);

/** Units by place, as if each entry was carried out in one window of money. */
class Places {
  readonly units = new Map<Place, number>([['free', 100]]);

  carryOut(entries: readonly Entry[]): void {
    for (const { from, to, money } of entries) {
      expect(money).toBeGreaterThanOrEqual(0);
      expect(from).not.toBe(to);
      this.units.set(from, this.at(from) - money);
      this.units.set(to, this.at(to) + money);
    }
  }

  at(place: Place): number {
    return this.units.get(place) ?? 0;
  }

  /** No unit comes from nowhere, none goes there, and none is taken that is not there. */
  expectBalance({ own, isHeld, overrun }: PermitMoney, back: Place): void {
    const counted = { hold: isHeld ? own : 0, used: isHeld ? 0 : own, overrun };
    for (const place of ['hold', 'used', 'overrun'] as const) expect(this.at(place)).toBe(counted[place]);
    expect(this.at('free') + (back === 'free' ? 0 : this.at(back)) + own + overrun).toBe(100);
  }
}

const begun = (counts: MicroUsd, isHeld: boolean): PermitState => ({
  countsMicroUsd: counts,
  hold: isHeld ? { amountMicroUsd: counts, status: 'open', expiresAtMs: 5_000 as UnixMillis } : null,
  reported: null,
  refundedMicroUsd: 0 as MicroUsd,
  overrunMicroUsd: 0 as MicroUsd,
  isVoid: false,
});

it('has all that a PERMIT counts in its places, whatever becomes of it', () => {
  const seen = new Set<string>();
  const rule = { onExpiry: fc.constantFrom('settle' as const, 'release' as const) };
  fc.assert(
    fc.property(
      amount,
      fc.boolean(),
      fc.constantFrom('free' as const, 'approval' as const),
      fc.record(rule),
      fc.array(fc.record({ change, afterMs: fc.nat(4_000) }), { maxLength: 5 }),
      (counts, isHeld, from, { onExpiry }, steps) => {
        const places = new Places();
        if (from === 'approval') places.carryOut([{ from: 'free', to: from, money: counts, requests: 0 }]);
        let state = begun(counts, isHeld);
        const recorded = entriesOf({ kind: 'recorded', from, counts: moneyOf(state) });
        places.carryOut(recorded);
        expect(changeOf(recorded)).toEqual({ spent: counts, held: isHeld ? counts : 0 });
        let nowMs = 0;
        for (const step of steps) {
          nowMs += step.afterMs;
          const rules = { ...holdDefaults, onExpiry, overrun: 'charge' as const };
          const terms = { rule: rules, isForeign: false, decidedAtMs: 0 as UnixMillis };
          const verdict = changePermit(state, step.change, terms, nowMs as UnixMillis);
          if (verdict.kind !== 'changed') continue;
          seen.add(verdict.resolution);
          const [before, after] = [moneyOf(state), moneyOf(verdict.state)];
          const entries = entriesOf({ kind: 'changed', before, after });
          places.carryOut(entries);
          places.expectBalance(after, from);
          const spent = after.own + after.overrun - before.own - before.overrun;
          const held = (after.isHeld ? after.own : 0) - (before.isHeld ? before.own : 0);
          expect(changeOf(entries)).toEqual({ spent, held });
          expect(verdict.chargeMicroUsd).toBe(Math.max(0, spent));
          state = verdict.state;
        }
        places.carryOut(entriesOf({ kind: 'voided', before: moneyOf(state), to: from }));
        places.expectBalance({ own: 0, isHeld: false, overrun: 0 }, from);
      },
    ),
    { numRuns: runs({ short: 500, long: 20_000 }) },
  );
  expect([...seen].sort()).toEqual(['expired', 'extended', 'refunded', 'released', 'reported', 'settled']);
});

it('moves a request once with its PERMIT, and back with the void', () => {
  const counts = { own: 0, isHeld: false, overrun: 0 };
  const requests = (entries: readonly Entry[]) => entries.map((each) => [each.from, each.to, each.requests]);
  expect(requests(entriesOf({ kind: 'recorded', from: 'lease', counts }))).toEqual([['lease', 'used', 1]]);
  expect(requests(entriesOf({ kind: 'changed', before: counts, after: counts }))).toEqual([]);
  expect(requests(entriesOf({ kind: 'voided', before: counts, to: 'approval' }))).toEqual([
    ['used', 'free', 1],
  ]);
  expect(requests(entriesOf({ kind: 'unsettled', money: 3 }))).toEqual([['lease', 'free', 1]]);
});
