import { beforeAll, describe, expect, it } from 'vitest';
import { readIfMatch } from '../../control-plane/http/entity-tag.ts';
import { startOwnApi } from '../support/service/api.ts';
import { expectError } from '../support/service/expect-error.ts';
import { useApi } from '../support/service/use-api.ts';

const api = useApi(startOwnApi);
let feed: string;
beforeAll(async () => {
  feed = (await api.call({ url: '/v1/accounts' })).body.items[0].account_id;
});

const put = (id: string, body: unknown) => api.call({ method: 'PUT', url: `/v1/gates/${id}`, body });

const constraints = {
  allowed_domains: ['a.example', 'b.example'],
  spend_limits: { per_transaction_usd: 5, alert_at: 0.5 },
};

describe('PUT /gates/:id', () => {
  it('200: answers the changed gate', async () => {
    const gate = await api.createGate({ description: 'old', constraints });
    api.advance(1_000);
    const { status, body } = await put(gate.id, { name: 'New', trust_profile: 'L3' });
    expect(status).toBe(200);
    expect(body).toEqual({
      ...gate,
      name: 'New',
      trust_level: 'L3',
      trust_profile: 'L3',
      updated_at: expect.any(String),
    });
    expect(Date.parse(body.updated_at)).toBeGreaterThan(Date.parse(gate.updated_at));
    expect((await api.call({ url: `/v1/gates/${gate.id}` })).body).toMatchObject(body);
  });

  it.each([
    [
      { spend_limits: { per_transaction_usd: 9 } },
      { ...constraints, spend_limits: { per_transaction_usd: 9, alert_at: 0.5 } },
    ],
    [{ spend_limits: null }, { allowed_domains: constraints.allowed_domains }],
    [{ allowed_domains: ['C.example'] }, { ...constraints, allowed_domains: ['c.example'] }],
    [null, {}],
  ])('merges %j into the constraints', async (patch, merged) => {
    const { id } = await api.createGate({ constraints });
    expect((await put(id, { constraints: patch })).body.constraints).toEqual(merged);
  });

  it('takes a description away with null', async () => {
    const { id } = await api.createGate({ description: 'old' });
    expect((await put(id, { description: null })).body.description).toBe(null);
  });

  it('also goes by the name of a merge patch', async () => {
    const { id } = await api.createGate();
    const headers = { 'content-type': 'application/merge-patch+json' };
    const reply = await api.call({ method: 'PUT', url: `/v1/gates/${id}`, body: { name: 'New' }, headers });
    expect(reply.body.name).toBe('New');
  });

  it('sends the whole gate to the sidecars, under the next version', async () => {
    const { id } = await api.createGate({ constraints });
    const before = (await api.changes(feed)).length;
    await put(id, { trust_level: 'L3' });
    await put(id, { constraints: { spend_limits: null } });
    await put(id, { name: 'Another name' });
    const common = { gate_id: id, account_id: feed, mode: 'live', trust_level: 'L3' };
    const rest = { allowed_domains: constraints.allowed_domains };
    const policy_hash = expect.stringMatching(/^sha256:/);
    const versions = [
      { version: 2, policy_version: 2, constraints },
      { version: 3, policy_version: 3, constraints: rest },
      { version: 4, policy_version: 3, constraints: rest },
    ];
    expect((await api.changes(feed)).slice(before)).toEqual(
      versions.map((each) => ({ kind: 'gate.put', body: { ...common, policy_hash, ...each } })),
    );
  });

  it('loses none of several patches at once', async () => {
    const { id } = await api.createGate();
    const patches = [
      { name: 'New' },
      { description: 'New' },
      { trust_level: 'L2' },
      { constraints: { allowed_domains: ['a.example'] } },
      { constraints: { spend_limits: { per_transaction_usd: 1 } } },
    ];
    await Promise.all(patches.map((patch) => put(id, patch)));
    expect((await api.call({ url: `/v1/gates/${id}` })).body).toMatchObject({
      name: 'New',
      description: 'New',
      trust_level: 'L2',
      constraints: { allowed_domains: ['a.example'], spend_limits: { per_transaction_usd: 1 } },
    });
  });

  it.each<[object, string]>([
    [{ name: null }, 'name'],
    [{ trust_level: 'L1', trust_profile: 'L2' }, 'trust_profile'],
    [{ template_id: 'x' }, 'template_id'],
    [{ constraints: { spend_limits: { weekly_usd: 5 } } }, 'constraints.spend_limits.weekly_usd'],
    [{ constraints: { spend_limits: { per_tx: null } } }, 'constraints.spend_limits.per_tx'],
  ])('400: refuses %j, naming %s, and changes nothing', async (patch, param) => {
    const { id } = await api.createGate({ constraints });
    const before = (await api.call({ url: `/v1/gates/${id}` })).body;
    expectError(await put(id, { description: 'changed', ...patch }), 'invalid_request', param);
    expect((await api.call({ url: `/v1/gates/${id}` })).body).toEqual(before);
  });
});

