import { beforeAll, describe, expect, it } from 'vitest';
import { expireApprovals } from '../../control-plane/approvals/expire-approvals.ts';
import { dayMs } from '../../shared/model/time.ts';
import { type Reply, startOwnApi } from '../support/service/api.ts';
import { askAsManyAsMay, goToNoon, heldUsd } from '../support/service/approvals.ts';
import { secondControlPlane } from '../support/service/second-control-plane.ts';
import { expectSoundStore } from '../support/service/test-sidecar.ts';
import { useApi, useStarted } from '../support/service/use-api.ts';

const api = useApi(startOwnApi);
const other = useStarted(() => secondControlPlane(api));
beforeAll(() => goToNoon(api));

const order = { permission_key: 'orders:create', amount: 60 };
const rules = { approvals: { above_usd: 50 }, spend_limits: { daily_usd: 100 } };
const ample = { ...rules, spend_limits: { daily_usd: 500 } };
const gateWith = async (constraints: object = rules, rest: object = {}): Promise<string> =>
  (await api.createGate({ constraints, ...rest })).gate_id;
const check = async (gateId: string, passport: string, request: object = order): Promise<Reply['body']> => {
  const reply = await api.call({ url: `/v1/gates/${gateId}/check`, body: { passport, request } });
  expect(reply.status, JSON.stringify(reply.body)).toBe(200);
  return reply.body;
};
/** Twenty copies at once, at the two control planes in turn. */
const askBoth = (gateId: string, body: object): Promise<Reply[]> => {
  const url = `/v1/gates/${gateId}/check`;
  const ask = (index: number) => (index % 2 === 0 ? api.call({ url, body }) : other.call(url, body));
  return Promise.all(Array.from({ length: 20 }, (_, index) => ask(index)));
};
const resolve = async (approvalId: string, word: 'approve' | 'deny') =>
  expect((await api.call({ url: `/v1/approvals/${approvalId}/${word}`, body: {} })).status).toBe(200);
const approvalOf = async (approvalId: string) =>
  (await api.call({ url: `/v1/approvals/${approvalId}` })).body;
const recordsOf = async (passportId: string) =>
  (await api.call({ url: `/v1/attestations?passport_id=${passportId}` })).body.attestations;
const expire = async () => {
  while ((await expireApprovals(api.deps)) > 0);
};

/** A request that waits, and what is needed to send it again. */
async function suspended(constraints: object = rules) {
  const gateId = await gateWith(constraints);
  const { jwt, passport_id: passportId } = await api.issuePassport();
  const answer = await check(gateId, jwt);
  expect(answer).toMatchObject({ decision: 'SUSPEND' });
  const approvalId: string = answer.approval_id;
  const again = (change: object = {}) => check(gateId, jwt, { ...order, approval_id: approvalId, ...change });
  return { gateId, jwt, passportId, approvalId, answer, again };
}

