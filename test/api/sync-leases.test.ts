import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { quotaLimits } from '../../control-plane/quota/limits.ts';
import { limits } from '../../shared/model/limits.ts';
import { minuteMs } from '../../shared/model/time.ts';
import { counterKey } from '../../shared/quota/counter.ts';
import { windowAt } from '../../shared/quota/window.ts';
import {
  counterOfLease,
  type LeaseCounter,
  type LeaseGrantBody,
  type LeaseReturn,
} from '../../shared/wire/lease-call.ts';
import { type Api, type Reply, startApi } from '../support/api.ts';
import { goToNextMinute, goToNoon } from '../support/approvals.ts';
import { expectError } from '../support/expect-error.ts';
import { type LeaseHolder, leaseHolder, ofGate, ofPassport, wish } from '../support/lease-holder.ts';
import { connectSidecar } from '../support/test-sidecar.ts';

let api: Api;
let passport: Reply['body'];
beforeAll(async () => {
  api = await startApi();
  goToNoon(api);
  passport = await api.issuePassport();
});
// A test takes seconds, also where the file takes more than a minute: none of them is to meet the end of one.
beforeEach(() => goToNextMinute(api));
afterAll(() => api.close());

const rateGate = async (constraints: object) =>
  (await api.createGate({ constraints: { rate_limits: constraints } })).gate_id;
const gateOf = async (perMinute: number) => rateGate({ requests_per_minute: perMinute });

async function leasedOf(
  counter: LeaseCounter,
  window: 'minute' | 'hour' | 'day' | 'month' = 'minute',
): Promise<number> {
  const at = windowAt(window, api.deps.clock.now());
  const [row] = await api.deps.sql<{ leased: number }[]>`
    SELECT leased FROM quota_windows
    WHERE counter = ${counterKey(counterOfLease(counter))} AND window_name = ${window} AND starts_at_ms = ${at.startsAtMs}`;
  return row?.leased ?? 0;
}

const giveBack = (counter: LeaseCounter, { starts_at_ms }: LeaseGrantBody, units: number): LeaseReturn => ({
  ...counter,
  window: 'minute',
  starts_at_ms,
  units,
});
const only = (grants: readonly LeaseGrantBody[]): LeaseGrantBody => {
  expect(grants).toHaveLength(1);
  return grants[0] as LeaseGrantBody;
};

