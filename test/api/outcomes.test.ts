import { beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type AskedChange, changePermits } from '../../control-plane/outcomes/change-permits.ts';
import { expireHolds } from '../../control-plane/outcomes/expire-holds.ts';
import type { AttestationId } from '../../shared/model/ids.ts';
import type { MicroUsd } from '../../shared/model/money.ts';
import { dayMs, hourMs } from '../../shared/model/time.ts';
import { replayText } from '../support/data/replay.ts';
import { type Reply, startOwnApi } from '../support/service/api.ts';
import { goToNoon } from '../support/service/approvals.ts';
import { expectError } from '../support/service/expect-error.ts';
import { exportText } from '../support/service/exports.ts';
import { approveAhead, endStanding, givenOf } from '../support/service/standing-approvals.ts';
import { useApi } from '../support/service/use-api.ts';
import { voidPermit } from '../support/service/void-permit.ts';

const api = useApi(startOwnApi);
beforeAll(async () => {
  goToNoon(api);
  api.stopClock();
});

type Shop = Awaited<ReturnType<typeof open>>;
const open = async (constraints: object = {}, passport: object = {}) => {
  const gate = await api.createGate({
    constraints: { spend_limits: { daily_usd: 100, monthly_usd: 1_000 }, ...constraints },
  });
  const { jwt, passport_id } = await api.issuePassport({ permissions: ['orders:create'], ...passport });
  return { gateId: gate.gate_id, jwt, passportId: passport_id };
};
const check = async ({ gateId, jwt }: Shop, asked: object = {}): Promise<Reply['body']> => {
  const request = { permission_key: 'orders:create', amount: 10, ...asked };
  return (await api.call({ url: `/v1/gates/${gateId}/check`, body: { passport: jwt, request } })).body;
};
const hold = async (shop: Shop, request: object = {}): Promise<string> => {
  const body = await check(shop, { hold: true, ...request });
  expect(body).toMatchObject({ decision: 'PERMIT' });
  return body.attestation_id;
};
const post = (id: string, path: string, body: object, key = api.adminKey) =>
  api.call({ url: `/v1/attestations/${id}/${path}`, body, key });
const report = (id: string, body: object, key = api.adminKey) => post(id, 'outcome', body, key);
/** What windows of the gate have given out, in dollars. */
const used = async ({ gateId }: Shop): Promise<readonly number[]> => {
  const rows = await api.deps.sql<{ leased: number }[]>`
    SELECT leased FROM quota_windows WHERE counter = ${`gate_spend:${gateId}`} ORDER BY window_name`;
  return rows.map(({ leased }) => leased / 1e6);
};
const chainOf = async ({ passportId }: Shop): Promise<readonly Reply['body'][]> =>
  (await api.call({ url: `/v1/attestations?passport_id=${passportId}` })).body.attestations;

