import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { startOwnApi } from '../support/service/api.ts';
import { useApi } from '../support/service/use-api.ts';

/**
 * What this version counts and the one before does not know of, in a database that both write. The statements
 * are those of 0.2.0; test/upgrade has the programs themselves side by side.
 */
const api = useApi(startOwnApi);

const change = (feedId: string, kind: string, body: object, atMs = 0) =>
  api.deps.sql.begin(async (tx) => {
    const [feed] = await tx<{ revision: number }[]>`
      UPDATE feeds SET revision = revision + 1 WHERE feed_id = ${feedId} RETURNING revision`;
    await tx`
      INSERT INTO changes (feed_id, revision, kind, body, signing_key_id, signature, created_at_ms)
      VALUES (${feedId}, ${feed?.revision ?? 0}, ${kind}, ${JSON.stringify(body)}::text::jsonb, 'key', 'signature', ${atMs})`;
  });
const lastBody = async (feedId: string, kind: string): Promise<object> => {
  const [row] = await api.deps.sql<{ body: object }[]>`
    SELECT body FROM changes WHERE feed_id = ${feedId} AND kind = ${kind} ORDER BY revision DESC LIMIT 1`;
  return row?.body ?? {};
};
const counted = async (feedId: string, itemId: string) => {
  const [row] = await api.deps.sql`
    SELECT items_bytes AS sum, (SELECT bytes FROM feed_items WHERE item_id = ${itemId}) AS item
    FROM feeds WHERE feed_id = ${feedId}`;
  return row;
};

describe('a change that the version before writes', () => {
  it('is counted in the bytes of the account, as this version counts it', async () => {
    const { accountId, key } = await api.createAccount();
    const constraints = { allowed_domains: ['a.example', 'b.example'], rate_limits: { requests_per_day: 9 } };
    const body = { name: 'gate', trust_level: 'L1', constraints };
    const { gate_id: gateId } = (await api.call({ url: '/v1/gates', key, body })).body;
    const before = await counted(accountId, gateId);
    const put = await lastBody(accountId, 'gate.put');

    await change(accountId, 'gate.delete', { gate_id: gateId });
    const without = await counted(accountId, gateId);
    expect(without).toEqual({ sum: before?.['sum'] - before?.['item'], item: null });
    await change(accountId, 'gate.put', put);
    await change(accountId, 'gate.put', put);
    expect(await counted(accountId, gateId)).toEqual(before);

    const named = { name: 'caller', scopes: ['enforcement:check'] };
    const { key_id: keyId } = (await api.call({ url: '/v1/api-keys', key, body: named })).body;
    const withKey = await counted(accountId, keyId);
    const keyPut = await lastBody(accountId, 'api_key.put');
    await change(accountId, 'api_key.delete', { key_id: keyId });
    expect(await counted(accountId, keyId)).toEqual({ sum: before?.['sum'], item: null });
    await change(accountId, 'api_key.put', keyPut);
    expect(await counted(accountId, keyId)).toEqual(withKey);
  });
});

describe('the migration', () => {
  it('counts what the version before changed before there was a trigger', async () => {
    const { accountId, key } = await api.createAccount();
    const create = async () =>
      (await api.call({ url: '/v1/gates', key, body: { name: 'gate', trust_level: 'L1' } })).body.gate_id;
    const [kept, deleted] = [await create(), await create()];
    const before = await counted(accountId, kept);
    const put = await lastBody(accountId, 'gate.put');
    await api.deps.sql.unsafe(`
      DROP TRIGGER count_feed_item ON changes; DROP FUNCTION count_feed_item, count_item`);
    const made = String(api.deps.random.newId('gate', api.deps.clock.now()));
    await change(accountId, 'gate.delete', { gate_id: deleted }, api.deps.clock.now());
    await change(accountId, 'gate.put', { ...put, gate_id: made }, api.deps.clock.now());
    expect(await counted(accountId, made)).toEqual({ sum: before?.['sum'], item: null });
    const folder = new URL('../../control-plane/storage/migrations/', import.meta.url);
    await api.deps.sql.unsafe(readFileSync(new URL('0040-feed-items-of-before.sql', folder), 'utf8'));
    expect(await counted(accountId, made)).toEqual(before);
    expect(await counted(accountId, deleted)).toEqual({ sum: before?.['sum'], item: null });
    expect(await counted(accountId, kept)).toEqual(before);
  });
});

describe('a passport that the version before suspends', () => {
  it('has the account as the cause, for as long as it is suspended', async () => {
    const { passport_id: passportId } = await api.issuePassport();
    const causes = async () =>
      (await api.deps.sql`SELECT cause FROM suspensions WHERE passport_id = ${passportId}`).map(
        ({ cause }) => cause,
      );
    for (const [status, wanted] of [
      ['suspended', ['account']],
      ['active', []],
      ['suspended', ['account']],
    ] as const) {
      await api.deps.sql`UPDATE passports SET status = ${status} WHERE passport_id = ${passportId}`;
      expect(await causes()).toEqual(wanted);
    }
  });
});

describe('a sidecar that has stopped', () => {
  it('is back as soon as a control plane of the version before hears of it', async () => {
    const sidecarId = api.deps.random.newId('side', api.deps.clock.now());
    const call = (path: string, body: object) =>
      api.call({ method: 'POST', url: `/v1/sync/${path}`, key: api.adminKey, body });
    const stoppedAt = async () => {
      const [row] = await api.deps.sql`
        SELECT stopped_at_ms IS NOT NULL AS stopped FROM sidecars WHERE sidecar_id = ${sidecarId}`;
      return row;
    };
    const connect = { sync_version: 7, sidecar_id: sidecarId, now_ms: api.deps.clock.now() };
    const { body } = await call('connect', connect);
    const goodbye = { sidecar_id: sidecarId, connection_id: body.connection_id };
    await call('goodbye', goodbye);
    await call('goodbye', goodbye);
    expect(await stoppedAt()).toEqual({ stopped: true });
    await api.deps.sql`
      UPDATE sidecars SET last_seen_at_ms = greatest(last_seen_at_ms, 1) WHERE sidecar_id = ${sidecarId}`;
    expect(await stoppedAt()).toEqual({ stopped: false });
  });
});
