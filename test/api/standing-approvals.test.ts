import { beforeAll, describe, expect, it } from 'vitest';
import { closeStandingApprovals } from '../../control-plane/approvals/standing-approval-store.ts';
import { dayMs, hourMs, minuteMs, renderTime, type UnixMillis } from '../../shared/model/time.ts';
import { type Reply, startOwnApi } from '../support/service/api.ts';
import { goToNoon } from '../support/service/approvals.ts';
import { expectError } from '../support/service/expect-error.ts';
import { brokenRules } from '../support/service/sound-database.ts';
import {
  approveAhead,
  askingRules,
  endStanding,
  givenOf,
  order,
  standingApprovalOf,
  standingBody,
} from '../support/service/standing-approvals.ts';
import { useApi } from '../support/service/use-api.ts';

const api = useApi(startOwnApi);
beforeAll(() => goToNoon(api));

const check = async (gateId: string, passport: string, request: object): Promise<Reply['body']> => {
  const reply = await api.call({ url: `/v1/gates/${gateId}/check`, body: { passport, request } });
  expect(reply.status, JSON.stringify(reply.body)).toBe(200);
  return reply.body;
};
const create = (body: object, key?: string) =>
  api.call({ url: '/v1/approvals/standing', body, ...(key === undefined ? {} : { key }) });
const at = (ms: number) => renderTime((api.deps.clock.now() + ms) as UnixMillis);

/** A gate that asks, a passport, and what is approved ahead there. */
async function standing(change: object = {}, constraints: object = askingRules) {
  const gate = await api.createGate({ constraints });
  const passport = await api.issuePassport({ permissions: ['orders:create', 'orders:refund'] });
  const about = { gate_id: gate.gate_id, passport_id: passport.passport_id, ...change };
  const made = await approveAhead(api, about);
  const id: string = made.standing_approval_id;
  const ask = (amount: number, rest: object = {}) => check(gate.gate_id, passport.jwt, order(amount, rest));
  return { gateId: gate.gate_id as string, gate, passport, made, id, ask };
}

