import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { sha256Hex } from '../../shared/crypto/content-hash.ts';
import { idDigest } from '../../shared/crypto/id-digest.ts';
import type { IdDigest } from '../../shared/model/id-digest.ts';
import type { GateId } from '../../shared/model/ids.ts';
import { dayMs, hourMs, minuteMs, secondMs } from '../../shared/model/time.ts';
import { windowAt } from '../../shared/quota/window.ts';
import type { LeaseCounter } from '../../shared/wire/sync/lease-call.ts';
import type { SettlementAnswer } from '../../shared/wire/sync/settlement.ts';
import type { SpooledRecord } from '../../shared/wire/sync/sync.ts';
import { until } from '../support/base/until.ts';
import { waitingForLocks } from '../support/database/postgres.ts';
import { type Reply, startOwnApi } from '../support/service/api.ts';
import { goToNoon, hashOf } from '../support/service/approvals.ts';
import { type LeaseHolder, leaseHolder, ofGate, ofPassport, wish } from '../support/service/lease-holder.ts';
import { brokenRules } from '../support/service/sound-database.ts';
import {
  type ConnectedSidecar,
  expectSoundStore,
  predatePassport,
  recordOf,
  settlementCall,
} from '../support/service/test-sidecar.ts';
import { useApi } from '../support/service/use-api.ts';
import { makeWallet, putWallet } from '../support/service/wallets.ts';

/**
 * Sidecars of a foreign account that have seen the token of a capped passport, and say of their leases what
 * is not so. Whatever they say, the windows of the passport, or those of the wallet that it is in, lose no
 * unit that somebody else was given.
 */
const kinds = ['passport', 'wallet'] as const;
let kind: (typeof kinds)[number] = 'passport';
const api = useApi(startOwnApi);
let foreignKey: string;
let foreignGate: GateId;
let passport: Reply['body'];
let liar: LeaseHolder;

const usd = 1_000_000;

beforeAll(async () => {
  goToNoon(api);
  foreignKey = (await api.createAccount({ name: 'Foreign' })).key;
  foreignGate = (await api.createGate({ constraints: { trusted_issuers: ['*'] } }, foreignKey)).gate_id;
});
beforeEach(async () => {
  passport = await capped({ daily_usd: 100 }, { requests_per_day: 50 });
  liar = await leaseHolder(api, { key: foreignKey });
});
afterAll(async () => {
  expect(await brokenRules(api.deps.sql)).toEqual({});
  await expectSoundStore(api);
});

const walletKeys = new Map<string, IdDigest>();
/** A passport of these limits, or one in a wallet that has them. */
async function capped(spendLimits: object, rateLimits: object): Promise<Reply['body']> {
  const constraints = { spend_limits: spendLimits, rate_limits: rateLimits };
  if (kind === 'passport') return api.issuePassport({ constraints });
  const { wallet_id: id } = await makeWallet(api, {});
  await putWallet(api, id, { limits: { ...spendLimits, ...rateLimits } });
  // Nobody can say any more that the wallet may have been another one for the passport.
  api.advance(2 * secondMs);
  const issued = await api.issuePassport({ wallet_id: id });
  walletKeys.set(issued.passport_id, idDigest(id));
  return issued;
}

const counterOf = (unit: 'spend' | 'rate'): LeaseCounter => {
  const own = ofPassport(`${kind}_${unit}`, passport);
  return kind === 'passport' ? own : { ...own, wallet: `${walletKeys.get(passport.passport_id)}:pot` };
};
const spend = () => counterOf('spend');
const rate = () => counterOf('rate');
const today = () => windowAt('day', api.deps.clock.now()).startsAtMs;

/** Leases micro-USD and requests of today to a holder; their numbers. */
async function lease(money: number, requests: number, by: LeaseHolder = liar): Promise<readonly number[]> {
  const grants = await by.lease([wish(spend(), 'day', money), wish(rate(), 'day', requests)]);
  return grants.map(({ lease_id }) => lease_id ?? 0);
}

/** Micro-USD and requests that are given out today. */
async function given(): Promise<readonly [money: number, requests: number]> {
  const rows = await api.deps.sql<{ counter: string; leased: number }[]>`
    SELECT counter, leased FROM quota_windows
    WHERE counter LIKE ${`%:${walletKeys.get(passport.passport_id) ?? passport.passport_id}`} AND starts_at_ms = ${today()}`;
  const of = (unit: string) => rows.find(({ counter }) => counter.startsWith(`${kind}_${unit}`))?.leased ?? 0;
  return [of('spend'), of('rate')];
}

