import { describe, expect, it } from 'vitest';
import { limits } from '../../../shared/model/limits.ts';
import { minuteMs, type UnixMillis } from '../../../shared/model/time.ts';
import { Lease, type LeaseGrant } from '../../../shared/quota/lease.ts';

/** The minute that the grantor is in; times of the holder are counted from 0. */
const startsAtMs = 1_800_000_000_000 as UnixMillis;

function grantOf(granted: number, change: Partial<LeaseGrant> = {}): LeaseGrant {
  const minute = { startsAtMs, endsAtMs: (startsAtMs + minuteMs) as UnixMillis };
  const asked = { unitsNeeded: granted, unitsAhead: 0 };
  return { granted, leased: granted, ...minute, leftMs: 10_000, sentAtMs: 0, ...asked, ...change };
}

const nextMinute = {
  startsAtMs: (startsAtMs + minuteMs) as UnixMillis,
  endsAtMs: (startsAtMs + 2 * minuteMs) as UnixMillis,
};

function leaseWith(granted: number, change: Partial<LeaseGrant> = {}): Lease {
  const lease = new Lease(1_000_000, 0);
  lease.grant(grantOf(granted, change), 0);
  return lease;
}

describe('a lease', () => {
  it('has no units and no window before its first grant', () => {
    const lease = new Lease(100, 0);
    expect(lease).toMatchObject({ limit: 100, available: 0, used: 0, startsAtMs: null, endsAtMs: null });
    expect(() => lease.take(1)).toThrow('no more is taken than is there');
  });

  it('gives the granted units, to the last one and no further', () => {
    const lease = leaseWith(3);
    lease.take(2);
    lease.take(1);
    expect(lease).toMatchObject({ available: 0, taken: 3, granted: 3 });
    expect(() => lease.take(1)).toThrow('no more is taken than is there');
  });

  it('adds later grants of the same window', () => {
    const lease = leaseWith(3);
    lease.take(3);
    lease.grant(grantOf(5, { leased: 20 }), 100);
    expect(lease).toMatchObject({ available: 5, taken: 3, granted: 8, used: 15 });
  });

  it('learns how much is used, by others too, from an answer that grants nothing', () => {
    const lease = leaseWith(0, { leased: 90, unitsNeeded: 20 });
    expect(lease).toMatchObject({ available: 0, used: 90, endsAtMs: startsAtMs + minuteMs });
  });

  it('takes back units that a decision did not use', () => {
    const lease = leaseWith(5);
    lease.take(4);
    lease.giveBack(3, lease.holding, 50);
    expect(lease).toMatchObject({ available: 4, taken: 1, granted: 5 });
    expect(() => lease.giveBack(2, lease.holding, 50)).toThrow('no more is given back than was taken');
  });

  it('no longer counts units it passed on', () => {
    const lease = leaseWith(5);
    lease.take(4);
    lease.passOn(4, lease.holding, 50);
    expect(lease).toMatchObject({ available: 1, taken: 0, granted: 1, used: 4 });
  });

  it('counts units that are being returned until the ledger has answered', () => {
    const lease = leaseWith(5);
    const returning = lease.startReturn(4);
    expect(lease).toMatchObject({ available: 1, returning: 4, granted: 5 });
    expect(() => lease.take(2)).toThrow('no more is taken than is there');
    lease.endReturn(returning);
    expect(lease).toMatchObject({ available: 1, returning: 0, granted: 1, used: 0 });
  });
});