describe('a held PERMIT', () => {
  it('names its hold, in its answer and on record', async () => {
    const shop = await open();
    const at = api.deps.clock.now();
    const byGate = await check(await open({ holds: { expires_in_s: 120 } }), { hold: true });
    expect(Date.parse(byGate.hold.expires_at) - at).toBe(120_000);
    expect(Date.parse((await check(await open(), { hold: true })).hold.expires_at) - at).toBe(hourMs);
    const body = await check(shop, { hold: { expires_in_s: 600 } });
    expect(body.hold).toEqual({
      amount_usd: 10,
      expires_at: new Date(api.deps.clock.now() + 600_000).toISOString(),
    });
    const [record] = await chainOf(shop);
    expect(record).toMatchObject({ resolution: null, hold_expires_at: body.hold.expires_at });
    expect(await used(shop)).toEqual([10, 10]);
  });

  it('needs an amount, a gate and a sound form', async () => {
    const shop = await open();
    const unpriced = await open({ spend_limits: { unpriced: 'permit' } });
    expect(await check(unpriced, { amount: null, hold: true })).toMatchObject({ reason: 'amount_missing' });
    const body = { passport: shop.jwt, request: { amount: 1, hold: true } };
    expectError(await api.call({ url: '/v1/enforce', body }), 'invalid_request', 'request.hold');
    for (const bad of ['true', 1, [], { expires_in_s: 59 }, { expires_in_s: 604_801 }, { until: 1 }])
      expect((await check(shop, { hold: bad })).error).toMatchObject({ code: 'invalid_request' });
    expect(await used(shop)).toEqual([]);
  });

  it.each<[string, (id: string) => Promise<unknown>, number]>([
    ['nothing', async () => null, 6],
    ['a part', (id) => report(id, { outcome: 'served', amount: 1 }), 1],
    ['nothing served', (id) => report(id, { outcome: 'failed' }), 0],
    ['later', (id) => post(id, 'hold/extend', { expires_in_s: 7_200 }), 6],
    [
      'a refund',
      async (id) => [await report(id, { outcome: 'served' }), await post(id, 'refund', { amount: 5 })],
      1,
    ],
  ])('is answered with its hold again under its key, whatever it came to: %s', async (_, end, left) => {
    const shop = await open({ spend_limits: { daily_usd: 10 } });
    const once = { hold: true, idempotency_key: 'once', amount: 6 };
    const first = await check(shop, once);
    await end(first.attestation_id);
    expect(await check(shop, once)).toEqual(first);
    const url = `/v1/gates/${shop.gateId}/check/batch`;
    const request = { permission_key: 'orders:create', ...once };
    const copies = [0, 1].map(() => ({ passport: shop.jwt, request }));
    expect((await api.call({ url, body: { checks: copies } })).body.results).toEqual([first, first]);
    expect(await used(shop)).toEqual([left]);
  });
});

