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

function leaseWith(granted: number, change: Partial<LeaseGrant> = {}): Lease {
  const lease = new Lease(1_000_000, 0);
  lease.grant(grantOf(granted, change), 0);
  return lease;
}

describe('the end of a lease', () => {
  it('comes when the time that was left has passed since the call was sent, and not a moment later', () => {
    const lease = new Lease(100, 0);
    lease.grant(grantOf(5, { sentAtMs: 1_000, leftMs: 500 }), 1_200);
    lease.endIfOver(1_499.9);
    expect(lease.available).toBe(5);
    lease.endIfOver(1_500);
    expect(lease).toMatchObject({ available: 0, granted: 0, startsAtMs: null, endsAtMs: null, used: 0 });
  });

  it('is the earliest end of any grant, as grantors have different clocks', () => {
    const lease = leaseWith(5, { leftMs: 1_000 });
    lease.grant(grantOf(5, { leftMs: 2_000 }), 10);
    lease.endIfOver(1_000);
    expect(lease.available).toBe(0);
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

  it('is less where some of it was needed meanwhile', () => {
    const lease = leaseWith(100);
    lease.takeSurplus(limits.leaseIdleMs);
    lease.take(60);
    lease.giveBack(60, lease.holding, limits.leaseIdleMs);
    expect(lease.takeSurplus(2 * limits.leaseIdleMs)).toBe(40);
  });
});