describe('the end of a lease', () => {
  it('comes when the time that was left has passed since the call was sent, and not a moment later', () => {
    const lease = new Lease(100, 0);
    lease.grant(grantOf(5, { sentAtMs: 1_000, leftMs: 500 }), 1_200);
    lease.endIfOver(1_499.9);
    expect(lease.available).toBe(5);
    lease.endIfOver(1_500);
    expect(lease).toMatchObject({ available: 0, granted: 0, startsAtMs: null, endsAtMs: null, used: 0 });
  });

  it('has come already for a grant that was too long on its way', () => {
    const lease = new Lease(100, 0);
    lease.grant(grantOf(5, { sentAtMs: 1_000, leftMs: 500 }), 1_500);
    expect(lease).toMatchObject({ available: 0, startsAtMs: null });
  });

  it('is the earliest end of any grant, as grantors have different clocks', () => {
    const lease = leaseWith(5, { leftMs: 1_000 });
    lease.grant(grantOf(5, { leftMs: 2_000 }), 10);
    lease.endIfOver(1_000);
    expect(lease.available).toBe(0);
  });

  it('comes with the first grant of a later window', () => {
    const lease = leaseWith(5);
    lease.grant(grantOf(2, nextMinute), 10);
    expect(lease).toMatchObject({ available: 2, granted: 2, startsAtMs: nextMinute.startsAtMs });
  });

  it('ignores units of an earlier window, granted by a control plane whose clock is behind', () => {
    const lease = leaseWith(2, nextMinute);
    lease.grant(grantOf(50), 10);
    expect(lease).toMatchObject({ available: 2, granted: 2, startsAtMs: nextMinute.startsAtMs });
  });

  it.each([
    ['given back', (lease: Lease, holding: number) => lease.giveBack(3, holding, 20_000)],
    ['passed on', (lease: Lease, holding: number) => lease.passOn(3, holding, 20_000)],
  ])('makes what is %s after it vanish, also in the next window', (_, late) => {
    const lease = leaseWith(5);
    lease.take(3);
    const { holding } = lease;
    late(lease, holding);
    expect(lease).toMatchObject({ available: 0, granted: 0 });
    lease.grant(grantOf(4, { ...nextMinute, sentAtMs: 20_000 }), 20_000);
    lease.take(4);
    late(lease, holding);
    expect(lease).toMatchObject({ available: 0, taken: 4, granted: 4 });
  });

  it('makes a return that is answered after it mean nothing', () => {
    const lease = leaseWith(5);
    const returning = lease.startReturn(5);
    lease.grant(grantOf(2, nextMinute), 10);
    lease.endReturn(returning);
    expect(lease).toMatchObject({ available: 2, granted: 2, returning: 0 });
  });
});

/**
 * So much is left in the window that a reserve may be leased, or so little that only what is needed soon may.
 */
const far = 0;
const near = 999_700;

/** One unit every millisecond from `fromMs` on, each leased when it is needed. */
function demandOf(lease: Lease, fromMs: number, lengthMs: number, leased = near): void {
  for (let nowMs = fromMs; nowMs < fromMs + lengthMs; nowMs++) {
    lease.grant(grantOf(1, { sentAtMs: nowMs, leased }), nowMs);
    lease.take(1);
  }
}

/** At that moment the ledger answers an ask for units ahead. */
const aheadAt = (
  lease: Lease,
  nowMs: number,
  { granted, of, leased }: { granted: number; of: number; leased: number },
): void => lease.grant(grantOf(granted, { sentAtMs: nowMs, leased, unitsNeeded: 0, unitsAhead: of }), nowMs);

describe('what a lease wants ahead', () => {
  it('is nothing for a counter that is used now and then', () => {
    const lease = leaseWith(1);
    lease.take(1);
    lease.plan(1_000);
    expect(lease.aheadOf(1)).toBe(0);
  });

  it.each([
    ['five seconds', 'far from', far, limits.leaseReserveMs],
    ['200 ms', 'near', near, limits.leaseAheadMs],
  ])('is what is taken in %s %s the limit, where requests keep coming', (_, __, leased, aheadMs) => {
    const lease = leaseWith(0, { leased });
    demandOf(lease, 0, 1_500, leased);
    lease.plan(1_500);
    expect(lease.aheadOf(1)).toBeGreaterThanOrEqual(aheadMs * 0.9);
    expect(lease.aheadOf(1)).toBeLessThanOrEqual(aheadMs * 1.1);
  });

  it("is no more than a sixteenth of the ledger's rest", () => {
    const leased = 1_000_000 - 16 * 1_000;
    const lease = leaseWith(0, { leased });
    demandOf(lease, 0, 1_500, leased);
    lease.plan(1_500);
    expect(lease.aheadOf(1)).toBe(1_000);
  });

  it('is no more than lasts until the window ends', () => {
    const lease = leaseWith(0, { leftMs: 3_500 });
    for (let nowMs = 0; nowMs < 1_500; nowMs++) {
      lease.grant(grantOf(1, { sentAtMs: nowMs, leftMs: 3_500 - nowMs }), nowMs);
      lease.take(1);
    }
    lease.plan(1_500);
    expect(lease.aheadOf(1)).toBeGreaterThan(2_000 * 0.9);
    expect(lease.aheadOf(1)).toBeLessThan(2_000 * 1.1);
  });

  it.each([far, near])('is gone when no request has come for a while, of %s leased', (leased) => {
    const lease = leaseWith(0, { leased });
    demandOf(lease, 0, 400, leased);
    const goneAtMs = 400 + 2 * limits.leasePaceMs;
    for (let nowMs = 400; nowMs <= goneAtMs; nowMs += limits.leaseSweepMs) lease.plan(nowMs);
    lease.plan(goneAtMs);
    expect(lease.aheadOf(1)).toBe(0);
  });

  it.each([
    ['a fifth of a reserve is used', far, 5_000, 4 / 5],
    ['half is left near the limit', near, 200, 1 / 2],
  ])('is renewed before it runs out: when %s', (_, leased, wanted, part) => {
    const lease = leaseWith(0, { leased });
    demandOf(lease, 0, 1_500, leased);
    aheadAt(lease, 1_500, { granted: wanted, of: wanted, leased });
    const mark = lease.available * part;
    while (!lease.isLow) lease.take(1);
    expect(lease.available).toBeGreaterThan(mark * 0.8);
    expect(lease.available).toBeLessThan(mark * 1.2);
  });

  it('is not asked for again and again where the window runs dry', () => {
    const lease = leaseWith(0, { leased: near });
    demandOf(lease, 0, 400);
    aheadAt(lease, 400, { granted: 8, of: 200, leased: near });
    // Of a whole lease, 100 units were the mark.
    lease.take(4);
    expect(lease.isLow).toBe(false);
    lease.take(1);
    expect(lease.isLow).toBe(true);
    aheadAt(lease, 401, { granted: 0, of: 200, leased: near });
    lease.take(1);
    expect(lease.isLow).toBe(false);
  });
});