describe('POST /attestations/:id/outcome', () => {
  it.each<[{ outcome: string; amount?: number; detail?: string }, string, number]>([
    [{ outcome: 'served', amount: 3.25, detail: '650 tokens' }, 'settled', 3.25],
    [{ outcome: 'served' }, 'settled', 10],
    [{ outcome: 'failed' }, 'released', 0],
  ])('settles what it came to, and gives the rest back: %j', async (outcome, status, counts) => {
    const shop = await open();
    const id = await hold(shop);
    const reply = await report(id, outcome);
    expect(reply).toMatchObject({
      status: 200,
      body: {
        ...{ attestation_id: id, outcome: outcome.outcome, detail: outcome.detail ?? null },
        ...{ hold: { status, amount_usd: 10 }, counts_usd: counts, refunded_usd: 0 },
      },
    });
    expect(await used(shop)).toEqual([counts, counts]);
    const [record] = await chainOf(shop);
    expect(record).toMatchObject({
      ...{ id: reply.body.record_id, decision: 'PERMIT', resolution: status, refers_to: id },
      ...{ amount_micro_usd: counts * 1e6, hold_expires_at: null },
    });
  });

  it('makes room for what follows, and never more', async () => {
    const shop = await open({ spend_limits: { daily_usd: 10 } });
    const id = await hold(shop);
    expect((await check(shop, { amount: 6 })).reason).toBe('spend_limit_exceeded');
    await report(id, { outcome: 'served', amount: 4 });
    expect((await check(shop, { amount: 6.01 })).reason).toBe('spend_limit_exceeded');
    expect((await check(shop, { amount: 6 })).decision).toBe('PERMIT');
  });

  it('answers the first outcome again, and refuses another', async () => {
    const shop = await open();
    const id = await hold(shop);
    const first = await report(id, { outcome: 'served', amount: 4 });
    expect((await report(id, { outcome: 'served', amount: 4 })).body).toEqual(first.body);
    for (const other of [{ outcome: 'failed' }, { outcome: 'served', amount: 5 }, { outcome: 'served' }])
      expectError(await report(id, other), 'outcome_conflict');
    expect(await used(shop)).toEqual([4, 4]);
    expect(await chainOf(shop)).toHaveLength(2);
  });

  it('refuses more than is held, and leaves the hold open', async () => {
    const shop = await open();
    const id = await hold(shop);
    expectError(await report(id, { outcome: 'served', amount: 10.01 }), 'amount_exceeds_hold');
    expectError(await post(id, 'refund', {}), 'outcome_conflict');
    expect(await used(shop)).toEqual([10, 10]);
    expect((await report(id, { outcome: 'served', amount: 10 })).status).toBe(200);
  });

  it('charges what is beyond the hold where the gate says so and limits have room', async () => {
    const shop = await open({ holds: { overrun: 'charge' }, spend_limits: { daily_usd: 15 } });
    const id = await hold(shop);
    expectError(await report(id, { outcome: 'served', amount: 15.01 }), 'spend_limit_exceeded');
    expect(await used(shop)).toEqual([10]);
    expect((await report(id, { outcome: 'served', amount: 15 })).body.counts_usd).toBe(15);
    expect(await used(shop)).toEqual([15]);
    expect((await post(id, 'refund', { amount: 7 })).body.counts_usd).toBe(8);
    expect(await used(shop)).toEqual([8]);
    await post(id, 'refund', {});
    expect(await used(shop)).toEqual([0]);
  });

  it('gives an overrun back once, where two refunds come together', async () => {
    const shop = await open({ holds: { overrun: 'charge' }, spend_limits: { daily_usd: 100 } });
    const id = await hold(shop, { hold: { expires_in_s: 172_800 } });
    api.advance(dayMs);
    await report(id, { outcome: 'served', amount: 15 });
    const refund = (usd: number): AskedChange => ({
      ...{ attestationId: id as AttestationId, owner: null, source: 'control-plane' },
      change: { kind: 'refund', amountMicroUsd: (usd * 1e6) as MicroUsd },
    });
    await api.deps.sql.begin((tx) =>
      changePermits(tx, api.deps, [refund(5), refund(2)], api.deps.clock.now()),
    );
    await check(shop);
    expect((await post(id, 'refund', {})).body.counts_usd).toBe(0);
    const [today] = await api.deps.sql`
      SELECT leased FROM quota_windows WHERE counter = ${`gate_spend:${shop.gateId}`} ORDER BY starts_at_ms DESC LIMIT 1`;
    expect(today).toEqual({ leased: 10_000_000 });
  });

  it('leaves nothing with its approval where it is voided after a part went back', async () => {
    const shop = await open({ approvals: { above_usd: 5 } });
    const { approval_id } = await check(shop, { hold: true });
    await api.call({ url: `/v1/approvals/${approval_id}/approve`, body: {} });
    const id = await hold(shop, { approval_id });
    await report(id, { outcome: 'served', amount: 4 });
    await voidPermit(api, id);
    expect(await used(shop)).toEqual([0, 0]);
  });

  const charging = { holds: { overrun: 'charge' } };
  const above5 = { approvals: { above_usd: 5 } };
  it.each<[string, object, object]>([
    ['per_transaction_usd of the gate', { spend_limits: { per_transaction_usd: 5 } }, {}],
    ['per_transaction_usd of the passport', {}, { spend_limits: { per_transaction_usd: 5 } }],
    ['above_usd of the gate', above5, {}],
    ['above_usd of the passport', {}, above5],
  ])('charges no more than a request of that amount would pass with: %s', async (_, ofGate, ofPassport) => {
    const shop = await open({ ...charging, ...ofGate }, { constraints: ofPassport });
    const id = await hold(shop, { amount: 4 });
    expectError(await report(id, { outcome: 'served', amount: 5.000001 }), 'spend_limit_exceeded');
    expect((await api.call({ url: `/v1/attestations/${id}/outcome` })).body.hold.status).toBe('open');
    expect((await report(id, { outcome: 'served', amount: 5 })).body.counts_usd).toBe(5);
  });

  it('charges nothing beyond what a person approved, at whatever rule', async () => {
    for (const rule of [{ above_usd: 5 }, { permissions: ['orders:create'] }]) {
      const shop = await open({ ...charging, approvals: rule });
      const { approval_id } = await check(shop, { hold: true });
      await api.call({ url: `/v1/approvals/${approval_id}/approve`, body: {} });
      const id = await hold(shop, { approval_id });
      expectError(await report(id, { outcome: 'served', amount: 10.000001 }), 'spend_limit_exceeded');
      expect((await report(id, { outcome: 'served', amount: 10 })).body.counts_usd).toBe(10);
    }
  });

  it.each([
    ['PUT', '', { constraints: { approvals: { permissions: ['orders:*'] } } }],
    ['POST', '/catalog', { permissions: [{ key: 'orders:create', requires_approval: true }] }],
  ] as const)('charges no more where a person is asked by now: %s%s', async (method, path, body) => {
    const shop = await open(charging);
    const id = await hold(shop);
    const changed = await api.call({ method, url: `/v1/gates/${shop.gateId}${path}`, body });
    expect(changed.status).toBeLessThan(300);
    expectError(await report(id, { outcome: 'served', amount: 11 }), 'spend_limit_exceeded');
    expect((await report(id, { outcome: 'served', amount: 10 })).status).toBe(200);
  });

  it('charges each_usd of a standing approval at most, and nothing once that has ended', async () => {
    const shop = await open({ ...charging, ...above5 });
    const ahead = { gate_id: shop.gateId, passport_id: shop.passportId, each_usd: 10, total_usd: 30 };
    const { standing_approval_id: standing } = await approveAhead(api, ahead);
    const [first, second] = [await hold(shop), await hold(shop, { amount: 8 })];
    expectError(await report(first, { outcome: 'served', amount: 10.000001 }), 'spend_limit_exceeded');
    expect((await report(second, { outcome: 'served', amount: 10 })).body.counts_usd).toBe(10);
    expect(await givenOf(api, standing)).toBe(20e6);
    for (const end of [() => endStanding(api, standing), () => api.advance(hourMs)]) {
      const next = await approveAhead(api, ahead);
      const id = await hold(shop, { amount: 6 });
      await end();
      await endStanding(api, next.standing_approval_id);
      expectError(await report(id, { outcome: 'served', amount: 7 }), 'spend_limit_exceeded');
      expect((await report(id, { outcome: 'served', amount: 6 })).status).toBe(200);
    }
  });

  it('never takes more than is held from the passport of another account', async () => {
    const { key } = await api.createAccount();
    const issuer = await api.createIssuer({}, key);
    const foreign = await api.issuePassport({ permissions: ['orders:create'] }, key);
    const shop = await open({
      holds: { overrun: 'charge' },
      trusted_issuers: [foreign.issuer_id ?? issuer.issuer_id],
    });
    const id = await hold({ ...shop, jwt: foreign.jwt });
    expectError(await report(id, { outcome: 'served', amount: 11 }), 'amount_exceeds_hold');
    // Its owner does not report for the gate.
    expectError(await report(id, { outcome: 'failed' }, key), 'attestation_not_found');
    expect(await used(shop)).toEqual([10, 10]);
  });

  it('is recorded for a PERMIT that was not held, and moves nothing', async () => {
    const shop = await open();
    const { attestation_id: id } = await check(shop);
    const { body } = await report(id, { outcome: 'failed', detail: 'timed out' });
    expect(body).toMatchObject({ outcome: 'failed', hold: null, counts_usd: 10 });
    expect(await used(shop)).toEqual([10, 10]);
    expect(await chainOf(shop)).toMatchObject([{ resolution: 'reported', amount_micro_usd: 10_000_000 }, {}]);
  });

  it('gives back what passport and gate have counted', async () => {
    const shop = await open({}, { constraints: { spend_limits: { daily_usd: 50 } } });
    await report(await hold(shop), { outcome: 'served', amount: 1 });
    const [row] = await api.deps.sql<{ leased: number }[]>`
      SELECT leased FROM quota_windows WHERE counter = ${`passport_spend:${shop.passportId}`}`;
    expect(row?.leased).toBe(1_000_000);
  });

  it('gives nothing back into windows that came later', async () => {
    const shop = await open({ spend_limits: { daily_usd: 100 }, holds: { expires_in_s: 172_800 } });
    const id = await hold(shop);
    api.advance(24 * hourMs);
    await check(shop, { amount: 5 });
    await report(id, { outcome: 'failed' });
    const rows = await api.deps.sql<{ leased: number }[]>`
      SELECT leased FROM quota_windows WHERE counter = ${`gate_spend:${shop.gateId}`} ORDER BY starts_at_ms`;
    expect(rows.map(({ leased }) => leased / 1e6)).toEqual([10, 5]);
  });

  it('takes only PERMITs of the gates of the caller', async () => {
    const shop = await open();
    const id = await hold(shop);
    const blocked = (await check(shop, { amount: 1e9 })).attestation_id;
    expectError(await report(blocked, { outcome: 'served' }), 'outcome_conflict');
    const test = { passport_token: shop.jwt, context: { permission_key: 'orders:create', amount: 1 } };
    const tested = await api.call({ url: `/v1/gates/${shop.gateId}/test`, body: test });
    expectError(await report(tested.body.attestation_id, { outcome: 'served' }), 'outcome_conflict');
    const { key } = await api.createAccount();
    expectError(await report(id, { outcome: 'served' }, key), 'attestation_not_found');
    const unknown = api.deps.random.newId('att', api.deps.clock.now());
    expectError(await report(unknown, { outcome: 'served' }), 'attestation_not_found');
    expectError(await report('att_1', { outcome: 'served' }), 'attestation_not_found');
    const { body } = await report(id, { outcome: 'served', amount: 9 });
    expectError(await report(body.record_id, { outcome: 'served' }), 'outcome_conflict');
    expect(await used(shop)).toEqual([9, 9]);
  });

  it('refuses what is no outcome', async () => {
    const shop = await open();
    const id = await hold(shop);
    for (const [body, param] of [
      [{ outcome: 'served', amount: -1 }, 'amount'],
      [{ outcome: 'served', amount: 0.1234567 }, 'amount'],
      [{ outcome: 'failed', amount: 3 }, 'amount'],
      [{ outcome: 'done' }, 'outcome'],
      [{ outcome: 'served', detail: 'x'.repeat(501) }, 'detail'],
    ] as const)
      expectError(await report(id, body), 'invalid_request', param);
    expect(await used(shop)).toEqual([10, 10]);
  });
});

