import { beforeAll, expect, it } from 'vitest';
import type { UnixMillis } from '../../shared/model/time.ts';
import { startOwnApi } from '../support/service/api.ts';
import { goToNoon } from '../support/service/approvals.ts';
import { expectError } from '../support/service/expect-error.ts';
import { leaseHolder, ofGate, wish } from '../support/service/lease-holder.ts';
import { useApi } from '../support/service/use-api.ts';

const api = useApi(startOwnApi);
beforeAll(() => {
  api.stopClock();
  goToNoon(api);
});

const usage = async (gateId: string, passportId?: string, key?: string) => {
  const query = passportId === undefined ? '' : `?passport_id=${passportId}`;
  const reply = await api.call({ url: `/v1/gates/${gateId}/usage${query}`, ...(key ? { key } : {}) });
  expect(reply.status, JSON.stringify(reply.body)).toBe(200);
  return reply.body;
};
const pay = async (gateId: string, passport: string, amount: number) =>
  (
    await api.call({
      url: `/v1/gates/${gateId}/check`,
      body: { passport, request: { permission_key: 'orders:create', amount } },
    })
  ).body;

it('shows used and remaining money and requests, with the end of each window', async () => {
  const { gate_id } = await api.createGate({
    constraints: {
      rate_limits: { requests_per_hour: 10 },
      spend_limits: { daily_usd: 100, monthly_usd: 1_000 },
    },
  });
  const { jwt } = await api.issuePassport();
  for (const amount of [12.5, 0.25])
    expect(await pay(gate_id, jwt, amount)).toMatchObject({ decision: 'PERMIT' });
  const { limits, ...rest } = await usage(gate_id);
  expect(rest).toMatchObject({ gate_id, passport_id: null });
  const nowMs = api.deps.clock.now();
  expect(limits).toMatchObject([
    {
      of: 'gate',
      per: 'gate',
      unit: 'requests',
      window: 'hour',
      limit: 10,
      used: 2,
      leased: 0,
      remaining: 8,
    },
    { unit: 'usd', window: 'day', limit: 100, used: 12.75, leased: 0, remaining: 87.25 },
    { unit: 'usd', window: 'month', limit: 1_000, used: 12.75, leased: 0, remaining: 987.25 },
  ]);
  for (const { starts_at, ends_at } of limits) {
    expect(Date.parse(starts_at)).toBeLessThanOrEqual(nowMs);
    expect(Date.parse(ends_at)).toBeGreaterThan(nowMs);
  }
  // A limit below what was given out has nothing left, and never less.
  const body = { constraints: { spend_limits: { daily_usd: 5 } } };
  await api.call({ method: 'PUT', url: `/v1/gates/${gate_id}`, body });
  const day = (await usage(gate_id)).limits.find(({ window }: { window: string }) => window === 'day');
  expect(day).toMatchObject({ limit: 5, used: 12.75, remaining: 0 });
});

it('says apart what a sidecar holds and has not reported', async () => {
  const { gate_id } = await api.createGate({ constraints: { rate_limits: { requests_per_day: 100 } } });
  const holder = await leaseHolder(api);
  const counter = ofGate('gate_rate', gate_id);
  const [grant] = await holder.lease([wish(counter, 'day', 30)]);
  expect((await usage(gate_id)).limits).toMatchObject([{ used: 0, leased: 30, remaining: 70 }]);
  // As its records arrive they are posted to the lease: then they are used.
  const post = (units: number) =>
    api.deps.sql`INSERT INTO lease_posts (lease_id, units) VALUES (${Number(grant?.lease_id)}, ${units})`;
  await post(12);
  await post(3);
  expect((await usage(gate_id)).limits).toMatchObject([{ used: 15, leased: 15, remaining: 70 }]);
  const back = {
    ...counter,
    window: 'day' as const,
    starts_at_ms: Number(grant?.starts_at_ms) as UnixMillis,
    units: 15,
  };
  await holder.lease([], [back]);
  expect((await usage(gate_id)).limits).toMatchObject([{ used: 15, leased: 0, remaining: 85 }]);
});

it('counts limits per passport for one passport, and its own limits', async () => {
  const { gate_id } = await api.createGate({
    constraints: { rate_limits: { requests_per_hour: 5, per: 'passport' } },
  });
  const own = { spend_limits: { daily_usd: 20 } };
  const one = await api.issuePassport({ constraints: own });
  const other = await api.issuePassport({ constraints: own });
  await pay(gate_id, one.jwt, 7);
  const nobody = { per: 'passport', used: null, leased: null, remaining: null };
  expect((await usage(gate_id)).limits).toMatchObject([nobody]);
  const of = async (passportId: string, key?: string) => (await usage(gate_id, passportId, key)).limits;
  expect(await of(one.passport_id)).toMatchObject([
    { of: 'gate', per: 'passport', unit: 'requests', used: 1, remaining: 4 },
    { of: 'passport', per: 'passport', unit: 'usd', window: 'day', used: 7, remaining: 13 },
  ]);
  expect(await of(other.passport_id)).toMatchObject([
    { used: 0, remaining: 5 },
    { used: 0, remaining: 20 },
  ]);
  // Whoever may not read passports learns nothing of their limits.
  const { key } = await api.createKey({ scopes: ['gates:read'] });
  expect(await of(one.passport_id, key)).toMatchObject([{ of: 'gate', used: 1 }]);
});

it("is visible to the gate's owner only", async () => {
  const other = await api.createAccount();
  const { gate_id } = await api.createGate({
    constraints: { rate_limits: { requests_per_day: 9, per: 'passport' }, trusted_issuers: ['*'] },
  });
  expectError(await api.call({ url: `/v1/gates/${gate_id}/usage`, key: other.key }), 'gate_not_found');
  expectError(await api.call({ url: `/v1/gates/${gate_id}/usage?passport_id=x` }), 'passport_not_found');
  // Of a stranger's passport it has what this gate counts, and none of its own limits.
  const foreign = await api.issuePassport({ constraints: { spend_limits: { daily_usd: 1 } } }, other.key);
  expect((await usage(gate_id, foreign.passport_id)).limits).toMatchObject([{ of: 'gate', used: 0 }]);
});
