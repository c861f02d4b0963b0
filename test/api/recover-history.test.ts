import { afterAll, beforeAll, expect, it } from 'vitest';
import { type Api, startApi } from '../support/api.ts';
import { type ConnectedSidecar, connectSidecar } from '../support/test-sidecar.ts';

let api: Api;
let sidecar: ConnectedSidecar;
beforeAll(async () => {
  api = await startApi();
  sidecar = await connectSidecar(api);
});
afterAll(() => api.close());

const recover = async (body: object) => (await api.call({ url: '/v1/sync/history/recover', body })).body;

it('takes back what a signed state proves, and begins a generation in which nothing is missing', async () => {
  const { sql } = api.deps;
  const other = await connectSidecar(api, { key: (await api.createAccount()).key });
  const [revoked, suspended, active] = [
    await api.issuePassport(),
    await api.issuePassport(),
    await api.issuePassport(),
  ];
  const [deleted, gate] = [await api.createGate(), await api.createGate()];
  const { keyId } = await api.createKey({ name: 'ended', scopes: ['gates:read'] });
  await api.call({ url: `/v1/passports/${revoked.passport_id}/revoke`, body: {} });
  await api.call({ url: `/v1/passports/${suspended.passport_id}/suspend`, body: {} });
  await api.call({ method: 'DELETE', url: `/v1/gates/${deleted.gate_id}` });
  await api.call({ method: 'DELETE', url: `/v1/api-keys/${keyId}` });
  const { receipt, ...signed } = (await api.call({ url: '/v1/sync/snapshot', key: sidecar.key })).body;

  // As a restore to before all of that.
  await sql`UPDATE passports SET status = 'active', revoked_at_ms = NULL, revocation_reason = NULL`;
  await sql`UPDATE gates SET deleted_at_ms = NULL`;
  await sql`UPDATE api_keys SET revoked_at_ms = NULL WHERE key_id = ${keyId}`;
  await sql`DELETE FROM changes WHERE feed_id = 'global' AND revision > 0`;
  await sql`UPDATE feeds SET revision = 0 WHERE feed_id = 'global'`;
  const state = { url: '/v1/sync/history/state', key: sidecar.key };
  expect((await api.call({ ...state, body: { signed, entries: [] } })).body).toEqual({ ends: 0 });
  const report = { url: '/v1/sync/history', key: sidecar.key, body: { receipts: [receipt], entries: [] } };
  expect((await api.call(report)).body).toMatchObject({ state: 'regressed' });

  const forged = { ...signed, snapshot: signed.snapshot.replace('"api_keys":[', '"api_keys":[ ') };
  expect((await api.call({ ...state, body: { signed: forged, entries: [] } })).body).toEqual({ ends: 0 });
  expect((await api.call({ ...state, key: other.key, body: { signed, entries: [] } })).body).toEqual({
    ends: 0,
  });
  expect((await api.call({ ...state, body: { signed, entries: [] } })).body).toEqual({ ends: 4 });

  const plan = await recover({ apply: false });
  expect(plan).toMatchObject({ state: 'regressed', applied: false, by_hand: [] });
  expect(plan.taken_back.map(({ id }: { id: string }) => id).sort()).toEqual(
    [revoked.passport_id, suspended.passport_id, deleted.gate_id, keyId].sort(),
  );
  expect(await statusOf(revoked.passport_id)).toBe('active');

  const done = await recover({ apply: true });
  expect(done).toMatchObject({ state: 'whole', applied: true });
  expect(done.generation).not.toBe(plan.generation);
  expect(await statusOf(revoked.passport_id)).toBe('revoked');
  expect(await statusOf(suspended.passport_id)).toBe('suspended');
  expect(await statusOf(active.passport_id)).toBe('active');
  expect((await api.call({ url: `/v1/gates/${deleted.gate_id}` })).status).toBe(404);
  expect((await api.call({ url: `/v1/gates/${gate.gate_id}` })).status).toBe(200);
  expect((await api.call(report)).body).toEqual({ generation: done.generation, state: 'whole' });
  expect(await recover({ apply: true })).toMatchObject({ state: 'whole', applied: false, taken_back: [] });
  const [feed] = await sql<{ revision: number }[]>`SELECT revision FROM feeds WHERE feed_id = 'global'`;
  expect(feed?.revision).toBeGreaterThanOrEqual(JSON.parse(receipt.text).feeds.global[0]);
});

const statusOf = async (passportId: string) =>
  (await api.call({ url: `/v1/passports/${passportId}` })).body.status;