describe('what goes back', () => {
  it('is at once all unused units, except those leased ahead', () => {
    const lease = leaseWith(0, { leased: near });
    demandOf(lease, 0, 400);
    const asked = { unitsNeeded: 1, unitsAhead: 200 };
    lease.grant(grantOf(201, { sentAtMs: 400, leased: near, ...asked }), 400);
    expect(lease.spare).toBeGreaterThan(0);
    expect(lease.spare).toBeLessThan(50);
  });

  it('is at once all unused units, if the ledger grants nothing ahead', () => {
    const lease = leaseWith(0, { leased: near });
    demandOf(lease, 0, 400);
    const asked = { unitsNeeded: 1, unitsAhead: 200 };
    lease.grant(grantOf(1, { sentAtMs: 400, leased: near, ...asked }), 400);
    expect(lease.spare).toBe(1);
  });

  it('is a reserve, once the ledger says that little is left', () => {
    const lease = leaseWith(0);
    demandOf(lease, 0, 1_500, far);
    aheadAt(lease, 1_500, { granted: 5_000, of: 5_000, leased: far });
    lease.takeSurplus(1_500);
    // Others have used the window meanwhile.
    aheadAt(lease, 1_600, { granted: 0, of: 0, leased: near });
    expect(lease.takeSurplus(1_500 + limits.leaseIdleMs)).toBeGreaterThanOrEqual(
      5_000 - 1.3 * limits.leaseAheadMs,
    );
  });

  it('is what has not been needed for a while', () => {
    const lease = leaseWith(100);
    lease.take(30);
    expect(lease.takeSurplus(limits.leaseIdleMs - 1)).toBe(0);
    // Marked when it was granted, at nothing: the units came after it.
    expect(lease.takeSurplus(limits.leaseIdleMs)).toBe(0);
    lease.plan(2 * limits.leaseIdleMs);
    expect(lease.takeSurplus(2 * limits.leaseIdleMs)).toBe(70);
  });

  it('is less where some of it was needed meanwhile', () => {
    const lease = leaseWith(100);
    lease.takeSurplus(limits.leaseIdleMs);
    lease.take(60);
    lease.giveBack(60, lease.holding, limits.leaseIdleMs);
    expect(lease.takeSurplus(2 * limits.leaseIdleMs)).toBe(40);
  });

  it('is nothing while requests keep coming', () => {
    const lease = leaseWith(0);
    const returned: number[] = [];
    for (let nowMs = 0; nowMs < 5_000; nowMs++) {
      lease.plan(nowMs);
      const ahead = lease.aheadOf(1);
      if (lease.available === 0 || lease.isLow) {
        const asked = { unitsNeeded: 1, unitsAhead: ahead };
        lease.grant(grantOf(1 + ahead, { sentAtMs: nowMs, ...asked }), nowMs);
      }
      lease.take(1);
      if (nowMs % limits.leaseSweepMs === 0) returned.push(lease.takeSurplus(nowMs));
    }
    expect(returned.filter((units) => units > 0)).toEqual([]);
  });
});
