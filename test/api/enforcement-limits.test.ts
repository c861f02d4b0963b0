import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { dayMs, hourMs, minuteMs } from '../../shared/model/time.ts';
import { type WindowName, windowAt } from '../../shared/quota/window.ts';
import { type Api, type Reply, startApi } from '../support/api.ts';
import { goToNoon } from '../support/approvals.ts';
import { expectError } from '../support/expect-error.ts';
import { type SecondControlPlane, secondControlPlane } from '../support/second-control-plane.ts';
import { expectSoundStore } from '../support/test-sidecar.ts';

let api: Api;
let other: SecondControlPlane;
beforeAll(async () => {
  api = await startApi();
  other = await secondControlPlane(api);
  goToNoon(api);
});
afterAll(async () => {
  await other.close();
  await api.close();
});

const order = { permission_key: 'orders:create' };
const check = (gateId: string, passport: string, request: object = order): Promise<Reply> =>
  api.call({ url: `/v1/gates/${gateId}/check`, body: { passport, request } });
const gateWith = async (constraints: object, rest: object = {}): Promise<string> =>
  (await api.createGate({ constraints, ...rest })).gate_id;
const passportWith = async (constraints: object = {}): Promise<{ jwt: string; id: string }> => {
  const { jwt, passport_id: id } = await api.issuePassport({ constraints });
  return { jwt, id };
};
const expectOutcomes = async (replies: readonly Promise<Reply>[], wanted: object[]) =>
  expect((await Promise.all(replies)).map(({ body }) => body)).toMatchObject(wanted);

/** Units given out in the current window; null: there is no row for it. */
async function usedOf(counter: string, window: WindowName): Promise<number | null> {
  const { startsAtMs } = windowAt(window, api.deps.clock.now());
  const [row] = await api.deps.sql<{ leased: number }[]>`
    SELECT leased FROM quota_windows
    WHERE counter = ${counter} AND window_name = ${window} AND starts_at_ms = ${startsAtMs}`;
  return row?.leased ?? null;
}

/** To the first moments of the next window, so that it does not end in the middle of a test. */
const toNext = (window: WindowName) => {
  const nowMs = api.deps.clock.now();
  api.advance(windowAt(window, nowMs).endsAtMs - nowMs);
};
const endOf = (window: WindowName) => new Date(windowAt(window, api.deps.clock.now()).endsAtMs).toISOString();

const decisions = (replies: readonly Reply[]): Record<string, number> => {
  const counts: Record<string, number> = {};
  for (const { body } of replies) {
    const word = body.reason ?? body.decision ?? body.error.code;
    counts[word] = (counts[word] ?? 0) + 1;
  }
  return counts;
};