it('an approved PERMIT gives money back into the window that its approval held it in', async () => {
  const shop = await open({ approvals: { above_usd: 5 } });
  const waiting = await check(shop, { hold: true });
  expect(waiting.decision).toBe('SUSPEND');
  await api.call({ url: `/v1/approvals/${waiting.approval_id}/approve`, body: {} });
  const id = await hold(shop, { approval_id: waiting.approval_id });
  expect(await used(shop)).toEqual([10, 10]);
  await report(id, { outcome: 'served', amount: 2 });
  expect(await used(shop)).toEqual([2, 2]);
});

it('POST /attestations/:id/hold/extend ends the hold later, and at most 30 days after the decision', async () => {
  const shop = await open();
  const id = await hold(shop);
  const { body } = await post(id, 'hold/extend', { expires_in_s: 7_200 });
  expect(Date.parse(body.hold.expires_at)).toBe(api.deps.clock.now() + 2 * hourMs);
  expect(await chainOf(shop)).toMatchObject([
    { resolution: 'extended', amount_micro_usd: 10_000_000, hold_expires_at: body.hold.expires_at },
    {},
  ]);
  api.advance(1.5 * hourMs);
  while ((await expireHolds(api.deps)) > 0);
  expect((await api.call({ url: `/v1/attestations/${id}/outcome` })).body.hold.status).toBe('open');
  // It lasts longer than that already.
  const earlier = await post(id, 'hold/extend', { expires_in_s: 60 });
  expect(earlier).toMatchObject({ status: 200, body: { hold: body.hold, record_id: body.record_id } });
  expect(await chainOf(shop)).toHaveLength(2);
  for (let day = 0; day < 4; day++) {
    await post(id, 'hold/extend', { expires_in_s: 604_800 });
    api.advance(6 * 24 * hourMs);
  }
  expectError(await post(id, 'hold/extend', { expires_in_s: 604_800 }), 'invalid_request');
});

