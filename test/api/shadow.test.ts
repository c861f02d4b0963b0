import { beforeAll, describe, expect, it } from 'vitest';
import { takeSnapshot } from '../../control-plane/sync/take-snapshot.ts';
import { contentHash } from '../../shared/crypto/content-hash.ts';
import type { AccountId } from '../../shared/model/ids.ts';
import { dayMs, hourMs, secondMs } from '../../shared/model/time.ts';
import { until } from '../support/base/until.ts';
import { type Reply, startOwnApi } from '../support/service/api.ts';
import { expectError } from '../support/service/expect-error.ts';
import { askForward } from '../support/service/forward-auth.ts';
import { useApi, useSidecar } from '../support/service/use-api.ts';
import { subscribe } from '../support/service/webhooks.ts';

/** Policies that gates try beside their own (contract §4). */
const api = useApi(startOwnApi);
const sidecar = useSidecar(() => ({ api }));
let accountId: AccountId;
beforeAll(async () => {
  accountId = (await api.call({ url: '/v1/accounts' })).body.items[0].account_id;
});

const constraints = { spend_limits: { per_transaction_usd: 50 }, allowed_domains: ['*.example.com'] };
const newGate = async (body: object = {}): Promise<string> =>
  (await api.createGate({ constraints, ...body })).gate_id;
const put = (id: string, body: object): Promise<Reply> =>
  api.call({ method: 'PUT', url: `/v1/gates/${id}/shadow`, body });
const get = (id: string): Promise<Reply> => api.call({ url: `/v1/gates/${id}/shadow` });
const order = { permission_key: 'orders:create', amount: 30, domain: 'api.example.com' };

async function inFeed(id: string): Promise<object | undefined> {
  const changes = await api.changes(accountId);
  return changes.filter(({ kind, body }) => kind === 'gate.put' && body.gate_id === id).at(-1)?.body.shadow;
}

async function inSnapshot(id: string): Promise<object | undefined> {
  const pieces = await takeSnapshot(api.deps, accountId);
  const { gates } = JSON.parse(JSON.parse(Buffer.concat([...pieces]).toString()).snapshot);
  return gates.find((gate: { gate_id: string }) => gate.gate_id === id).shadow;
}

/** What the record says, once it has arrived. */
async function shadowOf(attestationId: string): Promise<object | null> {
  const url = `/v1/attestations/${attestationId}`;
  await until(async () => (await api.call({ url })).status === 200, { what: 'the record arrives' });
  return (await api.call({ url })).body.shadow;
}

describe('PUT /gates/:id/shadow', () => {
  it('200: a merge patch on the live policy, which stays as it is', async () => {
    const id = await newGate({ routes: [{ path: '/a', permission_key: 'a:b' }] });
    const live = (await api.call({ url: `/v1/gates/${id}` })).body;
    const { status, body } = await put(id, { constraints: { spend_limits: { per_transaction_usd: 20 } } });
    expect(status, JSON.stringify(body)).toBe(200);
    const after = { ...constraints, spend_limits: { per_transaction_usd: 20 } };
    expect(body).toMatchObject({ gate_id: id, trust_level: 'L1', constraints: after, routes: live.routes });
    expect(Date.parse(body.expires_at) - Date.parse(body.created_at)).toBe(7 * dayMs);
    const policy = { catalog_hash: null, catalog_version: null, trust_level: 'L1' };
    const hashOf = (of: object) => contentHash({ ...policy, routes: live.routes, constraints: of });
    expect(body.policy_hash).toBe(hashOf(after));
    expect(body.base_policy_hash).toBe(hashOf(constraints));
    expect((await get(id)).body).toEqual(body);
    expect((await api.call({ url: `/v1/gates/${id}` })).body).toEqual(live);
    expect((await api.call({ url: `/v1/policies/${body.policy_hash}` })).body.body.constraints).toEqual(
      after,
    );
  });

  it('is in the feed and in the snapshot of sidecars, in one form, until it is not', async () => {
    const id = await newGate();
    const { body } = await put(id, {
      trust_level: 'L2',
      constraints: { approvals: { above_usd: 1 }, holds: { on_expiry: 'release' } },
    });
    const told = {
      policy_hash: body.policy_hash,
      expires_at_ms: Date.parse(body.expires_at),
      trust_level: 'L2',
      constraints: { ...constraints, approvals: { above_usd: 1 } },
    };
    expect(await inFeed(id)).toEqual(told);
    expect(await inSnapshot(id)).toEqual(told);
    await api.call({ method: 'PUT', url: `/v1/gates/${id}`, body: { name: 'Another' } });
    expect(await inFeed(id)).toEqual(told);
    await api.call({ method: 'DELETE', url: `/v1/gates/${id}/shadow` });
    expect([await inFeed(id), await inSnapshot(id)]).toEqual([undefined, undefined]);
  });

  it.each([
    [{}, 'constraints'],
    [{ expires_in_s: 60 }, 'constraints'],
    [{ trust_level: 'L1' }, 'constraints'],
    [{ trust_level: 'L2', expires_in_s: 2_592_001 }, 'expires_in_s'],
    [{ trust_level: null }, 'trust_level'],
    [{ name: 'a' }, 'name'],
    [{ constraints: { spend: null } }, 'constraints.spend'],
    [{ constraints: { allowed_domains: ['::'] } }, 'constraints.allowed_domains.0'],
  ])('400: %j', async (body, param) => {
    const id = await newGate();
    expectError(await put(id, body), 'invalid_request', param);
    expectError(await get(id), 'shadow_not_found');
  });

  it('goes on for longer with the same policy, and begins anew with another', async () => {
    const id = await newGate();
    const first = (await put(id, { trust_level: 'L2', expires_in_s: 60 })).body;
    api.advance(30 * secondMs);
    const again = (await put(id, { trust_level: 'L2', expires_in_s: 60 })).body;
    expect(again.created_at).toBe(first.created_at);
    expect(Date.parse(again.expires_at) - Date.parse(first.expires_at)).toBeGreaterThanOrEqual(30 * secondMs);
    expect((await put(id, { trust_level: 'L3' })).body.created_at).not.toBe(first.created_at);
  });

  it('expires by the time of who looks', async () => {
    const id = await newGate();
    await put(id, { trust_level: 'L2', expires_in_s: 60 });
    api.advance(61 * secondMs);
    expectError(await get(id), 'shadow_not_found');
    expectError(await api.call({ method: 'DELETE', url: `/v1/gates/${id}/shadow` }), 'shadow_not_found');
  });
});