describe('a rate limit', () => {
  it('permits exactly its number, and reports how it was missed', async () => {
    toNext('minute');
    const gateId = await gateWith({ rate_limits: { requests_per_minute: 2 } });
    const { jwt } = await passportWith();
    for (let count = 0; count < 2; count++) {
      expect((await check(gateId, jwt)).body).toMatchObject({
        decision: 'PERMIT',
        constraints_evaluated: ['passport', 'trust_level', 'issuer', 'permission', 'rate_limit'],
      });
    }
    const { body } = await check(gateId, jwt);
    expect(body).toMatchObject({
      decision: 'BLOCK',
      reason: 'rate_limit_exceeded',
      attestation_id: expect.stringMatching(/^att_/),
      limit: 2,
      used: 2,
      requested: 1,
      reset_at: endOf('minute'),
      retry: { retryable: true, after_ms: expect.any(Number) },
    });
    expect(body.retry.after_ms).toBeGreaterThan(0);
    expect(body.retry.after_ms).toBeLessThanOrEqual(minuteMs);
    expect(await usedOf(`gate_rate:${gateId}`, 'minute')).toBe(2);
  });

  it('begins anew with the window', async () => {
    toNext('minute');
    const gateId = await gateWith({ rate_limits: { requests_per_minute: 1, requests_per_hour: 2 } });
    const { jwt } = await passportWith();
    await expectOutcomes([check(gateId, jwt)], [{ decision: 'PERMIT' }]);
    await expectOutcomes([check(gateId, jwt)], [{ reason: 'rate_limit_exceeded', limit: 1 }]);
    toNext('minute');
    await expectOutcomes([check(gateId, jwt)], [{ decision: 'PERMIT' }]);
    toNext('minute');
    // The minute is free; the hour is not, unless it has ended with that minute.
    if ((await usedOf(`gate_rate:${gateId}`, 'hour')) === 2) {
      await expectOutcomes(
        [check(gateId, jwt)],
        [{ reason: 'rate_limit_exceeded', limit: 2, reset_at: endOf('hour') }],
      );
    }
    api.advance(hourMs);
    await expectOutcomes([check(gateId, jwt)], [{ decision: 'PERMIT' }]);
  });

  it('of 0 lets nothing pass, and no waiting helps', async () => {
    const gateId = await gateWith({ rate_limits: { requests_per_day: 0 } });
    const { jwt } = await passportWith();
    expect((await check(gateId, jwt)).body).toMatchObject({
      reason: 'rate_limit_exceeded',
      limit: 0,
      reset_at: null,
      retry: { retryable: false },
    });
  });

  it('per gate counts all passports together, per passport each for itself', async () => {
    const shared = await gateWith({ rate_limits: { requests_per_day: 1 } });
    const single = await gateWith({ rate_limits: { requests_per_day: 1, per: 'passport' } });
    const [one, two] = [await passportWith(), await passportWith()];
    expect((await check(shared, one.jwt)).body.decision).toBe('PERMIT');
    expect((await check(shared, two.jwt)).body.reason).toBe('rate_limit_exceeded');
    expect((await check(single, one.jwt)).body.decision).toBe('PERMIT');
    expect((await check(single, two.jwt)).body.decision).toBe('PERMIT');
    expect((await check(single, two.jwt)).body.reason).toBe('rate_limit_exceeded');
    expect(await usedOf(`gate_rate:${single}:${one.id}`, 'day')).toBe(1);
    expect(await usedOf(`gate_rate:${single}`, 'day')).toBeNull();
  });

  it("of a passport's own counts across all gates, and at /enforce without one", async () => {
    const [here, there] = [await gateWith({}), await gateWith({})];
    const { jwt, id } = await passportWith({ rate_limits: { requests_per_day: 3 } });
    expect((await check(here, jwt)).body.decision).toBe('PERMIT');
    expect((await check(there, jwt)).body.decision).toBe('PERMIT');
    const enforce = () => api.call({ url: '/v1/enforce', body: { passport: jwt, request: order } });
    expect((await enforce()).body.decision).toBe('PERMIT');
    expect((await enforce()).body).toMatchObject({ reason: 'rate_limit_exceeded', limit: 3, used: 3 });
    expect((await check(here, jwt)).body.reason).toBe('rate_limit_exceeded');
    expect(await usedOf(`passport_rate:${id}`, 'day')).toBe(3);
  });

  it('is not fooled by an agent that calls itself something else', async () => {
    const gateId = await gateWith({ rate_limits: { requests_per_day: 1, per: 'passport' } });
    const { jwt } = await passportWith();
    expect((await check(gateId, jwt, { ...order, agent_id: 'one' })).body.decision).toBe('PERMIT');
    expect((await check(gateId, jwt, { ...order, agent_id: 'two', passport_id: 'x' })).body.reason).toBe(
      'rate_limit_exceeded',
    );
  });

  it('that is lowered binds units not given out yet, and a raised one permits more', async () => {
    const gateId = await gateWith({ rate_limits: { requests_per_day: 3 } });
    const { jwt } = await passportWith();
    const limitTo = (requests_per_day: number) =>
      api.call({
        method: 'PUT',
        url: `/v1/gates/${gateId}`,
        body: { constraints: { rate_limits: { requests_per_day } } },
      });
    await check(gateId, jwt);
    await check(gateId, jwt);
    await limitTo(1);
    expect((await check(gateId, jwt)).body).toMatchObject({
      reason: 'rate_limit_exceeded',
      limit: 1,
      used: 2,
    });
    await limitTo(3);
    expect((await check(gateId, jwt)).body.decision).toBe('PERMIT');
    expect((await check(gateId, jwt)).body).toMatchObject({
      reason: 'rate_limit_exceeded',
      limit: 3,
      used: 3,
    });
  });
});