describe('POST /attestations/:id/refund', () => {
  it('refunds what counts, in parts, and never more', async () => {
    const shop = await open();
    const { attestation_id: id } = await check(shop);
    expect((await post(id, 'refund', { amount: 4, reason: 'returned' })).body).toMatchObject({
      ...{ counts_usd: 6, refunded_usd: 4, hold: null },
    });
    expect(await used(shop)).toEqual([6, 6]);
    expectError(await post(id, 'refund', { amount: 6.01 }), 'amount_exceeds_hold');
    expect((await post(id, 'refund', {})).body.counts_usd).toBe(0);
    expect(await used(shop)).toEqual([0, 0]);
    for (const nothing of [{}, { amount: 1 }])
      expectError(await post(id, 'refund', nothing), 'amount_exceeds_hold');
    const priceless = await open({ spend_limits: { unpriced: 'permit' } });
    for (const amount of [0, null]) {
      const free = await check(priceless, { amount });
      expectError(await post(free.attestation_id, 'refund', {}), 'amount_exceeds_hold');
    }
    expect(
      (await chainOf(shop)).map(({ resolution, amount_micro_usd: amount }) => [resolution, amount]),
    ).toEqual([
      ['refunded', 0],
      ['refunded', 6_000_000],
      [null, 10_000_000],
    ]);
  });

  it('refunds once under an idempotency key', async () => {
    const shop = await open();
    const { attestation_id: id } = await check(shop);
    const headers = { 'idempotency-key': `refund-${id}` };
    const call = () => api.call({ url: `/v1/attestations/${id}/refund`, body: { amount: 3 }, headers });
    const [one, other] = await Promise.all([call(), call()]);
    expect([one.status, other.status]).toEqual([201, 201]);
    expect(one.body).toEqual(other.body);
    expect(await used(shop)).toEqual([7, 7]);
  });
});

