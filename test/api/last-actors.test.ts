import { beforeAll, describe, expect, it } from 'vitest';
import type { Api, Reply } from '../support/service/api.ts';
import { expectError } from '../support/service/expect-error.ts';
import { startTools } from '../support/service/tools.ts';
import { useStarted } from '../support/service/use-api.ts';
import { subscribe } from '../support/service/webhooks.ts';

/** Who changed a gate last, and who revoked a passport (contract §16). */
const tools = useStarted(startTools);
let api: Api;
beforeAll(() => {
  api = tools.api;
});

interface Key {
  readonly keyId: string;
  readonly key: string;
}

const actorOf = ({ keyId }: Key) => ({ type: 'api_key', id: keyId, client_id: null });
const newKey = (...scopes: string[]): Promise<Key> => api.createKey({ scopes });
const get = async (url: string): Promise<Reply['body']> => (await api.call({ url })).body;
const lastAuditedActor = async (target: string) =>
  (await get(`/v1/audit?target=${target}&limit=1`)).entries[0].actor;

describe('a gate names the author of its last change', () => {
  const change = async (method: string, url: string, key: Key, body: object) => {
    const reply = await api.call({ method, url, key: key.key, body });
    expect(reply.status, JSON.stringify(reply.body)).toBeLessThan(300);
    return reply.body;
  };
  const offer = { permissions: [{ key: 'orders:create' }] };

  it('in every answer about it, as the audit entry of that change names them', async () => {
    const editor = await newKey('gates:update');
    const { gate_id: gateId } = await api.createGate();
    const url = `/v1/gates/${gateId}`;
    const updated = await change('PUT', url, editor, { description: 'Another' });
    const listed = (await get('/v1/gates?limit=200')).items.find(
      (gate: { gate_id: string }) => gate.gate_id === gateId,
    );
    for (const gate of [updated, await get(url), listed])
      expect(gate.last_changed_by).toEqual(actorOf(editor));
    expect(await lastAuditedActor(gateId)).toEqual(actorOf(editor));
    const publisher = await newKey('gates:update');
    await change('POST', `${url}/catalog`, publisher, offer);
    expect((await get(url)).last_changed_by).toEqual(actorOf(publisher));
    expect(await lastAuditedActor(gateId)).toEqual(actorOf(publisher));
  });

  it('and not of a change that changes nothing, or was refused', async () => {
    const maker = await newKey('gates:create');
    const other = await newKey('gates:update');
    const { gate_id: gateId } = await change('POST', '/v1/gates', maker, { name: 'a', trust_level: 'L1' });
    const url = `/v1/gates/${gateId}`;
    const same = await change('PUT', url, other, { name: 'a' });
    expect(same.last_changed_by).toEqual(actorOf(maker));
    const refused = { method: 'PUT', url, key: other.key, body: { name: 'b', trust_level: null } };
    expectError(await api.call(refused), 'invalid_request', 'trust_level');
    expect((await get(url)).last_changed_by).toEqual(actorOf(maker));
  });

  it('and takes it back in a PUT, but no other actor', async () => {
    const { gate_id: gateId } = await api.createGate();
    const url = `/v1/gates/${gateId}`;
    const editor = await newKey('gates:update', 'gates:read');
    const read = await get(url);
    // The order of members in an object says nothing.
    const reordered = Object.fromEntries(Object.entries(read.last_changed_by).toReversed());
    await change('PUT', url, editor, { ...read, last_changed_by: reordered, name: 'Another' });
    for (const wrong of [null, { ...read.last_changed_by, id: 'key_another' }]) {
      const body = { last_changed_by: wrong, name: 'A third' };
      expectError(
        await api.call({ method: 'PUT', url, key: editor.key, body }),
        'invalid_request',
        'last_changed_by',
      );
    }
    expect(await get(url)).toMatchObject({ name: 'Another', last_changed_by: actorOf(editor) });
  });

  it('unless an earlier version of the service made it: null', async () => {
    const { gate_id: gateId } = await api.createGate();
    await api.deps.sql`UPDATE gates SET last_changed_by = NULL WHERE gate_id = ${gateId}`;
    const url = `/v1/gates/${gateId}`;
    const read = await get(url);
    expect(read.last_changed_by).toBeNull();
    const editor = await newKey('gates:update');
    const updated = await change('PUT', url, editor, { ...read, name: 'Another' });
    expect(updated.last_changed_by).toEqual(actorOf(editor));
  });
});