describe('a shadow', () => {
  it.each<[string, string, (id: string) => Promise<unknown>]>([
    [
      'with a change of the live policy',
      'policy_changed',
      (id) => api.call({ method: 'PUT', url: `/v1/gates/${id}`, body: { trust_level: 'L3' } }),
    ],
    [
      'with a new catalog',
      'policy_changed',
      (id) => api.call({ url: `/v1/gates/${id}/catalog`, body: { permissions: [{ key: 'orders:create' }] } }),
    ],
    ['with its gate', 'gate_deleted', (id) => api.call({ method: 'DELETE', url: `/v1/gates/${id}` })],
    ['by request', 'deleted', (id) => api.call({ method: 'DELETE', url: `/v1/gates/${id}/shadow` })],
    ['for another one', 'replaced', (id) => put(id, { trust_level: 'L3' })],
  ])('ends %s, once, and says so', async (_, reason, end) => {
    const { key } = await api.createAccount();
    const hook = await subscribe(api, { url: null, events: ['shadow.ended'] });
    const id = await newGate();
    const { policy_hash, base_policy_hash } = (await put(id, { trust_level: 'L2' })).body;
    await end(id);
    const told = (await hook.deliveries()).map(({ payload }) => payload.data);
    expect(told).toEqual([{ gate_id: id, policy_hash, base_policy_hash, reason }]);
    if (reason !== 'replaced') expect((await get(id)).status).toBe(404);
    expectError(await api.call({ url: `/v1/gates/${id}/shadow`, key }), 'gate_not_found');
    await api.call({ method: 'DELETE', url: `/v1/webhooks/${hook.id}` });
  });
});

/** The same request at the control plane and at a sidecar. */
const doors = [
  ['the control plane', (id: string, jwt: string, request: object) => atControlPlane(id, jwt, request)],
  ['a sidecar', (id: string, jwt: string, request: object) => sidecar.check(id, jwt, request)],
] as const;
const atControlPlane = (id: string, passport: string, request: object) =>
  api.call({ url: `/v1/gates/${id}/check`, body: { passport, request } });

