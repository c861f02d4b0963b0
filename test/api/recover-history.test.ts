import { beforeAll, describe, expect, it } from 'vitest';
import { sha256Hex } from '../../shared/crypto/content-hash.ts';
import { startOwnApi } from '../support/service/api.ts';
import { approveAhead, askingRules, standingApprovalOf } from '../support/service/standing-approvals.ts';
import { type ConnectedSidecar, connectSidecar, recordOf } from '../support/service/test-sidecar.ts';
import { useApi } from '../support/service/use-api.ts';

const api = useApi(startOwnApi);
let sidecar: ConnectedSidecar;
beforeAll(async () => {
  sidecar = await connectSidecar(api);
});

const recover = async (body: object) => (await api.call({ url: '/v1/sync/history/recover', body })).body;

it('takes back what a signed state proves, and begins a generation in which nothing is missing', async () => {
  const { sql } = api.deps;
  const other = await connectSidecar(api, { key: (await api.createAccount()).key });
  const [revoked, suspended, active] = await Promise.all([1, 2, 3].map(() => api.issuePassport()));
  const [deleted, gate] = [await api.createGate(), await api.createGate()];
  const { keyId } = await api.createKey({ name: 'ended', scopes: ['gates:read'] });
  const tenant = await api.createAccount();
  const issuerOf = async (mode: 'live' | 'test') => {
    const { key } = await api.createKey({ name: 'i', scopes: ['admin:*'], mode }, tenant.key);
    const { issuer_id } = await api.createIssuer({ name: `Issuer ${mode}` }, key);
    await api.call({ method: 'PUT', url: `/v1/issuers/${issuer_id}`, key, body: { status: 'suspended' } });
    return issuer_id as string;
  };
  const issuers = [await issuerOf('live'), await issuerOf('test')];
  await api.call({ method: 'PUT', url: `/v1/accounts/${tenant.accountId}`, body: { status: 'suspended' } });
  // One is an owner of a passport, the other was suspended before.
  const { passport_id: owned } = await api.issuePassport({ owner: 'team: a' });
  const [{ accountId } = { accountId: '' }] = await sql<{ accountId: string }[]>`
    SELECT account_id AS "accountId" FROM passports WHERE passport_id = ${owned}`;
  for (const owner of ['team%3A%20a', 'no passport yet'])
    await api.call({ url: `/v1/owners/${owner}/suspend`, body: {} });
  await api.call({ url: `/v1/passports/${revoked.passport_id}/revoke`, body: {} });
  await api.call({ url: `/v1/passports/${suspended.passport_id}/suspend`, body: {} });
  await api.call({ method: 'DELETE', url: `/v1/gates/${deleted.gate_id}` });
  await api.call({ method: 'DELETE', url: `/v1/api-keys/${keyId}` });
  const { receipt, ...signed } = (await api.call({ url: '/v1/sync/snapshot', key: sidecar.key })).body;

  const asking = await api.createGate({ constraints: askingRules });
  const about = { gate_id: asking.gate_id, passport_id: active.passport_id };
  const { standing_approval_id: ahead } = await approveAhead(api, about);

  // As a restore to before all of that.
  await sql`UPDATE passports SET status = 'active', revoked_at_ms = NULL, revocation_reason = NULL`;
  await sql`UPDATE gates SET deleted_at_ms = NULL`;
  await sql`DELETE FROM owner_standings WHERE owner = 'team: a'`;
  await sql`UPDATE owner_standings SET status = 'active'`;
  await sql`UPDATE issuers SET status = 'active'`;
  await sql`UPDATE accounts SET status = 'active'`;
  await sql`UPDATE api_keys SET revoked_at_ms = NULL WHERE key_id = ${keyId}`;
  await sql`DELETE FROM changes WHERE feed_id = 'global' AND revision > 0`;
  await sql`UPDATE feeds SET revision = 0 WHERE feed_id = 'global'`;
  const state = { url: '/v1/sync/history/state', key: sidecar.key };
  expect((await api.call({ ...state, body: { signed, entries: [] } })).body).toEqual({ ends: 0 });
  const report = { url: '/v1/sync/history', key: sidecar.key, body: { receipts: [receipt], entries: [] } };
  expect((await api.call(report)).body).toMatchObject({ state: 'regressed' });

  const forged = { ...signed, snapshot: signed.snapshot.replace('"api_keys":[', '"api_keys":[ ') };
  expect((await api.call({ ...state, body: { signed: forged, entries: [] } })).body).toEqual({ ends: 0 });
  const body = { signed, entries: [] };
  expect((await api.call({ ...state, key: other.key, body })).body).toEqual({ ends: 0 });
  expect((await api.call({ ...state, body })).body).toEqual({ ends: 10 });

  const plan = await recover({ apply: false });
  expect(plan).toMatchObject({ state: 'regressed', applied: false, by_hand: [] });
  expect(plan.taken_back.map(({ id }: { id: string }) => id).sort()).toEqual(
    [
      ...[
        revoked.passport_id,
        suspended.passport_id,
        owned,
        deleted.gate_id,
        keyId,
        tenant.accountId,
        ...issuers,
      ],
      ...['team: a', 'no passport yet'].map((owner) => `owner:${accountId}:live:${owner}`),
    ].sort(),
  );
  expect(await statusOf(revoked.passport_id)).toBe('active');

  const done = await recover({ apply: true });
  expect(done).toMatchObject({ state: 'whole', applied: true });
  expect(done.generation).not.toBe(plan.generation);
  expect(await statusOf(revoked.passport_id)).toBe('revoked');
  expect(await statusOf(suspended.passport_id)).toBe('suspended');
  expect(await statusOf(active.passport_id)).toBe('active');
  // What it had spent may be lost.
  expect((await standingApprovalOf(api, ahead)).status).toBe('revoked');
  expect((await api.call({ url: `/v1/accounts/${tenant.accountId}` })).body.status).toBe('suspended');
  const owners = await sql`SELECT owner, status FROM owner_standings ORDER BY owner`;
  expect(owners).toEqual([
    { owner: 'no passport yet', status: 'suspended' },
    { owner: 'team: a', status: 'suspended' },
  ]);
  const standings = await sql`SELECT status FROM issuers WHERE issuer_id = ANY(${issuers}::text[])`;
  expect(standings).toEqual([{ status: 'suspended' }, { status: 'suspended' }]);
  expect((await api.call({ url: `/v1/gates/${deleted.gate_id}` })).status).toBe(404);
  expect((await api.call({ url: `/v1/gates/${gate.gate_id}` })).status).toBe(200);
  expect((await api.call(report)).body).toEqual({ generation: done.generation, state: 'whole' });
  expect(await recover({ apply: true })).toMatchObject({ state: 'whole', applied: false, taken_back: [] });
  const [feed] = await sql<{ revision: number }[]>`SELECT revision FROM feeds WHERE feed_id = 'global'`;
  expect(feed?.revision).toBeGreaterThanOrEqual(JSON.parse(receipt.text).feeds.global[0]);
});