describe('a spend limit', () => {
  it('lets money pass up to its last micro-dollar', async () => {
    const gateId = await gateWith({ spend_limits: { daily_usd: 10 } });
    const { jwt } = await passportWith();
    const pay = (amount: number) => check(gateId, jwt, { ...order, amount });
    expect((await pay(9.999999)).body.decision).toBe('PERMIT');
    expect((await pay(0.000002)).body).toMatchObject({
      decision: 'BLOCK',
      reason: 'spend_limit_exceeded',
      limit: 10,
      used: 9.999999,
      requested: 0.000002,
      reset_at: endOf('day'),
      retry: { retryable: true },
    });
    expect((await pay(0.000001)).body.decision).toBe('PERMIT');
    expect(await usedOf(`gate_spend:${gateId}`, 'day')).toBe(10_000_000);
    expect((await pay(0)).body.decision).toBe('PERMIT');
  });

  it('of a month lasts longer than that of a day', async () => {
    const gateId = await gateWith({ spend_limits: { daily_usd: 10, monthly_usd: 15 } });
    const { jwt } = await passportWith();
    // The second day must be of the same month.
    while (new Date(api.deps.clock.now() + dayMs).getUTCDate() === 1) api.advance(dayMs);
    const pay = (amount: number) => check(gateId, jwt, { ...order, amount });
    expect((await pay(10)).body.decision).toBe('PERMIT');
    expect((await pay(1)).body).toMatchObject({
      reason: 'spend_limit_exceeded',
      limit: 10,
      reset_at: endOf('day'),
    });
    expect((await pay(11)).body).toMatchObject({ reason: 'spend_limit_exceeded', limit: 10, reset_at: null });
    api.advance(dayMs);
    expect((await pay(6)).body).toMatchObject({
      reason: 'spend_limit_exceeded',
      limit: 15,
      used: 10,
      reset_at: endOf('month'),
    });
    expect((await pay(5)).body.decision).toBe('PERMIT');
  });

  it('reports its use even to a request above the whole limit', async () => {
    const gateId = await gateWith({ spend_limits: { daily_usd: 10, monthly_usd: 50 } });
    const { jwt } = await passportWith();
    await check(gateId, jwt, { ...order, amount: 6 });
    const missed = { limit: 10, used: 6, requested: 11, reset_at: null };
    expect((await check(gateId, jwt, { ...order, amount: 11 })).body).toMatchObject({
      reason: 'spend_limit_exceeded',
      ...missed,
      retry: { retryable: false, after_ms: null },
    });
    const test = { passport_token: jwt, requested_action: 'orders:create', context: { amount: 11 } };
    const { body } = await api.call({ url: `/v1/gates/${gateId}/test`, body: test });
    expect(body).toMatchObject({ decision: 'block', ...missed });
  });

  it('counts the price of the catalog where the request names no amount', async () => {
    const catalog = {
      permissions: [
        {
          key: 'orders:create',
          display_name: 'Order',
          pricing: { model: 'per_call', price_cents: 250, currency: 'USD' },
        },
      ],
    };
    const gateId = await gateWith({ spend_limits: { daily_usd: 6 } }, { catalog });
    const { jwt } = await passportWith();
    expect((await check(gateId, jwt)).body.decision).toBe('PERMIT');
    expect((await check(gateId, jwt, { ...order, amount: 3.5 })).body.decision).toBe('PERMIT');
    expect((await check(gateId, jwt)).body).toMatchObject({
      reason: 'spend_limit_exceeded',
      used: 6,
      requested: 2.5,
    });
  });

  it("of a passport's own and of the gate both bind, each on its own counter", async () => {
    const gateId = await gateWith({ spend_limits: { daily_usd: 100, per: 'passport' } });
    const open = await gateWith({});
    const { jwt, id } = await passportWith({ spend_limits: { monthly_usd: 50 } });
    const pay = (gate: string, amount: number) => check(gate, jwt, { ...order, amount });
    expect((await pay(gateId, 30)).body.decision).toBe('PERMIT');
    expect((await pay(open, 15)).body.decision).toBe('PERMIT');
    expect((await pay(gateId, 6)).body).toMatchObject({
      reason: 'spend_limit_exceeded',
      limit: 50,
      used: 45,
    });
    expect(await usedOf(`gate_spend:${gateId}:${id}`, 'day')).toBe(30_000_000);
    expect(await usedOf(`passport_spend:${id}`, 'month')).toBe(45_000_000);
  });

  it.each([
    ['negative', { amount: -1 }],
    ['of a fraction of a micro-dollar', { amount: 0.0000001 }],
    ['above 1e9', { amount: 1_000_000_001 }],
    ['a text', { amount: '5' }],
  ])('takes no amount that is %s', async (_name, given) => {
    const gateId = await gateWith({ spend_limits: { daily_usd: 10 } });
    const { jwt } = await passportWith();
    expectError(await check(gateId, jwt, { ...order, ...given }), 'invalid_request', 'request.amount');
    expect(await usedOf(`gate_spend:${gateId}`, 'day')).toBeNull();
  });

  it('treats a null amount as absent', async () => {
    const gateId = await gateWith({ spend_limits: { daily_usd: 10 } });
    const { jwt } = await passportWith();
    const { body: without } = await check(gateId, jwt, order);
    const { body } = await check(gateId, jwt, { ...order, amount: null });
    expect([body.decision, body.reason]).toEqual([without.decision, without.reason]);
  });

  it('does not treat another currency as dollars', async () => {
    const gateId = await gateWith({ spend_limits: { daily_usd: 10 } });
    const { jwt } = await passportWith();
    const { body } = await check(gateId, jwt, { ...order, amount: 1, currency: 'EUR' });
    expect(body.reason).toBe('currency_unsupported');
    expect(await usedOf(`gate_spend:${gateId}`, 'day')).toBeNull();
  });
});