describe('If-Match', () => {
  const call = (method: string, id: string, ifMatch: string, body?: object) =>
    api.call({ method, url: `/v1/gates/${id}`, headers: { 'if-match': ifMatch }, body });

  it('names the policy by a tag that changes with it', async () => {
    const { id } = await api.createGate();
    expect((await api.call({ url: `/v1/gates/${id}` })).headers['etag']).toBe('"1"');
    expect((await put(id, { name: 'New' })).headers['etag']).toBe('"2"');
    expect((await api.call({ url: `/v1/gates/${id}` })).headers['etag']).toBe('"2"');
  });

  it.each([
    ...['"1"', ' * ', '"a,b" , "1"'],
    // As proxies that compress hand it out: nginx, Apache.
    ...['W/"1"', '"0", W/"1"', '"1-gzip"', 'W/"1-br"'],
  ])('lets %j through at version 1', async (tag) => {
    const { id } = await api.createGate();
    expect((await call('PUT', id, tag, { name: 'New' })).status).toBe(200);
  });

  it.each(['W/"2"', '"0", "2"', '"2-gzip"', '"-gzip"', '"1-"'])(
    '412: %j at version 1, and changes nothing',
    async (tag) => {
      const { id } = await api.createGate();
      const before = (await api.changes(feed)).length;
      expectError(await call('PUT', id, tag, { name: 'New' }), 'precondition_failed');
      expectError(await call('DELETE', id, tag), 'precondition_failed');
      expect((await api.call({ url: `/v1/gates/${id}` })).body.name).toBe('Orders');
      expect(await api.changes(feed)).toHaveLength(before);
    },
  );

  it('400: is no list of tags', async () => {
    const { id } = await api.createGate();
    expectError(await call('PUT', id, '1', { name: 'New' }), 'invalid_request', 'If-Match');
    expectError(await call('DELETE', id, '1'), 'invalid_request', 'If-Match');
    for (const tags of ['', '"1', '1"', '"1" "2"', '"1",', ',"1"', '*, "1"', 'w/"1"', '"a b"'])
      expect(() => readIfMatch(tags), tags).toThrow('If-Match');
  });

  it.each([
    {},
    { description: null, constraints: { approvals: null, spend_limits: { daily_usd: null } } },
    { constraints: { allowed_domains: ['A.example.', 'b.example'] } },
  ])('names the same policy after a patch that changes nothing: %j', async (patch) => {
    const gate = await api.createGate({ constraints });
    api.advance(1_000);
    const before = (await api.changes(feed)).length;
    const first = await call('PUT', gate.id, '"1"', patch);
    expect(first).toMatchObject({ status: 200, body: gate });
    expect(first.headers['etag']).toBe('"1"');
    expect((await call('PUT', gate.id, '"1"', patch)).status).toBe(200);
    expectError(await call('PUT', gate.id, '"0"', patch), 'precondition_failed');
    expect(await api.changes(feed)).toHaveLength(before);
  });

  it('accepts one of two writers with the same tag', async () => {
    const { id } = await api.createGate();
    const replies = await Promise.all(['a', 'b', 'c'].map((name) => call('PUT', id, '"1"', { name })));
    expect(replies.map(({ status }) => status).sort()).toEqual([200, 412, 412]);
  });

  it('lets a DELETE through that has read the newest', async () => {
    const { id } = await api.createGate();
    expect((await call('DELETE', id, '"1"')).status).toBe(200);
  });
});

describe('DELETE /gates/:id', () => {
  it('200: deletes the gate, also at the sidecars', async () => {
    const { id } = await api.createGate();
    const before = (await api.changes(feed)).length;
    const remove = () => api.call({ method: 'DELETE', url: `/v1/gates/${id}` });
    const { status, body } = await remove();
    expect(status).toBe(200);
    expect(body).toEqual({ gate_id: id, id, deleted: true, deleted_at: expect.stringMatching(/\.\d{3}Z$/) });
    expect((await api.changes(feed)).slice(before)).toEqual([{ kind: 'gate.delete', body: { gate_id: id } }]);
    expectError(await remove(), 'gate_not_found');
    expectError(await put(id, { name: 'a' }), 'gate_not_found');
    expectError(await api.call({ url: `/v1/gates/${id}` }), 'gate_not_found');
  });
});