const evaluated = 'passport trust_level freshness issuer permission spend_limit rate_limit'.split(
  ' ',
) as SpooledRecord['constraints_evaluated'];
const record = (took: readonly number[] | undefined, amount: number, change: Partial<SpooledRecord> = {}) => {
  const of = { gateId: foreignGate, passport };
  const claimed = { request_hash: hashOf(1), amount_micro_usd: amount, constraints_evaluated: evaluated };
  const plain = recordOf(api, of, { ...claimed, ...change });
  return took === undefined ? plain : { ...plain, took };
};

let keys = 0;
const settle = async (settlement: object, by: LeaseHolder = liar): Promise<SettlementAnswer> => {
  const reply = await api.call({
    url: '/v1/sync/settlements',
    key: by.sidecar.key,
    body: settlementCall({
      sidecar_id: by.sidecar.sidecarId,
      connection_id: by.sidecar.connectionId,
      holder: by.holder,
      passport_id: passport.passport_id,
      token_hash: sha256Hex(passport.jwt),
      gate_id: foreignGate,
      gate_version: 1,
      request_hash: hashOf(1),
      idempotency_key: `key-${++keys}`,
      ...settlement,
    }),
  });
  expect(reply.status, JSON.stringify(reply.body)).toBe(200);
  return reply.body.answers[0];
};
const permit = (of: SpooledRecord, by: LeaseHolder = liar, change: object = {}) =>
  settle({ kind: 'permit', approval_id: null, record: of, ...change }, by);
const committed = { kind: 'committed' };
const refusedFor = (about: RegExp) => ({ kind: 'refused', message: expect.stringMatching(about) });

const nextSeqs = new Map<string, number>();
async function ship(items: readonly object[], by: ConnectedSidecar = liar.sidecar, change: object = {}) {
  const first = nextSeqs.get(by.epoch) ?? 1;
  const reply = await by.send(first, items, change);
  if (reply.status === 200) nextSeqs.set(by.epoch, reply.body.next_seq);
  return reply;
}
const voidOf = (id: string, took: readonly number[], amount: number | null) => ({
  voids: id,
  took,
  amount_micro_usd: amount,
  timestamp_ms: api.deps.clock.now(),
});
const refusedRecord = (about: RegExp) => ({
  status: 400,
  body: { error: { code: 'record_refused', refused: [{ message: expect.stringMatching(about) }] } },
});