describe('a BLOCK', () => {
  it('touches no counter, whichever check it comes from', async () => {
    const gateId = await gateWith({
      rate_limits: { requests_per_day: 5 },
      spend_limits: { daily_usd: 10 },
      allowed_domains: ['good.example'],
    });
    const { jwt, id } = await passportWith({ rate_limits: { requests_per_day: 2 } });
    const at = { ...order, domain: 'good.example' };
    await check(gateId, jwt, { ...at, amount: 4 });
    const before = await api.deps.sql`SELECT * FROM quota_windows ORDER BY 1, 2, 3`;
    await expectOutcomes(
      [
        check(gateId, 'nonsense', at),
        check(gateId, jwt, { ...at, permission_key: 'orders:delete' }),
        check(gateId, jwt, { ...at, domain: 'bad.example' }),
        check(gateId, jwt, { ...at, amount: 7 }),
      ],
      [
        { reason: 'passport_malformed' },
        { reason: 'permission_not_granted' },
        { reason: 'domain_not_allowed' },
        { reason: 'spend_limit_exceeded' },
      ],
    );
    expect(await api.deps.sql`SELECT * FROM quota_windows ORDER BY 1, 2, 3`).toEqual(before);
    // Of two limits it misses one: the other is not touched either.
    await check(gateId, jwt, { ...at, amount: 0 });
    expect((await check(gateId, jwt, { ...at, amount: 1 })).body.reason).toBe('rate_limit_exceeded');
    expect(await usedOf(`gate_spend:${gateId}`, 'day')).toBe(4_000_000);
    expect(await usedOf(`gate_rate:${gateId}`, 'day')).toBe(2);
    expect(await usedOf(`passport_rate:${id}`, 'day')).toBe(2);
  });
});

