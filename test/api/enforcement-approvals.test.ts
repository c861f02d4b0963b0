import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { expireApprovals } from '../../control-plane/approvals/expire-approvals.ts';
import { dayMs } from '../../shared/model/time.ts';
import { type Api, type Reply, startApi } from '../support/api.ts';
import { askAsManyAsMay, goToNoon, heldUsd } from '../support/approvals.ts';
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
  it('holds money and no rate, opens an approval and leaves no record', async () => {
    const { gateId, passportId, answer } = await suspended({
      ...rules,
      rate_limits: { requests_per_day: 1 },
    });
    expect(answer).toEqual({
      decision: 'SUSPEND',
      reason: 'approval_required',
      attestation_id: null,
      approval_id: expect.stringMatching(/^appr_/),
      expires_at: expect.any(String),
      constraints_evaluated: [
        'passport',
        'trust_level',
        'issuer',
        'permission',
        'spend_limit',
        'rate_limit',
        'approval',
      ],
    });
    expect(await heldUsd(api.deps, gateId)).toBe(60);
    expect(
      await api.deps.sql`SELECT FROM quota_windows WHERE counter = ${`gate_rate:${gateId}`} AND leased > 0`,
    ).toEqual([]);
    expect(await recordsOf(passportId)).toEqual([]);
    expect(await approvalOf(answer.approval_id)).toMatchObject({
      status: 'pending',
      amount_usd: 60,
      expires_at: answer.expires_at,
    });
  });

  it('of a request that waits already is the same approval, with no second hold', async () => {
    const { gateId, jwt, approvalId, answer } = await suspended();
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
    const url = `/v1/gates/${gateId}/check`;
    const body = { passport: jwt, request: order };
    const replies = await Promise.all(
      Array.from({ length: 20 }, (_, index) =>
        index % 2 === 0 ? api.call({ url, body }) : other.call(url, body),
      ),
    );
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
    expect(records).toHaveLength(2);
    expect(records).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ resolution: 'denied' }),
        expect.objectContaining({ decision: 'BLOCK', reason: 'approvals_pending_exceeded' }),
      ]),
    );

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

  it('is not given where the rate is used up, or the money is not there', async () => {
    const gateId = await gateWith({ ...rules, rate_limits: { requests_per_day: 1 } });
    const { jwt } = await api.issuePassport();
    expect(await check(gateId, jwt, { ...order, amount: 101 })).toMatchObject({
      reason: 'spend_limit_exceeded',
    });
    expect(await check(gateId, jwt, { ...order, amount: 5 })).toMatchObject({ decision: 'PERMIT' });
    expect(await check(gateId, jwt)).toMatchObject({ reason: 'rate_limit_exceeded' });
    expect(await heldUsd(api.deps, gateId)).toBe(5);
  });

  it('is demanded by a permission, by the passport and by an entry of the catalog', async () => {
    const byPermission = await gateWith({ approvals: { permissions: ['orders:*'] } });
    const byCatalog = await gateWith(
      {},
      {
        catalog: {
          permissions: [{ key: 'orders:create', display_name: 'Order', requires_approval: true }],
        },
      },
    );
    const { jwt } = await api.issuePassport();
    const request = { permission_key: 'orders:create' };
    for (const gateId of [byPermission, byCatalog]) {
      expect(await check(gateId, jwt, request)).toMatchObject({ decision: 'SUSPEND' });
    }
    const careful = await api.issuePassport({ constraints: { approvals: { above_usd: 1 } } });
    expect(await check(await gateWith({}), careful.jwt)).toMatchObject({ decision: 'SUSPEND' });
    // Without a gate there is nothing to which an approval could be bound.
    const { body } = await api.call({ url: '/v1/enforce', body: { passport: careful.jwt, request: order } });
    expect(body).toMatchObject({ decision: 'BLOCK', reason: 'approval_required' });
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
    const url = `/v1/gates/${gateId}/check`;
    const body = { passport: jwt, request: { ...order, approval_id: approvalId } };
    const replies = await Promise.all(
      Array.from({ length: 20 }, (_, index) =>
        index % 2 === 0 ? api.call({ url, body }) : other.call(url, body),
      ),
    );
    const reasons = replies.map((reply) => reply.body.reason);
    expect(reasons.filter((reason) => reason === null)).toHaveLength(1);
    expect(reasons.filter((reason) => reason === 'approval_used')).toHaveLength(19);
    expect(await heldUsd(api.deps, gateId)).toBe(60);
    await expectSoundStore(api);
  });

  /** A request with a key that was approved, and permitted with its approval. */
  async function permittedUnderKey(gateId: string) {
    const { jwt } = await api.issuePassport();
    const keyed = { ...order, idempotency_key: 'order-1' };
    const { approval_id: approvalId } = await check(gateId, jwt, keyed);
    await resolve(approvalId, 'approve');
    const permit = await check(gateId, jwt, { ...keyed, approval_id: approvalId });
    expect(permit).toMatchObject({ decision: 'PERMIT' });
    return { jwt, keyed, approvalId, permit };
  }

  it('with a key gets its PERMIT again, where the approval alone is used', async () => {
    const gateId = await gateWith();
    const { jwt, keyed, approvalId, permit } = await permittedUnderKey(gateId);
    expect(await check(gateId, jwt, { ...keyed, approval_id: approvalId })).toEqual(permit);
    // Also without the approval: it is the same request, and nobody has to be asked twice.
    expect(await check(gateId, jwt, keyed)).toEqual(permit);
    expect(await heldUsd(api.deps, gateId)).toBe(60);
  });

  it('with a key needs no second approval once it was permitted, whatever the limit leaves', async () => {
    const gateId = await gateWith(ample);
    const { jwt, keyed, permit } = await permittedUnderKey(gateId);
    expect(await check(gateId, jwt, keyed)).toEqual(permit);
    const url = `/v1/gates/${gateId}/check`;
    const changed = { passport: jwt, request: { ...keyed, amount: 61 } };
    expectError(await api.call({ url, body: changed }), 'idempotency_conflict');
    expect(await heldUsd(api.deps, gateId)).toBe(60);
  });

  it.each<[string, (one: Awaited<ReturnType<typeof suspended>>) => Promise<Reply['body']>]>([
    ['another amount', ({ again }) => again({ amount: 61 })],
    ['another word in the request', ({ again }) => again({ note: 'x' })],
    ['an approval that there is not', ({ again }) => again({ approval_id: `appr_${'0'.repeat(26)}` })],
    [
      'another gate',
      async ({ jwt, approvalId }) => check(await gateWith(), jwt, { ...order, approval_id: approvalId }),
    ],
    [
      'another passport',
      async ({ gateId, approvalId }) =>
        check(gateId, (await api.issuePassport()).jwt, { ...order, approval_id: approvalId }),
    ],
  ])('does not fit %s', async (_name, ask) => {
    const one = await suspended();
    await resolve(one.approvalId, 'approve');
    expect(await ask(one)).toMatchObject({ decision: 'BLOCK', reason: 'approval_mismatch' });
    expect(await approvalOf(one.approvalId)).toMatchObject({ status: 'approved' });
  });

  it('does not fit another policy of the gate, and fits another name of it', async () => {
    const { gateId, approvalId, again } = await suspended();
    await resolve(approvalId, 'approve');
    const change = (body: object) => api.call({ method: 'PUT', url: `/v1/gates/${gateId}`, body });
    await change({ constraints: { approvals: { expires_in_s: 299 } } });
    expect(await again()).toMatchObject({ decision: 'BLOCK', reason: 'approval_mismatch' });

    const other = await suspended();
    await resolve(other.approvalId, 'approve');
    await api.call({ method: 'PUT', url: `/v1/gates/${other.gateId}`, body: { name: 'Renamed' } });
    expect(await other.again()).toMatchObject({ decision: 'PERMIT' });
  });

  it('that is denied is blocked, and its money is free', async () => {
    const { gateId, approvalId, again } = await suspended();
    await resolve(approvalId, 'deny');
    expect(await again()).toMatchObject({ decision: 'BLOCK', reason: 'approval_denied' });
    expect(await heldUsd(api.deps, gateId)).toBe(0);
  });

  it.each(['pending', 'approved'])(
    'that expired while it was %s is blocked, and its money is free',
    async (status) => {
      const { gateId, approvalId, again } = await suspended({
        ...rules,
        approvals: { above_usd: 50, expires_in_s: 600 },
      });
      if (status === 'approved') await resolve(approvalId, 'approve');
      const { expires_at: expiresAt } = await approvalOf(approvalId);
      const leftMs = () => Date.parse(expiresAt) - api.deps.clock.now();
      api.advance(leftMs() - 60_000);
      if (status === 'pending') expect(await again()).toMatchObject({ decision: 'SUSPEND' });
      api.advance(leftMs());
      expect(await again()).toMatchObject({ decision: 'BLOCK', reason: 'approval_expired' });
      await expire();
      expect(await heldUsd(api.deps, gateId)).toBe(0);
      expect(await again()).toMatchObject({ reason: 'approval_expired' });
    },
  );

  it('of a passport that was revoked since is blocked for that', async () => {
    const { passportId, approvalId, again } = await suspended();
    await resolve(approvalId, 'approve');
    await api.call({ url: `/v1/passports/${passportId}/revoke`, body: {} });
    expect(await again()).toMatchObject({ decision: 'BLOCK', reason: 'passport_revoked' });
    expect(await approvalOf(approvalId)).toMatchObject({ status: 'approved' });
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
    expect(
      (await api.call({ url: '/v1/approvals' })).body.items.filter(
        (one: Reply['body']) => one.gate_id === gateId,
      ),
    ).toEqual([]);
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