describe('a hold without an outcome', () => {
  beforeEach(async () => {
    // Those of the tests before.
    api.advance(31 * dayMs);
    while ((await expireHolds(api.deps)) > 0);
    goToNoon(api);
  });

  it('counts as spent from its end on', async () => {
    const shop = await open();
    const id = await hold(shop);
    api.advance(hourMs - 1);
    expect(await expireHolds(api.deps)).toBe(0);
    api.advance(1);
    expect(await expireHolds(api.deps)).toBe(1);
    expect(await used(shop)).toEqual([10, 10]);
    expect(await chainOf(shop)).toMatchObject([{ resolution: 'expired', amount_micro_usd: 10_000_000 }, {}]);
    expectError(await report(id, { outcome: 'failed' }), 'outcome_conflict');
    expect((await post(id, 'refund', { amount: 2 })).body.counts_usd).toBe(8);
  });

  it('ends once, however many replicas look', async () => {
    const shop = await open({ holds: { on_expiry: 'release' } });
    for (let n = 0; n < 5; n++) await hold(shop);
    api.advance(hourMs);
    const ended = await Promise.all([1, 2, 3, 4].map(() => expireHolds(api.deps)));
    expect(ended.reduce((sum, each) => sum + each)).toBe(5);
    expect(await used(shop)).toEqual([0, 0]);
    const chain = await chainOf(shop);
    expect(chain).toHaveLength(10);
    expect(chain[0]).toMatchObject({ resolution: 'expired', amount_micro_usd: 0 });
  });
});

