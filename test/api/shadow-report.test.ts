import { beforeAll, describe, expect, it } from 'vitest';
import { minuteMs, renderTime, secondMs, type UnixMillis } from '../../shared/model/time.ts';
import { until } from '../support/base/until.ts';
import { type Reply, startOwnApi } from '../support/service/api.ts';
import { goToNoon } from '../support/service/approvals.ts';
import { expectError } from '../support/service/expect-error.ts';
import { useApi, useSidecar } from '../support/service/use-api.ts';
import { subscribe } from '../support/service/webhooks.ts';

/** What shadows have said, and how one becomes the policy of its gate (contract §4). */
const api = useApi(startOwnApi);
const sidecars = [1, 2].map(() => useSidecar(() => ({ api })));
beforeAll(() => goToNoon(api));

const caughtUp = async () => {
  for (const sidecar of sidecars) await sidecar.caughtUp();
};
const call = (method: string, id: string, path: string, rest: object = {}): Promise<Reply> =>
  api.call({ method, url: `/v1/gates/${id}/shadow${path}`, ...rest });
const report = async (id: string, query = ''): Promise<Reply['body']> => {
  const reply = await call('GET', id, `/report${query}`);
  expect(reply.status, JSON.stringify(reply.body)).toBe(200);
  return reply.body;
};
const order = (amount: number, key = 0) => ({ permission_key: 'orders:create', amount, key });

/** A gate, its shadow, and a passport; every sidecar knows them. */
async function shadowed(live: object, patch: object, passport: object = {}) {
  const { gate_id: id } = await api.createGate({ constraints: live });
  const agent = await api.issuePassport(passport);
  const shadow = (await call('PUT', id, '', { body: patch })).body;
  await caughtUp();
  let asked = 0;
  const ask = async (amount: number): Promise<Reply['body']> => {
    // Both have the time of the control plane: the order of their records is that of the requests.
    api.advance(secondMs);
    await caughtUp();
    const [first, second] = sidecars;
    const sidecar = (asked++ % 2 === 0 ? first : second) ?? first;
    return (await sidecar?.check(id, agent.jwt, order(amount, asked)))?.body;
  };
  const counted = (decisions: number) =>
    until(async () => (await report(id)).decisions === decisions, { what: `${decisions} decisions arrive` });
  return { id, agent, shadow, ask, counted };
}

describe('GET /gates/:id/shadow/report', () => {
  it('counts what differs by kind, agent and permission, with the newest ids', async () => {
    const { id, agent, ask, counted } = await shadowed(
      { spend_limits: { per_transaction_usd: 50 } },
      { constraints: { spend_limits: { per_transaction_usd: 20 }, approvals: { above_usd: 10 } } },
    );
    const answers: Reply['body'][] = [];
    for (const amount of [5, 15, 30, 40, 60]) answers.push(await ask(amount));
    await counted(5);
    const found = await report(id);
    const blocked = { from: 'PERMIT', to: 'BLOCK', reason: 'spend_limit_exceeded', condition: null };
    expect(found).toMatchObject({
      decisions: 5,
      same: 2,
      different: [
        { ...blocked, count: 2, amount_usd: 70 },
        { from: 'PERMIT', to: 'SUSPEND', reason: 'approval_required', count: 1, amount_usd: 15 },
      ],
      by_agent: { named: [{ agent_id: agent.agent_id, count: 3, amount_usd: 85 }] },
      by_permission: { named: [{ permission_key: 'orders:create', count: 3, amount_usd: 85 }] },
      undecided: [],
    });
    const ids = [3, 2, 1].map((place) => answers[place].attestation_id);
    expect(found.examples).toEqual(ids);
  });

  it('sums its windows over the records in their order', async () => {
    const { id, ask, counted } = await shadowed(
      { spend_limits: { daily_usd: 1000 } },
      { constraints: { spend_limits: { daily_usd: 50 }, rate_limits: { requests_per_day: 4 } } },
    );
    for (const amount of [30, 30, 10, 5, 4, 1]) {
      expect(await ask(amount)).toMatchObject({ decision: 'PERMIT' });
    }
    await counted(6);
    // 30, 10, 5 and 4 fit; the second 30 does not, and the last is the fifth.
    expect((await report(id)).different).toMatchObject([
      { from: 'PERMIT', to: 'BLOCK', reason: 'spend_limit_exceeded', count: 1, amount_usd: 30 },
      { from: 'PERMIT', to: 'BLOCK', reason: 'rate_limit_exceeded', count: 1, amount_usd: 1 },
    ]);
  });

  it('counts what cannot be known by its cause', async () => {
    const { id, agent, counted } = await shadowed({}, { constraints: { proof_of_possession: 'required' } });
    const request = { ...order(1), proof: 'a.b.c' };
    await sidecars[0]?.check(id, agent.jwt, request);
    await sidecars[0]?.check(id, agent.jwt, order(1));
    await counted(2);
    expect(await report(id)).toMatchObject({
      different: [{ to: 'BLOCK', reason: 'proof_missing', count: 1 }],
      undecided: [{ cause: 'proof', count: 1 }],
    });
  });

  it('is about the time that was asked for, and goes on after the shadow has ended', async () => {
    const { id, ask, counted } = await shadowed({}, { trust_level: 'L3' }, { trust_tier: 'L1' });
    await ask(1);
    await counted(1);
    api.advance(minuteMs);
    const since = encodeURIComponent(renderTime(api.deps.clock.now() as UnixMillis));
    await caughtUp();
    await ask(1);
    await counted(2);
    await call('DELETE', id, '');
    expect((await report(id)).decisions).toBe(2);
    expect((await report(id, `?since=${since}`)).decisions).toBe(1);
    expectError(await call('GET', id, '/report?since=then'), 'invalid_request', 'since');
    expectError(await call('GET', id, `/report?until=${since}&since=${since}`), 'invalid_request', 'since');
    const { key } = await api.createKey({ scopes: ['gates:read'] });
    expectError(await call('GET', id, '/report', { key }), 'insufficient_scope');
  });
});