describe.each(kinds)('of a %s:', (each) => {
  beforeAll(() => {
    kind = each;
  });

  describe('a cap of 100 dollars and 50 requests', () => {
    it('is not passed by six PERMITs of 1,000 dollars on leases of a millionth, each voided', async () => {
      const honest = await leaseHolder(api);
      await lease(99 * usd, 20, honest);
      for (let round = 1; round <= 6; round++) {
        const took = await lease(1, 1);
        const big = record(took, 1_000 * usd);
        expect(await permit(big)).toEqual(refusedFor(/took/));
        expect((await ship([voidOf(big.id, took, 1_000 * usd)])).status).toBe(200);
        expect(await given()).toEqual([99 * usd, 20]);
      }
      const [more] = await honest.lease([wish(spend(), 'day', 99 * usd)]);
      expect(more).toMatchObject({ granted: 0 });
    });
  });

  describe('a settled PERMIT is refused', () => {
    it.each([
      ['takes more money than its lease holds', (took: readonly number[]) => record(took, 11 * usd)],
      ['takes money of a lease of requests alone', ([, r = 0]: readonly number[]) => record([r], usd)],
      ['takes from nothing', () => record([], usd)],
      ['does not say what it takes from', () => record(undefined, usd)],
      ['names leases that nobody has', () => record([900_001, 900_002], usd)],
    ])('that %s', async (_what, make) => {
      const took = await lease(10 * usd, 2);
      const before = await given();
      expect(await permit(make(took))).toEqual(refusedFor(/took/));
      expect(await given()).toEqual(before);
    });

    it('that names leases of another holder, of whichever sidecar and account', async () => {
      const honest = await leaseHolder(api);
      const others = [
        honest,
        await leaseHolder(api, { key: foreignKey }),
        await leaseHolder(api, { key: foreignKey, sidecar: liar.sidecar }),
      ];
      for (const other of others) {
        const took = await lease(usd, 1, other);
        expect(await permit(record(took, usd))).toEqual(refusedFor(/took/));
      }
    });

    it('that names leases of another passport, of a gate, or of a window that it is not in', async () => {
      const own = await lease(10 * usd, 3);
      const first = passport;
      passport = await capped({ daily_usd: 100 }, { requests_per_day: 50 });
      expect(await permit(record(own, usd))).toEqual(refusedFor(/took/));
      passport = first;
      const gate = await api.createGate(
        { constraints: { trusted_issuers: ['*'], spend_limits: { daily_usd: 100 } } },
        foreignKey,
      );
      const [ofOtherGate] = await liar.lease([wish(ofGate('gate_spend', gate.gate_id), 'day', 5 * usd)]);
      expect(await permit(record([...own, ofOtherGate?.lease_id ?? 0], usd))).toEqual(refusedFor(/took/));
      passport = await capped({}, { requests_per_minute: 5 });
      const [minute] = await liar.lease([wish(rate(), 'minute', 5)]);
      api.advance(3 * minuteMs);
      expect(await permit(record([minute?.lease_id ?? 0], usd))).toEqual(refusedFor(/took/));
    });

    it('that names leases of another holder, which are not locked', async () => {
      const honest = await leaseHolder(api);
      const took = await lease(usd, 1, honest);
      const before = await given();
      await api.deps.sql.begin(async (tx) => {
        await tx`SELECT FROM quota_leases WHERE lease_id = ANY(${[...took]}::bigint[]) FOR UPDATE`;
        expect(await permit(record(took, usd))).toEqual(refusedFor(/took/));
        expect(await ship([record(took, usd)])).toMatchObject(refusedRecord(/took/));
        expect((await ship([voidOf(record(took, 0).id, took, usd)])).status).toBe(200);
      });
      expect(await given()).toEqual(before);
    });

    it('that comes after its units went back, in any way', async () => {
      const took = await lease(10 * usd, 2);
      await liar.lease([], [{ ...spend(), window: 'day', starts_at_ms: today(), units: 10 * usd }]);
      expect(await given()).toEqual([0, 2]);
      expect(await permit(record(took, usd))).toEqual(refusedFor(/took/));
      const again = await lease(10 * usd, 1);
      expect((await ship([voidOf(record(again, 0).id, again, 10 * usd)])).status).toBe(200);
      expect((await given())[0]).toBe(0);
      expect(await permit(record(again, usd))).toEqual(refusedFor(/took/));
    });

    it('that shares the last units with another one that is under way', async () => {
      const took = await lease(10 * usd, 5);
      const { first, second } = await api.deps.sql.begin(async (tx) => {
        // Both have looked at their leases, or wait to, before either is committed.
        await tx`
        INSERT INTO chains (chain_id, account_id, mode, sequence)
        SELECT passport_id, account_id, mode, 0 FROM passports WHERE passport_id = ${passport.passport_id}`;
        const wanted = { wanted_ms: 3_000 };
        const answers = {
          first: permit(record(took, 8 * usd), liar, wanted),
          second: permit(record(took, 8 * usd), liar, wanted),
        };
        await until(async () => (await waitingForLocks(api.deps.sql)) === 2, { what: 'both wait' });
        return answers;
      });
      const kinds = [(await first).kind, (await second).kind].sort();
      expect(kinds).toEqual(['committed', 'refused']);
      expect((await given())[0]).toBe(10 * usd);
    });
  });

  describe('units given back are bounded by the rest of the same lease:', () => {
    it('the void of a true PERMIT, whatever amount it claims, and once', async () => {
      const honest = await leaseHolder(api);
      await lease(50 * usd, 10, honest);
      const took = await lease(10 * usd, 2);
      const true_ = record(took, 3 * usd);
      expect(await permit(true_)).toEqual(committed);
      for (const _again of [1, 2]) await ship([voidOf(true_.id, took, 1_000 * usd)]);
      expect(await given()).toEqual([57 * usd, 11]);
      expect(await permit(true_)).toEqual({ kind: 'voided' });
    });

    it('a return of units that a PERMIT took', async () => {
      const took = await lease(10 * usd, 2);
      const true_ = record(took, 10 * usd);
      expect(await permit(true_)).toEqual(committed);
      await liar.lease(
        [],
        [
          { ...spend(), window: 'day', starts_at_ms: today(), units: 10 * usd },
          { ...rate(), window: 'day', starts_at_ms: today(), units: 2 },
        ],
      );
      expect(await given()).toEqual([10 * usd, 1]);
      await ship([voidOf(true_.id, took, 10 * usd)]);
      expect(await given()).toEqual([0, 0]);
    });

    it('the same once the posts were added up', async () => {
      const honest = await leaseHolder(api);
      await lease(50 * usd, 10, honest);
      const took = await lease(10 * usd, 2);
      const true_ = record(took, 10 * usd);
      expect(await permit(true_)).toEqual(committed);
      for (let call = 0; call < 40; call++) await liar.lease([]);
      await ship([voidOf(true_.id, took, 10 * usd)]);
      for (let call = 0; call < 40; call++) await liar.lease([]);
      await liar.lease([], [{ ...spend(), window: 'day', starts_at_ms: today(), units: 100 * usd }]);
      expect(await given()).toEqual([50 * usd, 11]);
    });

    it('the end of an epoch that says that a lease is unused which settlements and records used', async () => {
      const by = { epoch: liar.sidecar.epoch };
      const { body } = await liar.call([wish(spend(), 'day', 10 * usd), wish(rate(), 'day', 5)], [], by);
      const took: number[] = body.grants.map(({ lease_id }: { lease_id: number }) => lease_id);
      const settled = record(took, 4 * usd);
      expect(await permit(settled)).toEqual(committed);
      const shipped = record(took, 2 * usd, { request_hash: hashOf(2) });
      expect(
        (await ship([shipped], liar.sidecar, { end: { nothing_lost: true, torn_bytes: 0 } })).status,
      ).toBe(200);
      expect(await given()).toEqual([6 * usd, 2]);
      // The lease is gone: of it only what that PERMIT took can come back, and once.
      for (let times = 0; times < 2; times++) {
        await ship([voidOf(settled.id, took, 10 * usd)]);
        expect(await given()).toEqual([2 * usd, 1]);
      }
      await ship([voidOf(shipped.id, took, 10 * usd)]);
      expect(await given()).toEqual([2 * usd, 1]);
    });

    it('the end of an approval that holds what PERMITs used', async () => {
      const took = await lease(10 * usd, 2);
      const true_ = record(took, 10 * usd);
      expect(await permit(true_)).toEqual(committed);
      const suspend = suspendOf(10 * usd);
      expect(await settle(suspend)).toEqual(refusedFor(/held/));
      expect(await given()).toEqual([10 * usd, 2]);
    });
  });

  const suspendOf = (amount: number, change: object = {}) => ({
    kind: 'suspend',
    idempotency_key: null,
    request_hash: hashOf(7),
    approval_id: api.deps.random.newId('appr', api.deps.clock.now()),
    permission_key: 'orders:create',
    amount_micro_usd: amount,
    constraints_evaluated: [...evaluated, 'approval'],
    pii: [],
    expires_in_ms: 300_000,
    held: [{ ...spend(), window: 'day', starts_at_ms: today(), units: amount }],
    ...change,
  });

  describe('an approval', () => {
    it('holds money of each limit of the passport, or is refused', async () => {
      await lease(10 * usd, 2);
      expect(await settle(suspendOf(10 * usd, { held: [] }))).toEqual(refusedFor(/held/));
      expect(await settle(suspendOf(10 * usd))).toMatchObject({ kind: 'suspended', is_new: true });
    });

    it('pays for a PERMIT of its amount alone', async () => {
      const [, request = 0] = await lease(10 * usd, 3);
      const suspend = suspendOf(usd);
      expect(await settle(suspend)).toMatchObject({ kind: 'suspended', is_new: true });
      const approved = await api.call({
        url: `/v1/approvals/${suspend.approval_id}/approve`,
        key: foreignKey,
        body: {},
      });
      expect(approved.status).toBe(200);
      const use = (amount: number) =>
        permit(record([request], amount, { request_hash: hashOf(7) }), liar, {
          approval_id: suspend.approval_id,
          idempotency_key: null,
          request_hash: hashOf(7),
        });
      expect(await use(1_000 * usd)).toMatchObject({ kind: 'approval', standing: 'mismatch' });
      expect(await use(usd)).toEqual(committed);
    });
  });

  describe('a record of a PERMIT that was not settled is refused', () => {
    it.each([
      ['takes more money than its lease holds', (took: readonly number[]) => record(took, 11 * usd)],
      ['takes from nothing', () => record([], usd)],
      ['does not say what it takes from', () => record(undefined, usd)],
      ['takes money from nothing', ([, r = 0]: readonly number[]) => record([r], usd)],
    ])('that %s', async (_what, make) => {
      const took = await lease(10 * usd, 2);
      expect(await ship([make(took)])).toMatchObject(refusedRecord(/took/));
      expect(await given()).toEqual([10 * usd, 2]);
    });

    it('that names leases of another holder or another passport', async () => {
      const honest = await leaseHolder(api);
      expect(await ship([record(await lease(usd, 1, honest), usd)])).toMatchObject(refusedRecord(/took/));
      const own = await lease(usd, 1);
      passport = await capped({}, { requests_per_day: 5 });
      expect(await ship([record(own, usd)])).toMatchObject(refusedRecord(/took/));
    });

    it('with those before it in its batch, and with the units of settlements', async () => {
      const took = await lease(10 * usd, 5);
      expect(await permit(record(took, 4 * usd))).toEqual(committed);
      const records = [1, 2, 3].map((n) => record(took, 3 * usd, { request_hash: hashOf(n) }));
      expect(await ship(records)).toMatchObject(refusedRecord(/took/));
      expect((await ship(records.slice(0, 2))).status).toBe(200);
      expect(await ship([record(took, 1, { request_hash: hashOf(4) })])).toMatchObject(refusedRecord(/took/));
    });

    it('beside the void of its own units', async () => {
      const took = await lease(3 * usd, 2);
      const batch = [voidOf(record(took, 0).id, took, 3 * usd), record(took, 3 * usd)];
      expect(await ship(batch)).toMatchObject(refusedRecord(/took/));
      expect(await ship(batch.toReversed())).toMatchObject(refusedRecord(/took/));
    });
  });

  describe('an honest sidecar is not refused', () => {
    it('for records that come when their lease is gone, or its window has just ended', async () => {
      const took = await lease(10 * usd, 5);
      await predatePassport(api, passport.passport_id, 2 * dayMs);
      const late = record(took, 2 * usd);
      const later = record(took, 2 * usd, { request_hash: hashOf(2) });
      const nowMs = api.deps.clock.now();
      api.advance(windowAt('day', nowMs).endsAtMs - nowMs + minuteMs);
      expect((await ship([late])).status).toBe(200);
      api.advance(2 * hourMs);
      await api.deps.sql`DELETE FROM quota_leases WHERE lease_id = ANY(${[...took]}::bigint[])`;
      expect((await ship([later])).status).toBe(200);
      goToNoon(api);
    });

    it('for a record whose lease number now belongs to another holder', async () => {
      await predatePassport(api, passport.passport_id, hourMs);
      const old = record([], usd, { timestamp_ms: api.deps.clock.now() - 10 * minuteMs });
      const honest = await leaseHolder(api);
      const took = await lease(usd, 1, honest);
      expect((await ship([{ ...old, took }])).status).toBe(200);
      expect(await given()).toEqual([usd, 1]);
    });

    it('for a decision in the last moment of a window, by a clock that is a little ahead', async () => {
      passport = await capped({}, { requests_per_minute: 5 });
      // The middle of a minute: at its first moments the record would be more than a minute ahead.
      api.advance(windowAt('minute', api.deps.clock.now()).endsAtMs + minuteMs / 2 - api.deps.clock.now());
      const nowMs = api.deps.clock.now();
      const [minute] = await liar.lease([wish(rate(), 'minute', 5)]);
      const took = [minute?.lease_id ?? 0];
      const ahead = windowAt('minute', nowMs).endsAtMs + 400;
      expect((await ship([record(took, 0, { timestamp_ms: ahead })])).status).toBe(200);
    });

    it('for each unit that it was leased, to the last', async () => {
      const took = await lease(10 * usd, 4);
      expect(await permit(record(took, 4 * usd))).toEqual(committed);
      const voided = record(took, usd);
      expect(
        (
          await ship([
            record(took, 3 * usd, { request_hash: hashOf(2) }),
            voidOf(voided.id, took, usd),
            record(took, 2 * usd, { request_hash: hashOf(3) }),
          ])
        ).status,
      ).toBe(200);
      expect(await given()).toEqual([9 * usd, 3]);
    });
  });
});