describe('a standing approval', () => {
  it('permits what fits without asking, and counts it to its last cent', async () => {
    const { id, ask, made } = await standing();
    expect(made).toMatchObject({ status: 'active', used_usd: 0, left_usd: 100, ended_at: null });
    for (let i = 0; i < 9; i++) expect(await ask(10)).toMatchObject({ decision: 'PERMIT', reason: null });
    expect(await ask(9.999999)).toMatchObject({ decision: 'PERMIT' });
    expect(await ask(1.000001)).toMatchObject({ decision: 'SUSPEND', reason: 'approval_required' });
    expect(await standingApprovalOf(api, id)).toMatchObject({ used_usd: 99.999999, left_usd: 0.000001 });
    // Below the limit of the gate's rule nothing is asked, and nothing of it used.
    expect(await ask(1)).toMatchObject({ decision: 'PERMIT' });
    expect(await givenOf(api, id)).toBe(99_999_999);
    const named = await api.deps.sql`SELECT FROM records WHERE approval_id = ${id}`;
    expect(named.count).toBe(10);
  });

  it('asks a person for a micro-dollar more than each, another permission, passport or gate', async () => {
    const { gateId, ask, id, passport } = await standing();
    expect(await ask(10.000001)).toMatchObject({ decision: 'SUSPEND' });
    expect(await ask(10, { permission_key: 'orders:refund' })).toMatchObject({ decision: 'SUSPEND' });
    const stranger = await api.issuePassport();
    expect(await check(gateId, stranger.jwt, order(10))).toMatchObject({ decision: 'SUSPEND' });
    const elsewhere = await api.createGate({ constraints: askingRules });
    expect(await check(elsewhere.gate_id, passport.jwt, order(10))).toMatchObject({ decision: 'SUSPEND' });
    expect(await givenOf(api, id)).toBe(0);
  });

  it('asks a person where a request has no amount, or 0, which no total bounds', async () => {
    const { ask, id } = await standing({}, { approvals: { permissions: ['orders:create'] } });
    expect(await ask(10)).toMatchObject({ decision: 'PERMIT' });
    expect(await ask(0)).toMatchObject({ decision: 'SUSPEND' });
    const { gateId, passport } = await standing({}, { approvals: { permissions: ['orders:create'] } });
    expect(await check(gateId, passport.jwt, { permission_key: 'orders:create' })).toMatchObject({
      decision: 'SUSPEND',
    });
    expect(await givenOf(api, id)).toBe(10e6);
  });

  it('answers the question to a person and no other', async () => {
    const limited = { ...askingRules, spend_limits: { daily_usd: 15 }, rate_limits: { requests_per_day: 9 } };
    const { ask, id, passport } = await standing({}, limited);
    expect(await ask(10)).toMatchObject({ decision: 'PERMIT' });
    expect(await ask(10)).toMatchObject({ decision: 'BLOCK', reason: 'spend_limit_exceeded' });
    expect(await givenOf(api, id)).toBe(10e6);
    await api.call({ url: `/v1/passports/${passport.passport_id}/revoke`, body: {} });
    expect(await ask(2)).toMatchObject({ decision: 'BLOCK', reason: 'passport_revoked' });
  });

  it('ends at its time, with DELETE, and with the policy of its gate', async () => {
    const timed = await standing();
    expect(await timed.ask(2)).toMatchObject({ decision: 'PERMIT' });
    api.advance(hourMs);
    expect(await timed.ask(2)).toMatchObject({ decision: 'SUSPEND' });
    expect(await standingApprovalOf(api, timed.id)).toMatchObject({ status: 'expired', used_usd: 2 });

    const ended = await standing();
    const reply = await endStanding(api, ended.id);
    expect(reply).toMatchObject({ status: 200, body: { status: 'revoked', ended_by: expect.any(String) } });
    expect(await ended.ask(2)).toMatchObject({ decision: 'SUSPEND' });
    expect(await endStanding(api, ended.id)).toMatchObject({ status: 200, body: reply.body });

    const changed = await standing();
    const change = (body: object) => api.call({ method: 'PUT', url: `/v1/gates/${changed.gateId}`, body });
    await change({ name: 'Renamed' });
    expect(await changed.ask(2)).toMatchObject({ decision: 'PERMIT' });
    await change({ constraints: { approvals: { above_usd: 1.5 } } });
    expect(await changed.ask(2)).toMatchObject({ decision: 'SUSPEND' });
    expect(await standingApprovalOf(api, changed.id)).toMatchObject({
      status: 'policy_changed',
      ended_at: expect.any(String),
      ended_by: null,
    });

    const published = await standing();
    const catalog = { permissions: [{ key: 'orders:create', requires_approval: true }] };
    await api.call({ url: `/v1/gates/${published.gateId}/catalog`, body: catalog });
    expect(await published.ask(2)).toMatchObject({ decision: 'SUSPEND' });

    const deleted = await standing();
    await api.call({ method: 'DELETE', url: `/v1/gates/${deleted.gateId}` });
    expect(await standingApprovalOf(api, deleted.id)).toMatchObject({ status: 'policy_changed' });
    expect(await endStanding(api, deleted.id)).toMatchObject({ body: { status: 'policy_changed' } });
  });

  it('is charged once by an idempotency key, and answers a copy when it is used up', async () => {
    const { ask, id } = await standing({ each_usd: 10, total_usd: 10 });
    const first = await ask(10, { idempotency_key: 'k1' });
    expect(first).toMatchObject({ decision: 'PERMIT' });
    expect(await ask(10, { idempotency_key: 'k1' })).toEqual(first);
    expect(await ask(10, { idempotency_key: 'k2' })).toMatchObject({ decision: 'SUSPEND' });
    expect(await givenOf(api, id)).toBe(10e6);
  });

  it('is seen by a gate test, which uses nothing of it', async () => {
    const { gateId, passport, id } = await standing();
    const body = { passport_token: passport.jwt, requested_action: 'orders:create', context: { amount: 5 } };
    const reply = await api.call({ url: `/v1/gates/${gateId}/test`, body });
    expect(reply.body).toMatchObject({ decision: 'allow' });
    expect(await givenOf(api, id)).toBe(0);
  });

  it('leaves the choice to another one that has something left', async () => {
    const { gateId, passport, ask, id } = await standing({
      each_usd: 10,
      total_usd: 10,
      expires_at: at(minuteMs),
    });
    const second = await approveAhead(api, { gate_id: gateId, passport_id: passport.passport_id });
    expect(await ask(10)).toMatchObject({ decision: 'PERMIT' });
    expect(await ask(10)).toMatchObject({ decision: 'PERMIT' });
    // The first to end is used first.
    expect([await givenOf(api, id), await givenOf(api, second.standing_approval_id)]).toEqual([10e6, 10e6]);
  });

  it('shows what it used when the ledger has forgotten it', async () => {
    const { ask, id } = await standing();
    await ask(4);
    api.advance(hourMs + 31 * minuteMs);
    expect(await closeStandingApprovals(api.deps.sql, api.deps.clock.now())).toBeGreaterThan(0);
    await api.deps.sql`DELETE FROM quota_windows WHERE counter LIKE ${`%:${id}`}`;
    expect(await standingApprovalOf(api, id)).toMatchObject({ status: 'expired', used_usd: 4, left_usd: 96 });
    expect(await closeStandingApprovals(api.deps.sql, api.deps.clock.now())).toBe(0);
  });

  it('reaches the sidecars with its gate, and only while it is in force', async () => {
    const { gateId, id, gate } = await standing();
    const told = async () =>
      (await api.changes(gate.account_id ?? (await accountId()))).findLast(
        ({ kind, body }) => kind === 'gate.put' && body.gate_id === gateId,
      )?.body;
    expect((await told()).standing_approvals).toMatchObject([{ standing_approval_id: id }]);
    await api.call({ method: 'PUT', url: `/v1/gates/${gateId}`, body: { name: 'Renamed' } });
    expect((await told()).standing_approvals).toMatchObject([{ standing_approval_id: id }]);
    await endStanding(api, id);
    expect((await told()).standing_approvals).toBeUndefined();
  });
});