describe('a gate test', () => {
  it('reads the live counters and takes nothing', async () => {
    const gateId = await gateWith({ rate_limits: { requests_per_day: 1 }, spend_limits: { daily_usd: 10 } });
    const { jwt } = await passportWith();
    const ask = (context: object = {}) =>
      api.call({
        url: `/v1/gates/${gateId}/test`,
        body: { passport_token: jwt, requested_action: 'orders:create', context },
      });
    for (let count = 0; count < 3; count++) expect((await ask({ amount: 10 })).body.decision).toBe('allow');
    expect(await usedOf(`gate_rate:${gateId}`, 'day')).toBeNull();
    expect(await usedOf(`gate_spend:${gateId}`, 'day')).toBeNull();
    expect((await check(gateId, jwt, { ...order, amount: 3 })).body.decision).toBe('PERMIT');
    expect((await ask({ amount: 8 })).body).toMatchObject({
      decision: 'block',
      reason: 'spend_limit_exceeded',
      limit: 10,
      used: 3,
      requested: 8,
      reset_at: endOf('day'),
    });
    expect((await ask({ amount: 0 })).body).toMatchObject({
      decision: 'block',
      reason: 'rate_limit_exceeded',
    });
    expect(await usedOf(`gate_rate:${gateId}`, 'day')).toBe(1);
  });
});

describe('on two control planes at once', () => {
  const both = (gateId: string, bodies: readonly object[]): Promise<Reply[]> =>
    Promise.all(
      bodies.map((body, index) => {
        const url = `/v1/gates/${gateId}/check`;
        return index % 2 === 0 ? api.call({ url, body }) : other.call(url, body);
      }),
    );

  it('100 checks get a rate limit and not one more', async () => {
    const gateId = await gateWith({ rate_limits: { requests_per_day: 40 } });
    const passports = await Promise.all(Array.from({ length: 5 }, () => passportWith()));
    const bodies = Array.from({ length: 100 }, (_, index) => ({
      passport: passports[index % 5]?.jwt,
      request: order,
    }));
    const replies = await both(gateId, bodies);
    expect(decisions(replies)).toEqual({ PERMIT: 40, rate_limit_exceeded: 60 });
    expect(await usedOf(`gate_rate:${gateId}`, 'day')).toBe(40);
    const stats = (await api.call({ url: `/v1/gates/${gateId}` })).body.stats;
    expect(stats).toMatchObject({ permits: 40, blocks: 60, total_requests: 100 });
    await expectSoundStore(api);
  });

  it('100 payments get a spend limit to its last cent and not one more', async () => {
    const gateId = await gateWith({
      spend_limits: { daily_usd: 150 },
      rate_limits: { requests_per_hour: 1_000 },
    });
    const { jwt, id } = await passportWith({ spend_limits: { monthly_usd: 120 } });
    const bodies = Array.from({ length: 100 }, () => ({ passport: jwt, request: { ...order, amount: 2.4 } }));
    const replies = await both(gateId, bodies);
    expect(decisions(replies)).toEqual({ PERMIT: 50, spend_limit_exceeded: 50 });
    expect(await usedOf(`passport_spend:${id}`, 'month')).toBe(120_000_000);
    // What the others lacked is not taken from the windows that had it.
    expect(await usedOf(`gate_spend:${gateId}`, 'day')).toBe(120_000_000);
    expect(await usedOf(`gate_rate:${gateId}`, 'hour')).toBe(50);
    await expectSoundStore(api);
  });
});