describe.each(doors)('records of %s', (_, check) => {
  it.each([
    ['the same', { holds: { on_expiry: 'release' } }, order, 'PERMIT', null],
    [
      'a smaller limit',
      { spend_limits: { per_transaction_usd: 20 } },
      order,
      'BLOCK',
      'spend_limit_exceeded',
    ],
    ['another domain', { allowed_domains: ['other.example'] }, order, 'BLOCK', 'domain_not_allowed'],
    ['a person to ask', { approvals: { above_usd: 1 } }, order, 'SUSPEND', 'approval_required'],
    ['a proof that is not there', { proof_of_possession: 'required' }, order, 'BLOCK', 'proof_missing'],
    ['a window, which is passed over', { spend_limits: { daily_usd: 1 } }, order, 'PERMIT', null],
    [
      'a scan',
      { pii_controls: { mode: 'block' } },
      { ...order, to: 'a@example.com' },
      'BLOCK',
      'pii_detected',
    ],
  ])('say what a policy with %s says', async (_, patch, request, decision, reason) => {
    const id = await newGate();
    const { jwt } = await api.issuePassport();
    const { policy_hash } = (await put(id, { constraints: patch })).body;
    await sidecar.caughtUp();
    const { body } = await check(id, jwt, request);
    expect(body).toMatchObject({ decision: 'PERMIT' });
    expect(await shadowOf(body.attestation_id)).toEqual({ condition: null, decision, policy_hash, reason });
  });

  it('say what a policy would have let pass', async () => {
    const id = await newGate({ constraints: { spend_limits: { per_transaction_usd: 1 } } });
    const { jwt } = await api.issuePassport();
    const { policy_hash } = (await put(id, { constraints: { spend_limits: null } })).body;
    await sidecar.caughtUp();
    const { body } = await check(id, jwt, order);
    expect(body).toMatchObject({ decision: 'BLOCK', reason: 'spend_limit_exceeded' });
    const verdict = { condition: null, decision: 'PERMIT', policy_hash, reason: null };
    expect(await shadowOf(body.attestation_id)).toEqual(verdict);
  });

  it('say it of a SUSPEND once it has ended, as it was when a person was asked', async () => {
    const id = await newGate({ constraints: { approvals: { above_usd: 10 } } });
    const { jwt, passport_id } = await api.issuePassport();
    const { policy_hash } = (await put(id, { constraints: { approvals: null } })).body;
    await sidecar.caughtUp();
    const { body } = await check(id, jwt, order);
    expect(body).toMatchObject({ decision: 'SUSPEND' });
    await api.call({ method: 'DELETE', url: `/v1/gates/${id}/shadow` });
    await api.call({ method: 'POST', url: `/v1/approvals/${body.approval_id}/deny` });
    const list = (await api.call({ url: `/v1/attestations?passport_id=${passport_id}` })).body.attestations;
    const verdict = { condition: null, decision: 'PERMIT', policy_hash, reason: null };
    expect(list).toMatchObject([{ decision: 'SUSPEND', resolution: 'denied', shadow: verdict }]);
  });

  it('say nothing of one that has expired, and nothing without one', async () => {
    const id = await newGate();
    const { jwt } = await api.issuePassport();
    await sidecar.caughtUp();
    expect(await shadowOf((await check(id, jwt, order)).body.attestation_id)).toBe(null);
    await put(id, { trust_level: 'L3', expires_in_s: 3600 });
    await sidecar.caughtUp();
    api.advance(hourMs + secondMs);
    await sidecar.caughtUp();
    expect(await shadowOf((await check(id, jwt, order)).body.attestation_id)).toBe(null);
  });

  it('are the same beside a shadow that takes, asks and holds nothing', async () => {
    const id = await newGate({ constraints: { spend_limits: { daily_usd: 60 } } });
    const { jwt } = await api.issuePassport();
    await put(id, { constraints: { spend_limits: { daily_usd: 1000 }, approvals: { above_usd: 1 } } });
    await sidecar.caughtUp();
    const answers = [];
    for (let i = 0; i < 3; i++) answers.push((await check(id, jwt, { ...order, key: i })).body.reason);
    expect(answers).toEqual([null, null, 'spend_limit_exceeded']);
    expect((await api.call({ url: '/v1/approvals?status=pending' })).body.items).toEqual([]);
  });
});

it('reads a request at the per-gate address by its own routes', async () => {
  const id = await newGate({
    constraints: { spend_limits: { per_transaction_usd: 50, unpriced: 'permit' } },
    routes: [{ path: '/orders/*', permission_key: 'orders:create' }],
  });
  const { jwt } = await api.issuePassport();
  const routes = [
    { path: '/orders/:id/refund', permission_key: 'orders:refund' },
    { path: '/orders/*', permission_key: 'orders:create', amount_usd: 60 },
  ];
  const { policy_hash } = (await put(id, { routes })).body;
  await sidecar.caughtUp();
  const ask = async (path: string) => {
    const headers = [['Authorization', `Passport ${jwt}`] as const];
    const answer = await askForward(sidecar, { target: `/${id}${path}`, headers });
    expect(answer).toMatchObject({ status: 200, decision: 'PERMIT' });
    return shadowOf(answer?.attestationId ?? '');
  };
  const blocked = (reason: string) => ({ condition: null, decision: 'BLOCK', policy_hash, reason });
  expect(await ask('/orders/7/refund')).toEqual(blocked('permission_not_granted'));
  expect(await ask('/orders/7')).toEqual(blocked('spend_limit_exceeded'));
});

it('leaves a gate test without a word about it', async () => {
  const id = await newGate();
  await put(id, { trust_level: 'L3' });
  const { jwt } = await api.issuePassport();
  const body = { passport_token: jwt, requested_action: 'orders:create' };
  const { attestation_id } = (await api.call({ url: `/v1/gates/${id}/test`, body })).body;
  expect(await shadowOf(attestation_id)).toBe(null);
});