describe('SUSPEND', () => {
  it('of a request that waits already is the same approval, with no second hold', async () => {
    const { gateId, jwt, approvalId, answer } = await suspended();
    expect(answer.approval_url).toBe((await approvalOf(approvalId)).approval_url);
    // Its own hold leaves 40 of 100, which is too little for another one: it needs none.
    expect(await check(gateId, jwt)).toEqual(answer);
    expect((await check(gateId, jwt, { ...order, approval_id: approvalId })).approval_id).toBe(approvalId);
    expect(await heldUsd(api.deps, gateId)).toBe(60);
    expect(await check(gateId, jwt, { ...order, amount: 61 })).toMatchObject({
      reason: 'spend_limit_exceeded',
      used: 60,
    });
  });

  it('is opened once by many at once on two control planes', async () => {
    const gateId = await gateWith();
    const { jwt } = await api.issuePassport();
    const replies = await askBoth(gateId, { passport: jwt, request: order });
    expect(new Set(replies.map((reply) => reply.body.approval_id)).size).toBe(1);
    expect(replies[0]?.body.decision).toBe('SUSPEND');
    expect(await heldUsd(api.deps, gateId)).toBe(60);
  });

  it('is not given where as many of the passport wait at the gate as may, and leaves a record alone behind', async () => {
    const { gateId, passportId, jwt, answer, approvalId } = await suspended(ample);
    await resolve(approvalId, 'deny');
    await askAsManyAsMay(api.deps, { passportId, gateId });
    const held = await heldUsd(api.deps, gateId);
    const reply = await api.call({
      url: `/v1/gates/${gateId}/check`,
      body: { passport: jwt, request: order },
    });
    expect(reply.body).toMatchObject({
      decision: 'BLOCK',
      reason: 'approvals_pending_exceeded',
      retry: { retryable: true, after_ms: null },
    });
    expect(await heldUsd(api.deps, gateId)).toBe(held);
    const records = await recordsOf(passportId);
    const told = records.map((one: Reply['body']) => one.resolution ?? one.reason).toSorted();
    expect(told).toEqual(['approvals_pending_exceeded', 'denied']);

    const another = await api.issuePassport();
    expect(await check(gateId, another.jwt)).toMatchObject({ decision: 'SUSPEND' });
    expect(await check(await gateWith(), jwt)).toMatchObject({ decision: 'SUSPEND' });
    expect(await check(gateId, jwt, { ...order, amount: 5 })).toMatchObject({ decision: 'PERMIT' });

    // Those that wait no more make room, whether their end was written already or not.
    api.advance(Date.parse(answer.expires_at) - api.deps.clock.now() + 1_000);
    const later = await api.call({
      url: `/v1/gates/${gateId}/check`,
      body: { passport: jwt, request: { ...order, amount: 51, note: 'later' } },
    });
    expect(later.body).toMatchObject({ decision: 'SUSPEND' });
  });

  it('is found again where as many wait as may', async () => {
    const { gateId, passportId, jwt, answer } = await suspended(ample);
    await askAsManyAsMay(api.deps, { passportId, gateId, waiting: 1 });
    expect(await check(gateId, jwt)).toEqual(answer);
    expect(await check(gateId, jwt, { ...order, note: 'another' })).toMatchObject({
      decision: 'BLOCK',
      reason: 'approvals_pending_exceeded',
    });
  });
});