describe('a lease call', () => {
  it('grants the needed units, with the limit, the units given out and the remaining time', async () => {
    const rate = ofGate('gate_rate', await gateOf(100));
    const own = await leaseHolder(api);
    const before = api.deps.clock.now();
    const grant = only(await own.lease([wish(rate, 'minute', 3)]));
    const window = windowAt('minute', before);
    expect(grant).toMatchObject({
      granted: 3,
      limit: 100,
      leased: 3,
      starts_at_ms: window.startsAtMs,
      ends_at_ms: window.endsAtMs,
    });
    expect(grant.left_ms).toBeLessThanOrEqual(window.endsAtMs - before);
    expect(grant.left_ms).toBeGreaterThanOrEqual(window.endsAtMs - api.deps.clock.now());
    expect(await leasedOf(rate)).toBe(3);
  });

  it('leases ahead one part in sixteen of the rest, and nothing near the end', async () => {
    const rate = ofGate('gate_rate', await gateOf(100));
    const own = await leaseHolder(api);
    const ahead = async (needed: number) =>
      only(await own.lease([wish(rate, 'minute', needed, { units_ahead: 50 })])).granted - needed;
    expect(await ahead(4)).toBe(96 / limits.leaseAheadPart);
    expect(await ahead(58)).toBe(2);
    expect(await ahead(14)).toBe(1);
    expect(await ahead(1)).toBe(0);
    expect(await ahead(14)).toBe(0);
    expect(await leasedOf(rate)).toBe(100);
  });

  it('grants the rest of what many need, and nothing if it is too little for any of them', async () => {
    const rate = ofGate('gate_rate', await gateOf(10));
    const own = await leaseHolder(api);
    const ask = wish(rate, 'minute', 7, { units_min: 2, units_ahead: 5 });
    expect(only(await own.lease([ask])).granted).toBe(7);
    expect(only(await own.lease([ask])).granted).toBe(3);
    expect(only(await own.lease([ask]))).toMatchObject({ granted: 0, limit: 10, leased: 10 });
    expect(only(await own.lease([wish(rate, 'minute', 0, { units_ahead: 5 })])).granted).toBe(0);
  });

  it('answers many asks in their order, each for itself', async () => {
    const gateId = (
      await api.createGate({
        constraints: {
          rate_limits: { requests_per_minute: 1, requests_per_hour: 5, requests_per_day: 9 },
          spend_limits: { daily_usd: 2, monthly_usd: 0.000_001 },
        },
      })
    ).gate_id;
    const own = await leaseHolder(api);
    const rate = ofGate('gate_rate', gateId);
    const money = ofGate('gate_spend', gateId);
    const grants = await own.lease([
      wish(rate, 'day', 1),
      wish(rate, 'minute', 2),
      wish(money, 'month', 1),
      wish(money, 'day', 1_999_999),
      wish(rate, 'hour', 5),
    ]);
    expect(grants.map(({ granted, limit }) => [granted, limit])).toEqual([
      [1, 9],
      [0, 1],
      [1, 1],
      [1_999_999, 2_000_000],
      [5, 5],
    ]);
  });

  it('counts a gate’s limit for each passport, and a passport’s own across all gates', async () => {
    const [first, second] = [
      await api.issuePassport({ constraints: { spend_limits: { monthly_usd: 3 } } }),
      await api.issuePassport(),
    ];
    const gateId = await rateGate({ requests_per_minute: 1, per: 'passport' });
    const own = await leaseHolder(api);
    const grants = await own.lease([
      wish(ofPassport('gate_rate', first, gateId), 'minute', 1),
      wish(ofPassport('gate_rate', second, gateId), 'minute', 1),
      wish(ofPassport('passport_spend', first), 'month', 3_000_000),
      wish(ofPassport('passport_spend', second), 'month', 1),
    ]);
    expect(grants.map(({ granted, limit }) => [granted, limit])).toEqual([
      [1, 1],
      [1, 1],
      [3_000_000, 3_000_000],
      [0, null],
    ]);
  });

  describe('gives back', () => {
    it('frees units for others at once, also together with an ask for the same window', async () => {
      const rate = ofGate('gate_rate', await gateOf(10));
      const [own, other] = [await leaseHolder(api), await leaseHolder(api)];
      const grant = only(await own.lease([wish(rate, 'minute', 10)]));
      expect(only(await other.lease([wish(rate, 'minute', 1)])).granted).toBe(0);
      expect(only(await own.lease([wish(rate, 'minute', 1)], [giveBack(rate, grant, 4)]))).toMatchObject({
        granted: 1,
        leased: 7,
      });
      expect(only(await other.lease([wish(rate, 'minute', 3)])).granted).toBe(3);
    });

    it('accepts no larger return than the lease', async () => {
      const rate = ofGate('gate_rate', await gateOf(10));
      const [own, other] = [await leaseHolder(api), await leaseHolder(api)];
      const grant = only(await own.lease([wish(rate, 'minute', 2)]));
      await other.lease([wish(rate, 'minute', 8)]);
      await own.lease([], [giveBack(rate, grant, 5)]);
      expect(await leasedOf(rate)).toBe(8);
      await own.lease([], [giveBack(rate, grant, 1)]);
      const stranger = await leaseHolder(api);
      await stranger.lease([], [giveBack(rate, grant, 1)]);
      expect(await leasedOf(rate)).toBe(8);
    });

    it('comes too late when the window has ended', async () => {
      const rate = ofGate('gate_rate', await gateOf(10));
      const own = await leaseHolder(api);
      const grant = only(await own.lease([wish(rate, 'minute', 6)]));
      api.advance(minuteMs);
      expect(only(await own.lease([wish(rate, 'minute', 1)], [giveBack(rate, grant, 6)])).leased).toBe(1);
      const [row] = await api.deps.sql<{ leased: number }[]>`
        SELECT leased FROM quota_windows
        WHERE counter = ${counterKey(counterOfLease(rate))} AND starts_at_ms = ${grant.starts_at_ms}`;
      expect(row?.leased).toBe(6);
    });
  });

  it('forgets the leases of a window some time after its end, and not at once', async () => {
    const rate = ofGate('gate_rate', await gateOf(10));
    const own = await leaseHolder(api);
    await own.lease([wish(rate, 'minute', 1)]);
    const counter = counterKey(counterOfLease(rate));
    const isKnown = async (endedBeforeMs: number): Promise<boolean> => {
      await api.deps.sql`
        UPDATE quota_leases SET ends_at_ms = (extract(epoch FROM clock_timestamp()) * 1000)::bigint - ${endedBeforeMs}::bigint,
          starts_at_ms = 0 WHERE counter = ${counter}`;
      // Whoever makes the table grow trims it.
      await (await leaseHolder(api)).lease([wish(ofGate('gate_rate', await gateOf(10)), 'minute', 1)]);
      return (await api.deps.sql`SELECT FROM quota_leases WHERE counter = ${counter}`).length > 0;
    };
    // Money of it may be on its way into an approval.
    expect(await isKnown(quotaLimits.quotaWindowKeptMs - minuteMs)).toBe(true);
    expect(await isKnown(quotaLimits.quotaWindowKeptMs + minuteMs)).toBe(false);
  });

  describe('is numbered', () => {
    it('and sent again is answered the same and does nothing more', async () => {
      const rate = ofGate('gate_rate', await gateOf(10));
      const own = await leaseHolder(api);
      const first = await own.call([wish(rate, 'minute', 4)]);
      const again = await own.call([wish(rate, 'minute', 4)], [], { seq: 1 });
      expect(again.status).toBe(200);
      expect(again.body.grants).toMatchObject([{ granted: 4, limit: 10, leased: 4 }]);
      expect(again.body.grants[0].left_ms).toBeLessThanOrEqual(first.body.grants[0].left_ms);
      expect(await leasedOf(rate)).toBe(4);
      const back = [giveBack(rate, first.body.grants[0], 3)];
      await own.call([], back);
      await own.call([], back, { seq: 2 });
      expect(await leasedOf(rate)).toBe(1);
    });

    it('and many copies that arrive together count once', async () => {
      const rate = ofGate('gate_rate', await gateOf(100));
      const own = await leaseHolder(api);
      for (const seq of [1, 2]) {
        const copies = Array.from({ length: 6 }, () => own.call([wish(rate, 'minute', 5)], [], { seq }));
        const replies = await Promise.all(copies);
        expect(replies.map(({ status, body }) => [status, body.grants?.[0]?.leased])).toEqual(
          Array(6).fill([200, 5 * seq]),
        );
      }
      expect(await leasedOf(rate)).toBe(10);
    });

    it.each([
      ['a hole', 4],
      ['a number of long ago', 1],
    ])('and %s is answered holder_unknown', async (_, seq) => {
      const rate = ofGate('gate_rate', await gateOf(10));
      const own = await leaseHolder(api);
      await own.lease([wish(rate, 'minute', 1)]);
      await own.lease([wish(rate, 'minute', 1)]);
      const reply = await own.call([wish(rate, 'minute', 1)], [], { seq });
      expect([reply.status, reply.body.error.code]).toEqual([409, 'holder_unknown']);
      expect(await leasedOf(rate)).toBe(2);
      expect((await own.call([], [], { seq: 3 })).status).toBe(200);
    });

    it('and begins at 1, also where the database was restored and has forgotten the holder', async () => {
      const rate = ofGate('gate_rate', await gateOf(10));
      const own = await leaseHolder(api);
      await own.lease([wish(rate, 'minute', 1)]);
      await api.deps.sql`DELETE FROM lease_holders WHERE holder = ${own.holder}`;
      expect((await own.call([wish(rate, 'minute', 1)])).body.error.code).toBe('holder_unknown');
      const anew = await leaseHolder(api, { sidecar: own.sidecar });
      expect(only(await anew.lease([wish(rate, 'minute', 1)])).leased).toBe(2);
    });

    it('and a holder belongs to one sidecar', async () => {
      const [own, other] = [await leaseHolder(api), await leaseHolder(api)];
      await own.lease([]);
      for (const seq of [1, 2]) {
        const reply = await other.call([], [], { holder: own.holder, seq });
        expect(reply.body.error.code).toBe('holder_unknown');
      }
      expect((await own.call([])).status).toBe(200);
    });
  });

  describe('grants nothing, and says that there is no limit,', () => {
    const refused = { granted: 0, limit: null, leased: 0 };

    it('of a gate of another account', async () => {
      const stranger = await api.createAccount();
      const foreign = await api.createGate(
        { constraints: { rate_limits: { requests_per_minute: 9 } } },
        stranger.key,
      );
      const own = await leaseHolder(api);
      const rate = ofGate('gate_rate', foreign.gate_id);
      expect(only(await own.lease([wish(rate, 'minute', 1)]))).toMatchObject(refused);
      const theirs = await leaseHolder(api, { key: stranger.key });
      expect(only(await theirs.lease([wish(rate, 'minute', 1)])).granted).toBe(1);
      expect(await leasedOf(rate)).toBe(1);
    });

    it('of a gate that was deleted', async () => {
      const gateId = await gateOf(9);
      await api.call({ method: 'DELETE', url: `/v1/gates/${gateId}` });
      const own = await leaseHolder(api);
      expect(only(await own.lease([wish(ofGate('gate_rate', gateId), 'minute', 1)]))).toMatchObject(refused);
    });

    it('of a passport whose token was not presented', async () => {
      const limited = await api.issuePassport({ constraints: { rate_limits: { requests_per_minute: 9 } } });
      const gateId = await rateGate({ requests_per_minute: 9, per: 'passport' });
      const own = await leaseHolder(api);
      const wrong = { token_hash: 'ab'.repeat(32) };
      const grants = await own.lease([
        wish({ ...ofPassport('passport_rate', limited), ...wrong }, 'minute', 1),
        wish({ ...ofPassport('gate_rate', limited, gateId), ...wrong }, 'minute', 1),
      ]);
      expect(grants).toMatchObject([refused, refused]);
      const shown = await own.lease([
        wish(ofPassport('passport_rate', limited), 'minute', 1),
        wish(ofPassport('gate_rate', limited, gateId), 'minute', 1),
      ]);
      expect(shown.map(({ granted }) => granted)).toEqual([1, 1]);
    });

    it('where the gate counts otherwise: for all passports together, or for each', async () => {
      const forAll = await gateOf(9);
      const forEach = await rateGate({ requests_per_minute: 9, per: 'passport' });
      const own = await leaseHolder(api);
      const grants = await own.lease([
        wish(ofPassport('gate_rate', passport, forAll), 'minute', 1),
        wish(ofGate('gate_rate', forEach), 'minute', 1),
        wish(ofGate('gate_rate', forAll), 'hour', 1),
        wish(ofGate('gate_spend', forAll), 'day', 1),
      ]);
      expect(grants).toMatchObject([refused, refused, refused, refused]);
    });
  });

  it('is bound by a limit from the moment it is lowered, raised or removed', async () => {
    const gateId = await gateOf(10);
    const rate = ofGate('gate_rate', gateId);
    const own = await leaseHolder(api);
    const change = (perMinute: number | null) =>
      api.call({
        method: 'PUT',
        url: `/v1/gates/${gateId}`,
        body: { constraints: { rate_limits: { requests_per_minute: perMinute } } },
      });
    const ask = async () => only(await own.lease([wish(rate, 'minute', 4)]));
    expect(await ask()).toMatchObject({ granted: 4, limit: 10, leased: 4 });
    await change(6);
    expect(await ask()).toMatchObject({ granted: 0, limit: 6, leased: 4 });
    await change(3);
    expect(await ask()).toMatchObject({ granted: 0, limit: 3, leased: 4 });
    await change(8);
    expect(await ask()).toMatchObject({ granted: 4, limit: 8, leased: 8 });
    await change(null);
    expect(await ask()).toMatchObject({ granted: 0, limit: null });
  });

  it('comes from the newest connection of its sidecar alone', async () => {
    const own = await leaseHolder(api);
    await own.lease([]);
    const newer = await connectSidecar(api, { sidecarId: own.sidecar.sidecarId });
    const late = await own.call([]);
    expect([late.status, late.body.error.code]).toEqual([409, 'connection_superseded']);
    // The same process, connected anew, goes on with what it has.
    const again = await own.call([], [], { connection_id: newer.connectionId, seq: 2 });
    expect(again.status).toBe(200);
    const unknown = await own.call([], [], { connection_id: '1.nobody' });
    expect(unknown.body.error.code).toBe('connection_superseded');
    const stranger = await api.createAccount();
    const theirs = await leaseHolder(api, { key: stranger.key });
    const foreign = await theirs.call([], [], {
      sidecar_id: own.sidecar.sidecarId,
      connection_id: newer.connectionId,
    });
    expect(foreign.body.error.code).toBe('connection_unknown');
  });

  describe('is refused', () => {
    it('without a key, and without the scope', async () => {
      expectError(await api.call({ url: '/v1/sync/leases', body: {}, key: null }), 'unauthorized');
      const { key } = await api.createKey({ scopes: ['attestations:read'] });
      expectError(await api.call({ url: '/v1/sync/leases', body: {}, key }), 'insufficient_scope');
    });

    it('with the field that is wrong', async () => {
      const gateId = await gateOf(10);
      const rate = ofGate('gate_rate', gateId);
      const own = await leaseHolder(api);
      const refuse = async (param: string, ...call: Parameters<LeaseHolder['call']>) =>
        expectError(await own.call(...call), 'invalid_request', param);
      await refuse('holder', [], [], { holder: 'x' });
      await refuse('seq', [], [], { seq: 0 });
      await refuse('asks', [wish(rate, 'minute', 1), wish(rate, 'minute', 2)]);
      await refuse('asks.0', [{ ...wish(rate, 'minute', 1), gate_id: null }]);
      await refuse('asks.0', [wish({ ...rate, kind: 'passport_rate' }, 'minute', 1)]);
      await refuse('asks.0', [
        wish({ ...ofPassport('gate_rate', passport, gateId), token_hash: null }, 'minute', 1),
      ]);
      await refuse('asks.0.units_min', [wish(rate, 'minute', 1, { units_min: 2 })]);
      await refuse('asks.0.units_needed', [wish(rate, 'minute', 1, { units_needed: 0.5 })]);
      const startsAtMs = windowAt('minute', api.deps.clock.now()).startsAtMs;
      const back = { ...rate, window: 'minute' as const, starts_at_ms: startsAtMs, units: 1 };
      await refuse('returns', [], [back, back]);
      await refuse('returns.0', [], [{ ...back, starts_at_ms: (startsAtMs + 1) as typeof startsAtMs }]);
      await refuse('returns.0.units', [], [{ ...back, units: -1 }]);
      expect((await own.call([], [], { seq: 1 })).status).toBe(200);
    });

    it('with more windows than one call may name, and not with as many', async () => {
      const own = await leaseHolder(api);
      const gateIds = Array.from({ length: limits.leasesPerCallMax + 1 }, () =>
        api.deps.random.newId('gate', api.deps.clock.now()),
      );
      const asks = gateIds.map((gateId) =>
        wish(ofPassport('gate_spend', passport, gateId), 'month', Number.MAX_SAFE_INTEGER),
      );
      const startsAtMs = windowAt('month', api.deps.clock.now()).startsAtMs;
      const returns = asks.map(({ units_min: units, units_needed, units_ahead, ...counter }) => ({
        ...counter,
        starts_at_ms: startsAtMs,
        units,
      }));
      expectError(await own.call(asks, [], { seq: 1 }), 'invalid_request', 'asks');
      const most = await own.call(asks.slice(1), returns.slice(1), { seq: 1 });
      expect(most.status).toBe(200);
      expect(most.body.grants).toHaveLength(limits.leasesPerCallMax);
    });
  });
});

