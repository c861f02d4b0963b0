import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { postUnits } from '../../control-plane/book/lease-posts.ts';
import { quotaLimits } from '../../control-plane/book/limits.ts';
import { holdLeases, type Take } from '../../control-plane/quota/judge-takes.ts';
import { serveLeaseCall } from '../../control-plane/quota/serve-lease-call.ts';
import { must } from '../../shared/errors/assert.ts';
import type { AccountId, GateId } from '../../shared/model/ids.ts';
import { limits } from '../../shared/model/limits.ts';
import { minuteMs } from '../../shared/model/time.ts';
import { windowAt } from '../../shared/quota/window.ts';
import type { LeaseGrantBody, LeaseRequest } from '../../shared/wire/sync/lease-call.ts';
import type { EpochEnd, SpooledRecord } from '../../shared/wire/sync/sync.ts';
import { until } from '../support/base/until.ts';
import { waitingForLocks } from '../support/database/postgres.ts';
import { standingStill } from '../support/database/standing-still.ts';
import { type Reply, startOwnApi } from '../support/service/api.ts';
import { goToNextMinute, goToNoon } from '../support/service/approvals.ts';
import { leaseHolder, ofGate, wish } from '../support/service/lease-holder.ts';
import { brokenRules } from '../support/service/sound-database.ts';
import {
  type ConnectedSidecar,
  connectSidecar,
  recordOf,
  settlementCall,
} from '../support/service/test-sidecar.ts';
import { useApi } from '../support/service/use-api.ts';

/**
 * What a sidecar that died was leased, and how much of it comes back when its spool has been shipped to the
 * end.
 */
const api = useApi(startOwnApi);
let passport: Reply['body'];
beforeAll(async () => {
  goToNoon(api);
  passport = await api.issuePassport();
});
beforeEach(() => goToNextMinute(api));
afterAll(async () => expect(await brokenRules(api.deps.sql)).toEqual({}));

const usd = 1_000_000;
const sound: EpochEnd = { nothing_lost: true, torn_bytes: 0 };

/** A gate with 100 requests and 100 dollars an hour or a day, and a sidecar that was leased 10 of each. */
async function leased() {
  const gateId: GateId = (
    await api.createGate({
      constraints: { rate_limits: { requests_per_day: 100 }, spend_limits: { daily_usd: 100 } },
    })
  ).gate_id;
  const sidecar = await connectSidecar(api);
  const own = await leaseHolder(api, { sidecar });
  const rate = ofGate('gate_rate', gateId);
  const spend = ofGate('gate_spend', gateId);
  const call = (asks: readonly LeaseRequest[], change = {}) =>
    own.call(asks, [], { epoch: sidecar.epoch, ...change });
  const { body } = await call([wish(rate, 'day', 10), wish(spend, 'day', 10 * usd)]);
  const [requests, money] = (body.grants as LeaseGrantBody[]).map(({ lease_id }) => lease_id ?? 0);
  return {
    gateId,
    sidecar,
    own,
    call,
    rate,
    spend,
    took: [money ?? 0, requests ?? 0],
    permit: (amountUsd: number, change: Partial<SpooledRecord> = {}) =>
      recordOf(
        api,
        { gateId, passport },
        { amount_micro_usd: amountUsd * usd, took: [money ?? 0, requests ?? 0], ...change },
      ),
    /** Requests and dollars that nobody else can have. */
    counted: async () => {
      const rows = await api.deps.sql<{ counter: string; leased: number }[]>`
        SELECT counter, leased FROM quota_windows WHERE counter LIKE ${`gate_%:${gateId}`} ORDER BY counter`;
      const [requestsCounted, moneyCounted] = rows.map((row) => row.leased);
      return [requestsCounted, (moneyCounted ?? 0) / usd];
    },
  };
}

const end = (sidecar: ConnectedSidecar, firstSeq: number, change: Partial<EpochEnd> = {}) =>
  sidecar.send(firstSeq, [], { end: { ...sound, ...change } });

