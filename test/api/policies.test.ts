import { beforeAll, describe, expect, it } from 'vitest';
import { keepPolicyOf } from '../../control-plane/gates/keep-policies.ts';
import { findUnkeptGates } from '../../control-plane/gates/policy-store.ts';
import { takeSnapshot } from '../../control-plane/sync/take-snapshot.ts';
import { contentHash } from '../../shared/crypto/content-hash.ts';
import { must } from '../../shared/errors/assert.ts';
import type { AccountId } from '../../shared/model/ids.ts';
import { type Reply, startOwnApi } from '../support/service/api.ts';
import { useApi } from '../support/service/use-api.ts';

const api = useApi(startOwnApi);
let accountId: AccountId;
beforeAll(async () => {
  accountId = (await api.call({ url: '/v1/accounts' })).body.items[0].account_id;
});

const put = (id: string, body: object) => api.call({ method: 'PUT', url: `/v1/gates/${id}`, body });
const publish = async (id: string, permissions: readonly object[]): Promise<Reply['body']> =>
  (await api.call({ method: 'POST', url: `/v1/gates/${id}/catalog`, body: { permissions } })).body;

/** What the contract says a stranger can compute, from public answers alone. */
async function computedHash(id: string): Promise<string> {
  const gate = (await api.call({ url: `/v1/gates/${id}` })).body;
  const catalog = await api.call({ url: `/v1/gates/${id}/catalog`, key: null });
  const isPublished = catalog.status === 200;
  return contentHash({
    catalog_hash: isPublished ? catalog.body.content_hash : null,
    catalog_version: isPublished ? catalog.body.version : null,
    constraints: gate.constraints,
    routes: gate.routes ?? [],
    trust_level: gate.trust_level,
  });
}

async function inFeed(id: string): Promise<string | undefined> {
  const changes = await api.changes(accountId);
  return changes.filter(({ kind, body }) => kind === 'gate.put' && body.gate_id === id).at(-1)?.body
    .policy_hash;
}

async function inSnapshot(id: string): Promise<string | undefined> {
  const pieces = await takeSnapshot(api.deps, accountId);
  const { gates } = JSON.parse(JSON.parse(Buffer.concat([...pieces]).toString()).snapshot);
  return gates.find((gate: { gate_id: string }) => gate.gate_id === id).policy_hash;
}

async function expectKept(id: string): Promise<string> {
  const hash = await computedHash(id);
  expect(await inFeed(id)).toBe(hash);
  expect(await inSnapshot(id)).toBe(hash);
  const [kept] = await api.deps.sql`SELECT body, signature FROM policies WHERE policy_hash = ${hash}`;
  expect(contentHash(JSON.parse(must(kept, 'it is kept')['body']))).toBe(hash);
  return hash;
}

describe('policies of gates', () => {
  it('are kept with each change of what decides, under the hash of the contract', async () => {
    const { gate_id: id } = await api.createGate({
      constraints: { spend_limits: { daily_usd: 0.000001, alert_at: 0.5 }, allowed_domains: ['A.example'] },
      routes: [{ path: '/größe/:id', permission_key: 'orders:read', amount_usd: 0.1 }],
    });
    const hashes = [await expectKept(id)];
    await publish(id, [{ key: 'orders:read', pricing: { model: 'own', weight: 1e-9 } }]);
    hashes.push(await expectKept(id));
    await publish(id, [{ key: 'orders:read', pricing: { model: 'own', weight: 1e-9 } }]);
    hashes.push(await expectKept(id));
    await put(id, { trust_level: 'L2' });
    hashes.push(await expectKept(id));
    await put(id, { routes: null });
    hashes.push(await expectKept(id));
    expect(new Set(hashes).size).toBe(5);
    await put(id, { name: 'Another', labels: { team: 'a' } });
    expect(await expectKept(id)).toBe(hashes.at(-1));
  });

  it('are those of a gate with its first catalog', async () => {
    const { gate_id: id } = await api.createGate({ catalog: { permissions: [{ key: 'orders:create' }] } });
    await expectKept(id);
  });

  it('have one row for gates that decide alike, and a row for each version of a gate', async () => {
    const [one, other] = [await api.createGate({}), await api.createGate({ name: 'Other' })];
    expect(await expectKept(one.gate_id)).toBe(await expectKept(other.gate_id));
    await put(one.gate_id, { constraints: { allowed_domains: ['b.example'] } });
    await put(one.gate_id, { constraints: { allowed_domains: null } });
    const rows = await api.deps.sql`
      SELECT policy_hash FROM gate_policies WHERE gate_id = ${one.gate_id} ORDER BY policy_version`;
    expect(rows).toHaveLength(3);
    expect(rows[2]).toEqual(rows[0]);
  });

  it('of a change by a replica of the version before are kept and published afterwards', async () => {
    const { gate_id: id } = await api.createGate({});
    await api.deps.sql`
      UPDATE gates SET constraints = '{"allowed_domains":["c.example"]}', version = version + 1,
        policy_version = version + 1 WHERE gate_id = ${id}`;
    expect(await inSnapshot(id)).toBeUndefined();
    const unkept = await findUnkeptGates(api.deps.sql, 10);
    expect(unkept.map(({ gateId }) => gateId)).toEqual([id]);
    const before = (await api.changes(accountId)).length;
    for (const gate of [...unkept, ...unkept]) await keepPolicyOf(api.deps, gate);
    await expectKept(id);
    expect(await api.changes(accountId)).toHaveLength(before + 1);
    expect(await findUnkeptGates(api.deps.sql, 10)).toEqual([]);
  });

  it('are listed newest first, and found by their hash by the account that had them, and no other', async () => {
    const { gate_id: id } = await api.createGate({});
    await put(id, { constraints: { allowed_domains: ['only-here.example'] } });
    await publish(id, [{ key: 'orders:read' }]);
    const list = (query: string) => api.call({ url: `/v1/gates/${id}/policies${query}` });
    const { body } = await list('?limit=2');
    expect(body.items.map((each: Reply['body']) => each.policy_version)).toEqual([3, 2]);
    const rest = (await list(`?limit=2&cursor=${body.next_cursor}`)).body;
    expect([rest.items.length, rest.items[0].policy_version, rest.next_cursor]).toEqual([1, 1, null]);
    const [newest] = body.items;
    expect(newest).toMatchObject({ policy_hash: await computedHash(id), trust_level: 'L1' });
    const url = `/v1/policies/${newest.policy_hash}`;
    const found = (await api.call({ url })).body;
    expect(found).toMatchObject({ policy_hash: newest.policy_hash, first_used_at: newest.since });
    expect(contentHash(found.body)).toBe(newest.policy_hash);
    const other = await api.createAccount();
    for (const key of [other.key, (await api.createKey({ scopes: ['gates:read'], mode: 'test' })).key])
      expect((await api.call({ url, key })).body.error.code).toBe('policy_not_found');
    expect((await api.call({ url: `/v1/gates/${id}/policies`, key: other.key })).status).toBe(404);
    await api.call({ method: 'DELETE', url: `/v1/gates/${id}` });
    expect((await api.call({ url })).status).toBe(200);
  });
});
