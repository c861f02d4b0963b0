import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { quotaLimits } from '../../control-plane/book/limits.ts';
import { limits } from '../../shared/model/limits.ts';
import { minuteMs } from '../../shared/model/time.ts';
import { counterKey } from '../../shared/quota/counter.ts';
import { windowAt } from '../../shared/quota/window.ts';
import {
  counterOfLease,
  type LeaseCounter,
  type LeaseGrantBody,
  type LeaseReturn,
} from '../../shared/wire/sync/lease-call.ts';
import { type Reply, startOwnApi } from '../support/service/api.ts';
import { goToNextMinute, goToNoon } from '../support/service/approvals.ts';
import { expectError } from '../support/service/expect-error.ts';
import { type LeaseHolder, leaseHolder, ofGate, ofPassport, wish } from '../support/service/lease-holder.ts';
import { connectSidecar } from '../support/service/test-sidecar.ts';
import { useApi } from '../support/service/use-api.ts';

const api = useApi(startOwnApi);
let passport: Reply['body'];
beforeAll(async () => {
  goToNoon(api);
  passport = await api.issuePassport();
});
// A test takes seconds, also where the file takes more than a minute: none of them is to meet the end of one.
beforeEach(() => goToNextMinute(api));

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