const statusOf = async (passportId: string) =>
  (await api.call({ url: `/v1/passports/${passportId}` })).body.status;

describe('records that are handed in once more', () => {
  /** Three records, of which the database has lost two, with what it told of them; recovered since. */
  async function lostAndRecovered() {
    const [passport, gate] = [await api.issuePassport(), await api.createGate()];
    const records = Array.from({ length: 3 }, () => recordOf(api, { gateId: gate.gate_id, passport }));
    const from = await connectSidecar(api);
    const { receipts } = (await from.send(1, records)).body;
    const { sql } = api.deps;
    // As a restore to when there was one.
    const [chain = { number: 0 }] = await sql<{ number: number }[]>`
      SELECT number FROM chains WHERE chain_id = ${passport.passport_id}`;
    const [next] = await sql<{ previous_hash: Buffer }[]>`
      SELECT previous_hash FROM records WHERE chain = ${chain.number} AND sequence = 2`;
    await sql`DELETE FROM records WHERE chain = ${chain.number} AND sequence > 1`;
    await sql`UPDATE chains SET sequence = 1, hash = ${`sha256:${next?.previous_hash.toString('hex')}`}
      WHERE number = ${chain.number}`;
    await sql`UPDATE sidecar_epochs SET last_seq = 1 WHERE epoch = ${from.epoch}`;
    const report = { receipts, entries: [] };
    await api.call({ url: '/v1/sync/history', key: from.key, body: report });
    expect((await from.send(1, records)).status).toBe(503);
    expect(await recover({ apply: true })).toMatchObject({
      applied: true,
      lost: [{ chain_id: passport.passport_id, after_sequence: 1, last_sequence: 3, records: 2 }],
    });
    return { from, passport, gate, records };
  }
  const placesOf = async (passportId: string) =>
    (await api.call({ url: `/v1/attestations?passport_id=${passportId}&limit=500` })).body.attestations.map(
      ({ id, sequence }: { id: string; sequence: number }) => [id, sequence],
    );

  it('get places after those that were known, once, however often they come', async () => {
    const { from, passport, records } = await lostAndRecovered();
    for (let time = 0; time < 3; time++)
      expect((await from.send(1, records)).body).toMatchObject({ next_seq: 4 });
    // Also where the control plane has forgotten the epoch.
    await api.deps.sql`DELETE FROM sidecar_epochs WHERE epoch = ${from.epoch}`;
    expect((await from.send(1, records)).body).toMatchObject({ next_seq: 4 });
    const ids = records.map(({ id }) => id);
    expect(await placesOf(passport.passport_id)).toEqual([
      [ids[2], 5],
      [ids[1], 4],
      [ids[0], 1],
    ]);
    expect(await recover({ apply: false })).toMatchObject({
      state: 'whole',
      handed_in: [{ chain_id: passport.passport_id, lost: 2, handed_in: 2 }],
    });
  });

  it('are refused where they were changed, and where they are of others', async () => {
    const { from, passport, gate, records } = await lostAndRecovered();
    const [first, lost] = records;
    const changed = { ...first, permission_key: 'orders:other' };
    const other = await connectSidecar(api, { key: (await api.createAccount()).key });
    expect((await from.send(2, [changed])).body.error).toMatchObject({ code: 'record_refused' });
    expect((await other.send(1, [lost ?? {}])).body.error).toMatchObject({ code: 'record_refused' });
    // With the token of another passport, and in the name of another sidecar.
    const stranger = await api.issuePassport();
    const claimed = recordOf(
      api,
      { gateId: gate.gate_id, passport },
      { token_hash: sha256Hex(stranger.jwt) },
    );
    expect((await from.send(2, [claimed])).body.error).toMatchObject({ code: 'record_refused' });
    const envelope = { sidecar_id: from.sidecarId };
    expect((await other.send(1, [lost ?? {}], envelope)).status).toBeGreaterThanOrEqual(400);
    expect(await placesOf(passport.passport_id)).toHaveLength(1);
    expect((await from.send(2, records.slice(1))).body).toMatchObject({ next_seq: 4 });
    expect(await placesOf(passport.passport_id)).toHaveLength(3);
  });

  it('about what the restored database does not know are refused, by name', async () => {
    const { from, gate } = await lostAndRecovered();
    const passport = await api.issuePassport();
    const record = recordOf(api, { gateId: gate.gate_id, passport });
    await api.deps.sql`DELETE FROM passports WHERE passport_id = ${passport.passport_id}`;
    const { error } = (await from.send(2, [record])).body;
    expect(error).toMatchObject({ code: 'record_refused' });
    expect(JSON.stringify(error)).toContain('token_hash does not show');
  });
});