const accountId = async (): Promise<string> => {
  const [row] = await api.deps.sql<
    { id: string }[]
  >`SELECT account_id AS id FROM accounts ORDER BY created_at_ms LIMIT 1`;
  return row?.id ?? '';
};

describe('POST /approvals/standing', () => {
  it('refuses what could never apply, naming the field', async () => {
    const { gateId, passport } = await standing();
    const about = { gate_id: gateId, passport_id: passport.passport_id };
    const refused = async (change: object, param: string) => {
      const reply = await create(standingBody(api, { ...about, ...change }));
      expectError(reply, 'invalid_request', param);
    };
    await refused({ each_usd: 0 }, 'each_usd');
    await refused({ each_usd: 0.0000001 }, 'each_usd');
    await refused({ each_usd: 11, total_usd: 10.999999 }, 'total_usd');
    await refused({ total_usd: 1e9 + 1 }, 'total_usd');
    await refused({ expires_at: at(0) }, 'expires_at');
    await refused({ expires_at: at(90 * dayMs + minuteMs) }, 'expires_at');
    await refused({ expires_at: 'tomorrow' }, 'expires_at');
    await refused({ permission_key: 'orders:*' }, 'permission_key');
    await refused({ passport_id: null }, 'passport_id');
    // The rule asks above 1 USD only.
    await refused({ each_usd: 1 }, 'permission_key');
    const offered = await api.createGate({
      constraints: askingRules,
      catalog: { permissions: [{ key: 'orders:refund' }] },
    });
    await refused({ gate_id: offered.gate_id }, 'permission_key');
  });

  it('refuses gates and passports of others as unknown, and takes a stranger that has asked there', async () => {
    const { gateId } = await standing();
    const { key } = await api.createAccount();
    const theirs = await api.issuePassport({}, key);
    const theirGate = (await api.createGate({ constraints: askingRules }, key)).gate_id;
    const own = await api.issuePassport();
    expectError(
      await create(standingBody(api, { gate_id: theirGate, passport_id: own.passport_id })),
      'gate_not_found',
      'gate_id',
    );
    const about = { gate_id: gateId, passport_id: theirs.passport_id };
    expectError(await create(standingBody(api, about)), 'passport_not_found', 'passport_id');
    const open = await api.createGate({ constraints: { ...askingRules, trusted_issuers: ['*'] } });
    expect(await check(open.gate_id, theirs.jwt, order(5))).toMatchObject({ decision: 'SUSPEND' });
    await approveAhead(api, { gate_id: open.gate_id, passport_id: theirs.passport_id });
    expect(await check(open.gate_id, theirs.jwt, order(5))).toMatchObject({ decision: 'PERMIT' });
  });

  it('is for those who may answer a request, and never where each wants several or signed answers', async () => {
    const [ada, ben] = [
      await api.createUser({ role: 'approver' }),
      await api.createUser({ role: 'approver' }),
    ];
    const by = (person: typeof ada, body: object) =>
      api.call({ url: '/v1/approvals/standing', body, key: null, headers: person.headers });
    const gateOf = async (rule: object) =>
      (await api.createGate({ constraints: { approvals: { above_usd: 1, ...rule } } })).gate_id;
    const issuer = await api.createUser({ role: 'admin' });
    const issued = await api.call({
      url: '/v1/passports',
      body: { agent_id: 'of-a-person', permissions: ['orders:create'] },
      key: null,
      headers: issuer.headers,
    });
    const about = (gate_id: string) => standingBody(api, { gate_id, passport_id: issued.body.passport_id });
    const named = about(await gateOf({ approvers: { users: [ada.userId, issuer.userId] } }));
    expectError(await create(named), 'not_an_approver');
    expectError(await by(ben, named), 'not_an_approver');
    // Who issued the passport asks through it.
    expectError(await by(issuer, named), 'not_an_approver');
    expect((await by(ada, named)).status).toBe(201);
    const several = about(await gateOf({ approvers: { users: [ada.userId, ben.userId], count: 2 } }));
    expectError(await by(ada, several), 'not_an_approver');
  });

  it('is bounded per gate, and takes one more when one has ended', async () => {
    const { gateId, passport, id } = await standing();
    const about = { gate_id: gateId, passport_id: passport.passport_id };
    for (let i = 1; i < 64; i++) await approveAhead(api, about);
    const refused = await create(standingBody(api, about));
    expectError(refused, 'invalid_request', 'gate_id');
    expect(refused.body.error.message).toContain('64 standing approvals');
    await endStanding(api, id);
    await approveAhead(api, about);
  });

  it('is listed by gate, passport and status, and found by its account alone', async () => {
    const one = await standing();
    const two = await standing();
    await endStanding(api, two.id);
    const list = async (query: string) =>
      (await api.call({ url: `/v1/approvals/standing?${query}` })).body.items.map(
        (each: Reply['body']) => each.standing_approval_id,
      );
    expect(await list(`gate_id=${one.gateId}`)).toEqual([one.id]);
    expect(await list(`passport_id=${two.passport.passport_id}`)).toEqual([two.id]);
    expect(await list(`gate_id=${two.gateId}&status=active`)).toEqual([]);
    expect(await list(`gate_id=${two.gateId}&status=revoked`)).toEqual([two.id]);
    expect(await list('gate_id=nonsense')).toEqual([]);
    const { key } = await api.createAccount();
    expectError(await api.call({ url: `/v1/approvals/standing/${one.id}`, key }), 'approval_not_found');
    expectError(
      await api.call({ method: 'DELETE', url: `/v1/approvals/standing/${one.id}`, key }),
      'approval_not_found',
    );
  });
});

it('leaves a sound database behind', async () => expect(await brokenRules(api.deps.sql)).toEqual({}));