describe('a request with an approval', () => {
  it('is SUSPEND while it is pending, and passes once when it is approved, with the money that was held', async () => {
    const { gateId, jwt, passportId, approvalId, again } = await suspended({
      ...rules,
      rate_limits: { requests_per_day: 5 },
    });
    expect(await again()).toMatchObject({ decision: 'SUSPEND', approval_id: approvalId });
    await resolve(approvalId, 'approve');
    // Everything else is spent meanwhile: it needs nothing more.
    expect(await check(gateId, jwt, { ...order, amount: 40 })).toMatchObject({ decision: 'PERMIT' });
    const permit = await again();
    expect(permit).toMatchObject({ decision: 'PERMIT', reason: null });
    expect(await approvalOf(approvalId)).toMatchObject({ status: 'used' });
    expect(await again()).toMatchObject({ decision: 'BLOCK', reason: 'approval_used' });
    expect(await heldUsd(api.deps, gateId)).toBe(100);
    const rate = await api.deps
      .sql`SELECT leased FROM quota_windows WHERE counter = ${`gate_rate:${gateId}`}`;
    expect(rate).toMatchObject([{ leased: 2 }]);
    expect(await recordsOf(passportId)).toMatchObject([
      { decision: 'BLOCK', reason: 'approval_used' },
      { decision: 'PERMIT', id: permit.attestation_id, amount_micro_usd: 60_000_000 },
      { decision: 'PERMIT', amount_micro_usd: 40_000_000 },
      { decision: 'SUSPEND', resolution: 'approved' },
    ]);
  });

  it('is permitted once by many at once on two control planes', async () => {
    const { gateId, jwt, approvalId } = await suspended();
    await resolve(approvalId, 'approve');
    const request = { ...order, approval_id: approvalId };
    const replies = await askBoth(gateId, { passport: jwt, request });
    const reasons = replies.map((reply) => reply.body.reason);
    expect(reasons.filter((reason) => reason === null)).toHaveLength(1);
    expect(reasons.filter((reason) => reason === 'approval_used')).toHaveLength(19);
    expect(await heldUsd(api.deps, gateId)).toBe(60);
    await expectSoundStore(api);
  });

  it('with a key gets its PERMIT again, also without its approval, whatever the limit leaves', async () => {
    for (const constraints of [rules, ample]) {
      const gateId = await gateWith(constraints);
      const { jwt } = await api.issuePassport();
      const keyed = { ...order, idempotency_key: 'order-1' };
      const { approval_id } = await check(gateId, jwt, keyed);
      await resolve(approval_id, 'approve');
      const permit = await check(gateId, jwt, { ...keyed, approval_id });
      expect(permit).toMatchObject({ decision: 'PERMIT' });
      // It is the same request, and nobody has to be asked twice.
      for (const again of [{ ...keyed, approval_id }, keyed])
        expect(await check(gateId, jwt, again)).toEqual(permit);
      expect(await heldUsd(api.deps, gateId)).toBe(60);
    }
  });

  it('that expired after it was approved is blocked, and its money is free', async () => {
    const approvals = { above_usd: 50, expires_in_s: 600 };
    const { gateId, approvalId, again } = await suspended({ ...rules, approvals });
    await resolve(approvalId, 'approve');
    const { expires_at: expiresAt } = await approvalOf(approvalId);
    api.advance(Date.parse(expiresAt) - api.deps.clock.now());
    expect(await again()).toMatchObject({ decision: 'BLOCK', reason: 'approval_expired' });
    await expire();
    expect(await heldUsd(api.deps, gateId)).toBe(0);
    expect(await again()).toMatchObject({ reason: 'approval_expired' });
  });

  it('passes on the next day with the money of the day on which it was held', async () => {
    const { gateId, jwt, approvalId, again } = await suspended({
      ...rules,
      approvals: { above_usd: 50, expires_in_s: 172_800 },
    });
    api.advance(dayMs);
    await resolve(approvalId, 'approve');
    expect(await check(gateId, jwt, { ...order, amount: 50 })).toMatchObject({ decision: 'PERMIT' });
    expect(await again()).toMatchObject({ decision: 'PERMIT' });
    const days = await api.deps.sql`
      SELECT leased FROM quota_windows WHERE counter = ${`gate_spend:${gateId}`} ORDER BY starts_at_ms`;
    expect(days).toMatchObject([{ leased: 60_000_000 }, { leased: 50_000_000 }]);
  });
});

describe('a gate test', () => {
  const test = async (gateId: string, jwt: string, context: object) =>
    (await api.call({ url: `/v1/gates/${gateId}/test`, body: { passport_token: jwt, context } })).body;

  it('answers suspend and opens nothing, holds nothing, and attests it as a test', async () => {
    const gateId = await gateWith();
    const { jwt, passport_id: passportId } = await api.issuePassport();
    const answer = await test(gateId, jwt, order);
    expect(answer).toMatchObject({
      decision: 'suspend',
      reason: 'approval_required',
      all_passed: false,
      attestation_id: expect.stringMatching(/^att_/),
    });
    expect(answer).not.toHaveProperty('approval_id');
    expect(await heldUsd(api.deps, gateId)).toBe(0);
    const { items } = (await api.call({ url: '/v1/approvals' })).body;
    expect(items.map((one: Reply['body']) => one.gate_id)).not.toContain(gateId);
    expect(await recordsOf(passportId)).toMatchObject([
      { decision: 'SUSPEND', test: true, resolution: null },
    ]);
    await expectSoundStore(api);
  });

  it('reads the state of an approval without using it', async () => {
    const { gateId, jwt, approvalId, again } = await suspended();
    const presented = { ...order, approval_id: approvalId };
    expect(await test(gateId, jwt, presented)).toMatchObject({ decision: 'suspend' });
    expect(await test(gateId, jwt, order)).toMatchObject({ decision: 'suspend' });
    await resolve(approvalId, 'approve');
    expect(await test(gateId, jwt, presented)).toMatchObject({ decision: 'allow' });
    expect(await again()).toMatchObject({ decision: 'PERMIT' });
    expect(await test(gateId, jwt, presented)).toMatchObject({ decision: 'block', reason: 'approval_used' });
  });
});