describe('POST /gates/:id/shadow/promote', () => {
  const tagged = { headers: { 'if-match': '*' } };

  it('makes the shadow the policy, as it was tried, and compares what it does', async () => {
    const hook = await subscribe(api, { url: null, events: ['shadow.ended'] });
    const { id, shadow, ask, counted } = await shadowed(
      {},
      { constraints: { spend_limits: { per_transaction_usd: 20 } } },
    );
    api.advance(minuteMs);
    await caughtUp();
    for (const amount of [5, 30]) expect(await ask(amount)).toMatchObject({ decision: 'PERMIT' });
    await counted(2);
    api.advance(minuteMs / 2);
    const etag = String((await api.call({ url: `/v1/gates/${id}` })).headers['etag']);
    expectError(await call('POST', id, '/promote'), 'invalid_request', 'If-Match');
    expectError(
      await call('POST', id, '/promote', { headers: { 'if-match': '"0"' } }),
      'precondition_failed',
    );
    const promoted = await call('POST', id, '/promote', { headers: { 'if-match': etag } });
    expect(promoted.status, JSON.stringify(promoted.body)).toBe(200);
    expect(promoted.headers['etag']).not.toBe(etag);
    expect(promoted.body.constraints).toEqual(shadow.constraints);
    expect(await hook.deliveries()).toMatchObject([
      { payload: { data: { gate_id: id, reason: 'promoted' } } },
    ]);
    expectError(await call('GET', id, ''), 'shadow_not_found');
    const policies = (await api.call({ url: `/v1/gates/${id}/policies` })).body.items;
    expect(policies[0].policy_hash).toBe(shadow.policy_hash);
    expect((await api.call({ url: `/v1/gates/${id}` })).body.promoted).toMatchObject({ predicted: null });
    await caughtUp();
    api.advance(minuteMs);
    await caughtUp();
    const decided: string[] = [];
    for (const amount of [5, 30]) decided.push((await ask(amount)).decision);
    expect(decided).toEqual(['PERMIT', 'BLOCK']);
    api.advance(minuteMs);
    const counts = { permits: 1, blocks: 1, suspends: 0 };
    await until(
      async () => (await api.call({ url: `/v1/gates/${id}` })).body.promoted.observed?.blocks === 1,
      { what: 'the decisions are counted' },
    );
    const { body } = await api.call({ url: `/v1/gates/${id}` });
    expect(body.promoted).toMatchObject({
      policy_hash: shadow.policy_hash,
      observed: counts,
      predicted: counts,
    });
    const sent = await api.call({ method: 'PUT', url: `/v1/gates/${id}`, body: { ...body, name: 'Other' } });
    expect(sent.status, JSON.stringify(sent.body)).toBe(200);
    await api.call({ method: 'DELETE', url: `/v1/webhooks/${hook.id}` });
  });

  it('is refused without a shadow, and where the live policy is another one', async () => {
    const { id } = await shadowed({}, { trust_level: 'L2' });
    await api.call({ method: 'PUT', url: `/v1/gates/${id}`, body: { trust_level: 'L3' } });
    expectError(await call('POST', id, '/promote', tagged), 'precondition_failed');
    const other = await shadowed({}, { trust_level: 'L2' });
    await call('DELETE', other.id, '');
    expectError(await call('POST', other.id, '/promote', tagged), 'shadow_not_found');
  });
});