it('GET /holds lists holds by their status, newest first, of the own gates', async () => {
  const { key } = await api.createAccount();
  const gate = await api.createGate({}, key);
  const { jwt } = await api.issuePassport({ permissions: ['orders:create'] }, key);
  const ids: string[] = [];
  for (let n = 0; n < 3; n++) {
    const body = { passport: jwt, request: { permission_key: 'orders:create', amount: n, hold: true } };
    const permit = await api.call({ url: `/v1/gates/${gate.gate_id}/check`, body, key });
    ids.unshift(permit.body.attestation_id);
    api.advance(1);
  }
  await report(ids[1] ?? '', { outcome: 'failed' }, key);
  const list = async (query: string, as = key) =>
    (await api.call({ url: `/v1/holds${query}`, key: as })).body.items.map(
      (each: { attestation_id: string }) => each.attestation_id,
    );
  expect(await list('')).toEqual(ids);
  expect(await list('?status=open')).toEqual([ids[0], ids[2]]);
  expect(await list('?status=released')).toEqual([ids[1]]);
  expect(await list('?status=settled')).toEqual([]);
  expect(await list(`?gate_id=${gate.gate_id}&status=expired`)).toEqual([]);
  const { key: other } = await api.createAccount();
  expect(await list('', other)).toEqual([]);
});

it('GET /attestations?outcome= finds PERMITs by their outcome, and those without one', async () => {
  const shop = await open();
  const ids = [await hold(shop), await hold(shop), (await check(shop)).attestation_id];
  await report(ids[0] ?? '', { outcome: 'served' });
  await report(ids[1] ?? '', { outcome: 'failed' });
  const list = async (outcome: string) =>
    (
      await api.call({ url: `/v1/attestations?passport_id=${shop.passportId}&outcome=${outcome}` })
    ).body.attestations.map(({ id }: { id: string }) => id);
  expect(await list('served')).toEqual([ids[0]]);
  expect(await list('failed')).toEqual([ids[1]]);
  expect(await list('missing')).toEqual([ids[2]]);
});

describe('a voided PERMIT', () => {
  it('gives back what it still counts, and takes no outcome', async () => {
    const shop = await open();
    await check(shop, { amount: 50 });
    const { attestation_id: id } = await check(shop);
    await post(id, 'refund', { amount: 4 });
    await voidPermit(api, id);
    expect(await used(shop)).toEqual([50, 50]);
    for (const path of ['outcome', 'refund'])
      expectError(await post(id, path, path === 'outcome' ? { outcome: 'served' } : {}), 'outcome_conflict');
    expect(await used(shop)).toEqual([50, 50]);
  });

  it('ends its hold', async () => {
    const shop = await open();
    const id = await hold(shop);
    await voidPermit(api, id);
    expect(await used(shop)).toEqual([0, 0]);
    const { body } = await api.call({ url: `/v1/attestations/${id}/outcome` });
    expect(body).toMatchObject({ hold: { status: 'released' }, counts_usd: 0 });
  });
});

describe('a gate', () => {
  it('counts no outcome as a decision', async () => {
    const shop = await open();
    const id = await hold(shop);
    await report(id, { outcome: 'served', amount: 1 });
    await post(id, 'refund', {});
    expect((await api.call({ url: `/v1/gates/${shop.gateId}` })).body.stats.total_requests).toBe(1);
    expect((await api.call({ url: `/v1/passports/${shop.passportId}` })).body.use_count).toBe(1);
  });

  it('leaves records that give the same decisions, and pass no limit', async () => {
    const { contradictions, over_limits: overLimits, decisions } = replayText(await exportText(api));
    expect([contradictions, overLimits]).toEqual([[], []]);
    expect(decisions.PERMIT.agrees).toBeGreaterThan(20);
  });
});
