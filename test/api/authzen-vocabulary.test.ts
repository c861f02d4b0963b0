import { describe, expect, it } from 'vitest';
import { expectError } from '../support/service/expect-error.ts';
import { useApi } from '../support/service/use-api.ts';

const api = useApi();

const url = '/v1/authzen/vocabulary';
const put = (body: unknown, key = api.adminKey) => api.call({ method: 'PUT', url, body, key });

describe('the AuthZEN vocabulary of an account', () => {
  it('is empty at first, replaced as a whole, and on record', async () => {
    const { key } = await api.createAccount();
    expect((await api.call({ url, key })).body).toEqual({ resources: [], actions: [] });
    const { gate_id } = await api.createGate({}, key);
    const vocabulary = {
      resources: [
        { type: 'record', id: 'a', gate_id, properties: { status: 'active' } },
        { type: 'file', gate_id },
      ],
      actions: [
        {
          ...{ resource_type: 'record', name: 'read', permission_key: 'orders:create' },
          when: { action: { soft: true } },
        },
      ],
    };
    expect((await put(vocabulary, key)).body).toEqual(vocabulary);
    expect((await api.call({ url, key })).body).toEqual(vocabulary);
    expect((await put({ resources: [], actions: [] }, key)).status).toBe(200);
    expect((await api.call({ url, key })).body).toEqual({ resources: [], actions: [] });
    const { entries } = (await api.call({ url: '/v1/audit?operation=setAuthzenVocabulary', key })).body;
    expect(entries.map(({ after }: { after: unknown }) => after)).toMatchObject([
      { resources: [], actions: [] },
      vocabulary,
    ]);
  });

  it('names gates of its own account and mode, permissions, and no type of ours', async () => {
    const { key } = await api.createAccount();
    const { gate_id } = await api.createGate({}, key);
    const foreign = (await api.createGate()).gate_id;
    const resource = (change: object) => ({
      resources: [{ type: 'record', gate_id, ...change }],
      actions: [],
    });
    expectError(await put(resource({ gate_id: foreign }), key), 'invalid_request', 'resources.0.gate_id');
    expectError(await put(resource({ gate_id: 'x' }), key), 'invalid_request', 'resources.0.gate_id');
    expectError(await put(resource({ type: 'gate' }), key), 'invalid_request', 'resources.0.type');
    const action = { resource_type: 'record', name: 'read', permission_key: 'orders:*' };
    expect((await put({ resources: [], actions: [action] }, key)).status).toBe(400);
    expect((await put(resource({ properties: { status: '\u0000' } }), key)).status).toBe(400);
    expect((await put({ resources: [] }, key)).status).toBe(400);
    expect((await put({ resources: [], actions: [], more: 1 }, key)).status).toBe(400);
  });

  it('puts type and id of the resource into the request, and takes no gate that is gone', async () => {
    const { key } = await api.createAccount();
    const { gate_id } = await api.createGate({}, key);
    const { agent_id } = await api.issuePassport({ permissions: ['files:read'] }, key);
    const actions = [{ resource_type: 'file', name: 'read', permission_key: 'files:read' }];
    await put({ resources: [{ type: 'file', gate_id }], actions }, key);
    const body = { subject: { type: 'user', id: agent_id }, action: { name: 'read' } };
    const evaluate = (resource: object) =>
      api.call({ url: '/access/v1/evaluation', body: { ...body, resource }, key });
    const hashes: string[] = [];
    for (const id of ['a', 'b']) {
      const { body: answer } = await evaluate({ type: 'file', id });
      expect(answer.decision).toBe(true);
      const record = await api.call({ url: `/v1/attestations/${answer.context.attestation_id}`, key });
      hashes.push(record.body.request_hash);
    }
    expect(new Set(hashes).size).toBe(2);
    // Only those with an id can be listed.
    const search = { ...body, resource: { type: 'file' } };
    expect((await api.call({ url: '/access/v1/search/resource', body: search, key })).body.results).toEqual(
      [],
    );
    expectError(await evaluate({ type: 'folder', id: 'a' }), 'invalid_request', 'resource.type');
    await api.call({ method: 'DELETE', url: `/v1/gates/${gate_id}`, body: {}, key });
    expectError(await evaluate({ type: 'file', id: 'a' }), 'gate_not_found');
  });

  it('is each mode its own', async () => {
    const { key } = await api.createAccount();
    const { key: test } = await api.createKey({ scopes: ['gates:manage'], mode: 'test' }, key);
    const { gate_id } = await api.createGate({}, key);
    await put({ resources: [{ type: 'file', gate_id }], actions: [] }, key);
    expect((await api.call({ url, key: test })).body.resources).toEqual([]);
    const refused = await put({ resources: [{ type: 'file', gate_id }], actions: [] }, test);
    expectError(refused, 'invalid_request', 'resources.0.gate_id');
  });
});
