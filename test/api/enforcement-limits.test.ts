import { beforeAll, describe, expect, it } from 'vitest';
import { hourMs, minuteMs } from '../../shared/model/time.ts';
import { type WindowName, windowAt } from '../../shared/quota/window.ts';
import { type Reply, startOwnApi } from '../support/service/api.ts';
import { goToNoon } from '../support/service/approvals.ts';
import { secondControlPlane } from '../support/service/second-control-plane.ts';
import { expectSoundStore } from '../support/service/test-sidecar.ts';
import { useApi, useStarted } from '../support/service/use-api.ts';

const api = useApi(startOwnApi);
const other = useStarted(() => secondControlPlane(api));
beforeAll(() => goToNoon(api));

const order = { permission_key: 'orders:create' };
const check = (gateId: string, passport: string, request: object = order): Promise<Reply> =>
  api.call({ url: `/v1/gates/${gateId}/check`, body: { passport, request } });
const gateWith = async (constraints: object, rest: object = {}): Promise<string> =>
  (await api.createGate({ constraints, ...rest })).gate_id;
const passportWith = async (constraints: object = {}): Promise<{ jwt: string; id: string }> => {
  const { jwt, passport_id: id } = await api.issuePassport({ constraints });
  return { jwt, id };
};

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
    const evaluated = ['passport', 'trust_level', 'issuer', 'permission', 'rate_limit'];
    const permit = { decision: 'PERMIT', constraints_evaluated: evaluated };
    for (const _ of [1, 2]) expect((await check(gateId, jwt)).body).toMatchObject(permit);
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
    expect((await check(gateId, jwt)).body.decision).toBe('PERMIT');
    const missed = { reason: 'rate_limit_exceeded' };
    expect((await check(gateId, jwt)).body).toMatchObject({ ...missed, limit: 1 });
    toNext('minute');
    expect((await check(gateId, jwt)).body.decision).toBe('PERMIT');
    toNext('minute');
    // The minute is free; the hour is not, unless it has ended with that minute.
    if ((await usedOf(`gate_rate:${gateId}`, 'hour')) === 2) {
      const ofHour = { ...missed, limit: 2, reset_at: endOf('hour') };
      expect((await check(gateId, jwt)).body).toMatchObject(ofHour);
    }
    api.advance(hourMs);
    expect((await check(gateId, jwt)).body.decision).toBe('PERMIT');
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
    const missed = { reason: 'rate_limit_exceeded' };
    expect((await check(gateId, jwt)).body).toMatchObject({ ...missed, limit: 1, used: 2 });
    await limitTo(3);
    expect((await check(gateId, jwt)).body.decision).toBe('PERMIT');
    expect((await check(gateId, jwt)).body).toMatchObject({ ...missed, limit: 3, used: 3 });
  });
});

it('a spend limit reports its use even to a request above the whole limit', async () => {
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

it('a gate test reads the live counters and takes nothing', async () => {
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