describe('the end of an epoch', () => {
  it('returns the requests and money that none of its records took', async () => {
    const { sidecar, permit, counted } = await leased();
    expect((await sidecar.send(1, [permit(2), permit(1.5)])).status).toBe(200);
    expect(await counted()).toEqual([10, 10]);
    expect(await end(sidecar, 3)).toMatchObject({ status: 200, body: { next_seq: 3 } });
    expect(await counted()).toEqual([2, 3.5]);
  });

  it('may come with the last records, and changes nothing when it comes again', async () => {
    const { sidecar, permit, counted } = await leased();
    const records = [permit(2), permit(2)];
    for (const _ of [1, 2]) {
      expect((await sidecar.send(1, records, { end: sound })).status).toBe(200);
      expect(await counted()).toEqual([2, 4]);
    }
    expect((await end(sidecar, 3)).status).toBe(200);
    expect(await counted()).toEqual([2, 4]);
  });

  it('waits for records that are missing before it', async () => {
    const { sidecar, counted } = await leased();
    const reply = await end(sidecar, 4);
    expect(reply).toMatchObject({ status: 409, body: { error: { code: 'sequence_gap', expected_seq: 1 } } });
    expect(await counted()).toEqual([10, 10]);
  });

  it.each([
    ['the sidecar cannot say that nothing is lost', [], { nothing_lost: false }],
    ['records were lost', [{ void: 'damaged', count: 1 }], {}],
    ['a refused record was given up', [{ void: 'refused', count: 1 }], {}],
  ] as const)('keeps every unit counted where %s', async (_what, records, change) => {
    const { sidecar, permit, counted } = await leased();
    expect((await sidecar.send(1, [permit(1), ...records])).status).toBe(200);
    expect((await end(sidecar, 2 + records.length, change)).status).toBe(200);
    expect(await counted()).toEqual([10, 10]);
    // The first end is the last word.
    expect((await end(sidecar, 2 + records.length)).status).toBe(200);
    expect(await counted()).toEqual([10, 10]);
  });

  it('keeps every unit counted if the ending folder lacks stored records', async () => {
    const { sidecar, permit, counted } = await leased();
    expect((await sidecar.send(1, [permit(1), permit(1)])).status).toBe(200);
    expect((await end(sidecar, 2)).status).toBe(200);
    expect(await counted()).toEqual([10, 10]);
  });

  it('keeps every unit counted if a PERMIT does not name its leases', async () => {
    const { sidecar, permit, counted } = await leased();
    const { took: _, ...silent } = permit(1);
    expect((await sidecar.send(1, [permit(1), silent], { end: sound })).status).toBe(200);
    expect(await counted()).toEqual([10, 10]);
  });

  it('leaves units that the sidecar holds since its restart, and holders without an epoch', async () => {
    const { gateId, sidecar, rate, counted } = await leased();
    const now = await connectSidecar(api, { sidecarId: sidecar.sidecarId });
    const restarted = await leaseHolder(api, { sidecar: now });
    await restarted.call([wish(rate, 'day', 7)], [], { epoch: now.epoch });
    const older = await leaseHolder(api, { sidecar: now });
    await older.lease([wish(rate, 'day', 5)]);
    expect(await counted()).toEqual([22, 10]);
    expect((await now.send(1, [], { epoch: sidecar.epoch, end: sound })).status).toBe(200);
    expect(await counted()).toEqual([12, 0]);
    expect(gateId).toBeDefined();
  });

  it('returns grants of all its holders, and nothing of another sidecar', async () => {
    const { sidecar, rate, counted } = await leased();
    const anew = await leaseHolder(api, { sidecar });
    await anew.call([wish(rate, 'day', 7)], [], { epoch: sidecar.epoch });
    const stranger = await connectSidecar(api);
    const foreign = await leaseHolder(api, { sidecar: stranger });
    await foreign.call([wish(rate, 'day', 5)], [], { epoch: sidecar.epoch });
    expect(await counted()).toEqual([22, 10]);
    expect((await end(sidecar, 1)).status).toBe(200);
    expect(await counted()).toEqual([5, 0]);
  });

  it('ends its holders: late calls, and holders created for it later, are unknown', async () => {
    const { sidecar, call, rate, counted } = await leased();
    expect((await end(sidecar, 1)).status).toBe(200);
    const codeOf = async (change: object) => (await call([wish(rate, 'day', 3)], change)).body.error?.code;
    expect(await codeOf({ seq: 1 })).toBe('holder_unknown');
    expect(await codeOf({ seq: 2 })).toBe('holder_unknown');
    expect(await codeOf({ holder: randomBytes(16).toString('hex'), seq: 1 })).toBe('holder_unknown');
    expect(await counted()).toEqual([0, 0]);
  });

  it('lets no holder begin beside an end in flight', async () => {
    const { sidecar, own, call, rate, counted } = await leased();
    const late = { holder: randomBytes(16).toString('hex'), seq: 1 };
    const held = await api.deps.sql.reserve();
    let ended: ReturnType<typeof end>;
    try {
      await held`BEGIN`;
      await held`SELECT FROM lease_holders WHERE holder = ${own.holder} FOR UPDATE`;
      ended = end(sidecar, 1);
      await until(async () => (await waitingForLocks(held)) > 0, { what: 'an end that waits' });
      const { status, body } = await call([wish(rate, 'day', 3)], late);
      expect([status, body.error?.code]).toEqual([503, 'overloaded']);
    } finally {
      await held`ROLLBACK`;
      held.release();
    }
    expect((await ended).status).toBe(200);
    expect((await call([wish(rate, 'day', 3)], late)).body.error?.code).toBe('holder_unknown');
    expect(await counted()).toEqual([0, 0]);
  });

  it.each([true, false])(
    'returns what a first call in flight was leased; records of the epoch came before: %s',
    async (hasRecords) => {
      const { gateId, sidecar, permit, counted } = await leased();
      const before = hasRecords ? [permit(1)] : [];
      if (hasRecords) expect((await sidecar.send(1, before)).status).toBe(200);
      const [operator] = await api.deps.sql<{ id: AccountId }[]>`
        SELECT account_id AS id FROM accounts WHERE is_operator`;
      const still = standingStill(api.deps.sql, ['last_answer AS answer']);
      const { sidecarId, connectionId, epoch } = sidecar;
      const ids = { sidecar_id: sidecarId, connection_id: connectionId, epoch };
      const first = { ...ids, holder: randomBytes(16).toString('hex'), seq: 1, returns: [] };
      const asks = [wish(ofGate('gate_rate', gateId), 'day', 7)];
      const late = serveLeaseCall(
        still.sql,
        must(operator, 'there is one').id,
        { ...first, asks },
        api.deps.clock.now(),
      );
      await until(() => still.stood.length === 1, { what: 'it has begun a holder' });
      const ended = end(sidecar, 1 + before.length);
      await until(async () => (await waitingForLocks(api.deps.sql)) > 0, { what: 'the end waits for it' });
      still.goOn();
      expect((await late).kind).toBe('answered');
      expect((await ended).status).toBe(200);
      expect(await counted()).toEqual(hasRecords ? [1, 1] : [0, 0]);
    },
  );

  it('lets a holder begin while records of its epoch are being stored', async () => {
    const { sidecar, call, rate, permit, counted } = await leased();
    expect((await sidecar.send(1, [permit(1)])).status).toBe(200);
    const held = await api.deps.sql.reserve();
    let stored: ReturnType<typeof sidecar.send>;
    try {
      await held`BEGIN`;
      await held`SELECT FROM chains WHERE chain_id = ${passport.passport_id} FOR UPDATE`;
      stored = sidecar.send(2, [permit(1)]);
      await until(async () => (await waitingForLocks(held)) > 0, { what: 'records that wait' });
      const late = { holder: randomBytes(16).toString('hex'), seq: 1 };
      expect((await call([wish(rate, 'day', 3)], late)).status).toBe(200);
    } finally {
      await held`ROLLBACK`;
      held.release();
    }
    expect((await stored).status).toBe(200);
    expect(await counted()).toEqual([13, 10]);
  });

  it('counts what units that went back or that a repeated call was granted are: each once', async () => {
    const { sidecar, call, rate, permit, counted } = await leased();
    const asks = [wish(rate, 'day', 4)];
    const first = await call(asks, { seq: 2 });
    const again = await call(asks, { seq: 2 });
    expect(again.body.grants[0].lease_id).toBe(first.body.grants[0].lease_id);
    expect(again.body.grants[0].lease_id).toBe(permit(1).took?.[1]);
    await call([], {
      seq: 3,
      returns: [{ ...rate, window: 'day', starts_at_ms: first.body.grants[0].starts_at_ms, units: 3 }],
    });
    expect(await counted()).toEqual([11, 10]);
    expect((await sidecar.send(1, [permit(1)], { end: sound })).status).toBe(200);
    expect(await counted()).toEqual([1, 1]);
  });

  it('is not misled by posts that were folded into their leases', async () => {
    const { sidecar, call, permit, counted } = await leased();
    for (let n = 1; n <= 5; n++) expect((await sidecar.send(n, [permit(1)])).status).toBe(200);
    // The calls up to the next one that folds.
    for (let seq = 2; seq <= quotaLimits.leaseCallsPerFold; seq++)
      expect((await call([], { seq })).status).toBe(200);
    const [left] = await api.deps.sql<{ posts: number }[]>`
      SELECT count(*)::int AS posts FROM lease_posts JOIN quota_leases USING (lease_id) JOIN lease_holders USING (holder)
      WHERE sidecar_id = ${sidecar.sidecarId}`;
    expect(left?.posts).toBe(0);
    expect((await sidecar.send(6, [permit(1)], { end: sound })).status).toBe(200);
    expect(await counted()).toEqual([6, 6]);
  });

  it('counts the units that settlements took, and commits none that arrives after it', async () => {
    const { gateId, sidecar, own, permit, counted } = await leased();
    const settle = async (key: string) => {
      const record = permit(2);
      const reply = await api.call({
        url: '/v1/sync/settlements',
        key: sidecar.key,
        body: settlementCall({
          ...{ sidecar_id: sidecar.sidecarId, connection_id: sidecar.connectionId, holder: own.holder },
          ...{ kind: 'permit', passport_id: passport.passport_id, token_hash: record.token_hash },
          ...{ gate_id: gateId, gate_version: 1, request_hash: record.request_hash, idempotency_key: key },
          approval_id: null,
          record,
        }),
      });
      return reply.body.answers[0].kind;
    };
    expect(await settle('first')).toBe('committed');
    expect((await end(sidecar, 1)).status).toBe(200);
    expect(await counted()).toEqual([1, 2]);
    expect(await settle('late')).toBe('refused');
    expect(await settle('first')).toBe('replayed');
  });

  it('waits for a settlement that is being committed, and counts it', async () => {
    const { sidecar, permit, took, counted } = await leased();
    const { deps } = api;
    let commit: () => void = () => undefined;
    const isDecided = new Promise<void>((resolve) => {
      commit = resolve;
    });
    const settling = deps.sql.begin(async (tx) => {
      const record = {
        source: sidecar.sidecarId,
        passportId: null,
        amountMicroUsd: 3 * usd,
      } as Take['record'];
      const held = await holdLeases(tx, [
        {
          record,
          took,
          passportOwner: null,
          holder: null,
          isPaid: false,
          needsApproval: false,
        },
      ]);
      expect([...held.keys()].sort()).toEqual([...took].sort());
      await isDecided;
      await postUnits(tx, [{ record, took }]);
    });
    const waiting = await waitingForLocks(deps.sql);
    const ended = end(sidecar, 2);
    expect((await sidecar.send(1, [permit(1)])).status).toBe(200);
    const again = end(sidecar, 2);
    await until(async () => (await waitingForLocks(deps.sql)) > waiting, { what: 'the end waits' });
    commit();
    await settling;
    for (const reply of [await ended, await again]) expect([200, 409]).toContain(reply.status);
    expect(await counted()).toEqual([2, 4]);
  });

  it('returns nothing of an ended window', async () => {
    const { sidecar, counted } = await leased();
    api.advance(24 * 60 * minuteMs);
    expect((await end(sidecar, 1)).status).toBe(200);
    expect(await counted()).toEqual([10, 10]);
    goToNoon(api);
  });

  it('returns more windows than one ledger call moves', async () => {
    const { gateId, sidecar, own, counted } = await leased();
    const nowMs = api.deps.clock.now();
    const { startsAtMs, endsAtMs } = windowAt('day', nowMs);
    const many = limits.quotaWindowsPerCallMax + 50;
    const counters = Array.from({ length: many }, (_, n) => `gate_rate:${gateId}:pass_${n}`);
    await api.deps.sql`
      INSERT INTO quota_windows (counter, window_name, starts_at_ms, ends_at_ms, leased)
      SELECT counter, 'day', ${startsAtMs}, ${endsAtMs}, 3 FROM unnest(${counters}::text[]) AS counter`;
    await api.deps.sql`
      INSERT INTO quota_leases (holder, counter, window_name, starts_at_ms, ends_at_ms, units)
      SELECT ${own.holder}, counter, 'day', ${startsAtMs}, ${endsAtMs}, 3 FROM unnest(${counters}::text[]) AS counter`;
    expect((await end(sidecar, 1)).status).toBe(200);
    const [left] = await api.deps.sql<{ leased: number }[]>`
      SELECT sum(leased)::int AS leased FROM quota_windows WHERE counter = ANY(${counters}::text[])`;
    expect(left?.leased).toBe(0);
    expect((await counted())[0]).toBe(0);
  });

  it.each([
    [{ end: {} }, 'end.nothing_lost'],
    [{ end: { nothing_lost: true, torn_bytes: -1 } }, 'end.torn_bytes'],
    [{ end: null }, 'end'],
    [{}, 'records'],
  ])('is refused where it is not well formed: %j', async (change, param) => {
    const { sidecar } = await leased();
    const reply = await sidecar.send(1, [], change as object);
    expect(reply).toMatchObject({ status: 400, body: { error: { code: 'invalid_request', param } } });
  });
});
