import fc from 'fast-check';
import { expect, it } from 'vitest';
import { minuteMs, type UnixMillis } from '../../shared/model/time.ts';
import { Lease, type Returning } from '../../shared/quota/lease.ts';
import { runs } from '../support/base/runs.ts';

const epochMs = 1_800_000_000_000;

const step = fc.oneof(
  fc.record({
    kind: fc.constant('grant' as const),
    units: fc.nat({ max: 50 }),
    aheadAsked: fc.nat({ max: 20 }),
    travelMs: fc.nat({ max: 30_000 }),
    clockOffMs: fc.integer({ min: -800, max: 800 }),
  }),
  fc.record({ kind: fc.constant('take' as const), units: fc.nat({ max: 30 }) }),
  fc.record({ kind: fc.constantFrom('give back' as const, 'pass on' as const), nth: fc.nat({ max: 10 }) }),
  fc.record({ kind: fc.constant('start return' as const), units: fc.nat({ max: 30 }) }),
  fc.record({ kind: fc.constant('end return' as const) }),
  fc.record({ kind: fc.constant('sweep' as const) }),
  fc.record({ kind: fc.constant('forget' as const) }),
  fc.record({ kind: fc.constant('wait' as const), ms: fc.nat({ max: 40_000 }) }),
);

it('a lease accounts for each unit and gives none after the end of its window, in any order of events', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      const lease = new Lease(1_000, 0);
      let nowMs = 0;
      const taken: { units: number; holding: number }[] = [];
      let returning: Returning | null = null;
      // The model's counts, by the start of the held window.
      let model = { startsAtMs: null as number | null, granted: 0, taken: 0, gone: 0 };
      const forget = () => {
        model = { startsAtMs: null, granted: 0, taken: 0, gone: 0 };
      };
      for (const one of steps) {
        const before = lease.holding;
        lease.endIfOver(nowMs);
        if (one.kind === 'grant') {
          // The grantor answers after the call has travelled; its clock may be slightly off.
          const sentAtMs = nowMs;
          const grantedAtMs = epochMs + nowMs + one.clockOffMs;
          const startsAtMs = (grantedAtMs - (grantedAtMs % minuteMs)) as UnixMillis;
          const endsAtMs = (startsAtMs + minuteMs) as UnixMillis;
          nowMs += one.travelMs;
          lease.endIfOver(nowMs);
          const isEarlier = lease.startsAtMs !== null && startsAtMs < lease.startsAtMs;
          const asked = { unitsNeeded: one.units, unitsAhead: one.aheadAsked };
          const leftMs = endsAtMs - grantedAtMs;
          const grant = { granted: one.units, leased: one.units, leftMs, sentAtMs, startsAtMs, endsAtMs };
          const holding = lease.holding;
          lease.grant({ ...grant, ...asked }, nowMs);
          if (lease.holding !== holding) forget();
          const isLate = nowMs >= sentAtMs + leftMs;
          if (isLate && !isEarlier) expect(lease.available).toBe(0);
          if (!isLate && !isEarlier) {
            model.startsAtMs = startsAtMs;
            model.granted += one.units;
          }
        } else if (one.kind === 'take') {
          if (one.units > lease.available) expect(() => lease.take(one.units)).toThrow('no more is taken');
          else {
            lease.take(one.units);
            model.taken += one.units;
            taken.push({ units: one.units, holding: lease.holding });
          }
        } else if (one.kind === 'give back' || one.kind === 'pass on') {
          const [old] = taken.splice(one.nth, 1);
          if (old !== undefined) {
            const isCurrent = lease.startsAtMs !== null && old.holding === lease.holding;
            if (one.kind === 'give back') lease.giveBack(old.units, old.holding, nowMs);
            else lease.passOn(old.units, old.holding, nowMs);
            if (isCurrent) model.taken -= old.units;
            if (isCurrent && one.kind === 'pass on') model.gone += old.units;
          }
        } else if (one.kind === 'start return') {
          if (returning === null && one.units > 0 && one.units <= lease.available)
            returning = lease.startReturn(one.units);
        } else if (one.kind === 'end return') {
          if (returning !== null) {
            const isCurrent = lease.startsAtMs !== null && returning.holding === lease.holding;
            lease.endReturn(returning);
            if (isCurrent) model.gone += returning.units;
            returning = null;
          }
        } else if (one.kind === 'sweep') {
          lease.plan(nowMs);
          expect(lease.takeSurplus(nowMs)).toBeLessThanOrEqual(lease.available);
        } else if (one.kind === 'wait') {
          nowMs += one.ms;
          lease.endIfOver(nowMs);
        } else lease.drop();
        expect(lease.holding).toBeGreaterThanOrEqual(before);
        if (lease.startsAtMs === null) {
          forget();
          expect(lease).toMatchObject({ available: 0, taken: 0, returning: 0, granted: 0 });
        }
        expect(lease.available + lease.taken + lease.returning).toBe(model.granted - model.gone);
        expect(lease.taken).toBe(model.taken);
        expect(lease.granted).toBe(model.granted - model.gone);
        expect(lease.available).toBeGreaterThanOrEqual(0);
        // Never used after its end by the grantor's clock, which is off by 800 ms at most here.
        if (lease.available > 0) expect(epochMs + nowMs - 800).toBeLessThan(lease.endsAtMs ?? 0);
      }
    }),
    { numRuns: runs({ short: 300, long: 200_000 }) },
  );
});