describe('several holders', () => {
  it('use a small limit to its last unit in any order of asks, and none is refused before', async () => {
    const rate = ofGate('gate_rate', await gateOf(10));
    const holders = await Promise.all(Array.from({ length: 4 }, () => leaseHolder(api)));
    const granted: number[] = [];
    for (let turn = 0; turn < 12; turn++) {
      const own = holders[turn % 4] as LeaseHolder;
      granted.push(only(await own.lease([wish(rate, 'minute', 1, { units_ahead: 8 })])).granted);
    }
    expect(granted).toEqual([...Array(10).fill(1), 0, 0]);
  });

  it('use at least 98 % of a limit with leases ahead of need, and not one more than all', async () => {
    const limit = 1_000;
    const rate = ofGate('gate_rate', await gateOf(limit));
    const holders = await Promise.all(
      Array.from({ length: 4 }, async () => ({ own: await leaseHolder(api), available: 0 })),
    );
    let used = 0;
    for (let blocked = 0; blocked < 8; ) {
      // Three of them are busy, one is not and keeps what it has leased ahead.
      const one = holders[
        (used + blocked) % 100 === 0 ? 3 : (used + blocked) % 3
      ] as (typeof holders)[number];
      if (one.available === 0) {
        const ask = wish(rate, 'minute', 1, { units_ahead: 20 });
        one.available = only(await one.own.lease([ask])).granted;
      }
      if (one.available === 0) {
        blocked++;
        continue;
      }
      one.available--;
      used++;
    }
    expect(used).toBeLessThanOrEqual(limit);
    expect(used).toBeGreaterThanOrEqual(0.98 * limit);
  });

  it('never deadlock while they return and request units of each other’s windows', async () => {
    const gates = await Promise.all(Array.from({ length: 8 }, () => gateOf(1_000)));
    const counters = gates.map((gateId) => ofGate('gate_rate', gateId));
    const holders = await Promise.all(Array.from({ length: 6 }, () => leaseHolder(api)));
    const work = holders.map(async (own, turn) => {
      const inTurn = turn % 2 === 0 ? counters : [...counters].reverse();
      let had: readonly LeaseGrantBody[] = [];
      const sums = inTurn.map(() => 0);
      for (let round = 0; round < 15; round++) {
        const half = (offset: number) =>
          inTurn.map((_, place) => place).filter((place) => (place + round + offset) % 2 === 0);
        const returned = had.length === 0 ? [] : half(1);
        const asked = half(0);
        const grants = await own.lease(
          asked.map((place) => wish(inTurn[place] as LeaseCounter, 'minute', 3)),
          returned.map((place) => giveBack(inTurn[place] as LeaseCounter, had[0] as LeaseGrantBody, 1)),
        );
        for (const place of returned) sums[place] = Math.max((sums[place] ?? 0) - 1, 0);
        asked.forEach((place, at) => {
          sums[place] = (sums[place] ?? 0) + (grants[at]?.granted ?? 0);
        });
        had = grants;
      }
      return turn % 2 === 0 ? sums : sums.reverse();
    });
    const sums = await Promise.all(work);
    for (const [place, counter] of counters.entries()) {
      const held = sums.reduce((total, each) => total + (each[place] ?? 0), 0);
      expect(await leasedOf(counter)).toBe(held);
    }
  });
});