describe('a passport names the author of its revocation', () => {
  const revoke = async (passportId: string, key: Key) => {
    const reply = await api.call({ url: `/v1/passports/${passportId}/revoke`, key: key.key, body: {} });
    expect(reply.status, JSON.stringify(reply.body)).toBe(200);
    return reply.body;
  };

  it('a key other than the one that issued it; a second revocation leaves the first actor', async () => {
    const { passport_id: id } = await api.issuePassport();
    const [first, second] = [await newKey('passports:revoke'), await newKey('passports:revoke')];
    expect((await revoke(id, first)).revoked_by).toEqual(actorOf(first));
    expect((await revoke(id, second)).revoked_by).toEqual(actorOf(first));
    expect((await get(`/v1/passports/${id}`)).revoked_by).toEqual(actorOf(first));
    expect(await lastAuditedActor(id)).toEqual(actorOf(first));
  });

  it('the key and the client of an access token', async () => {
    const { passport_id: id } = await api.issuePassport();
    const key = await newKey('passports:revoke');
    const token = await tools.accessTokenOf(key);
    const response = await tools.call(token, 'revoke_passport', { passport_id: id });
    const { result } = (await response.json()) as Reply['body'];
    // With client credentials the key is its own client.
    const actor = { type: 'access_token', id: key.keyId, client_id: key.keyId };
    expect(result.structuredContent.revoked_by).toEqual(actor);
    expect((await get(`/v1/passports/${id}`)).revoked_by).toEqual(actor);
    expect(await lastAuditedActor(id)).toEqual(actor);
  });

  it('unless an earlier version of the service revoked it: null, also where it is revoked again', async () => {
    const { passport_id: id } = await api.issuePassport();
    const key = await newKey('passports:revoke');
    await revoke(id, key);
    await api.deps.sql`UPDATE passports SET revoked_by = NULL WHERE passport_id = ${id}`;
    expect((await revoke(id, key)).revoked_by).toBeNull();
    expect(await get(`/v1/passports/${id}`)).toMatchObject({ status: 'revoked', revoked_by: null });
  });
});

it('shows no actor to strangers, to sidecars and to webhooks', async () => {
  const own = await api.createAccount();
  const { body: made } = await api.call({
    url: '/v1/api-keys',
    key: own.key,
    body: { name: 'a', scopes: ['admin:*'] },
  });
  const hook = await subscribe(api, { url: null, events: ['gate.created', 'passport.revoked'] }, own.key);
  const area = 'lastactors';
  const catalog = { permissions: [{ key: `${area}:create` }] };
  const gate = await api.createGate({ catalog }, made.key);
  const passport = await api.issuePassport({}, made.key);
  const revocation = await api.call({
    url: `/v1/passports/${passport.passport_id}/revoke`,
    key: made.key,
    body: {},
  });
  // A control that must find it.
  expect(JSON.stringify([gate, revocation.body])).toContain(made.key_id);

  const seen = [
    (await api.call({ url: `/v1/discover?capability=${area}:create`, key: null })).body,
    (await api.call({ url: `/v1/gates/${gate.gate_id}/catalog`, key: null })).body,
    await api.changes('global'),
    (await api.changes(own.accountId)).filter(({ kind }) => kind.startsWith('gate.')),
    (await hook.deliveries()).map(({ payload }) => payload),
    (await api.call({ url: `/v1/passports/${passport.passport_id}/verify`, key: made.key })).body,
  ];
  for (const each of seen) {
    expect(JSON.stringify(each)).not.toContain(made.key_id);
    expect(JSON.stringify(each).length).toBeGreaterThan(20);
  }
  for (const url of [`/v1/gates/${gate.gate_id}`, `/v1/passports/${passport.passport_id}`])
    expect((await api.call({ url })).status).toBe(404);
});
