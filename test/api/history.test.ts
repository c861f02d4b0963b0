import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { historyOf } from '../../control-plane/history/history.ts';
import { connect } from '../../control-plane/storage/connect.ts';
import type { Receipt } from '../../shared/wire/sync/receipt.ts';
import type { SealedEntry } from '../../shared/wire/sync/sync-schema.ts';
import { type Api, startOwnApi } from '../support/service/api.ts';
import { secondControlPlane } from '../support/service/second-control-plane.ts';
import { type ConnectedSidecar, connectSidecar, recordOf } from '../support/service/test-sidecar.ts';

let api: Api;
let sidecar: ConnectedSidecar;
beforeAll(async () => {
  api = await startOwnApi();
  sidecar = await connectSidecar(api);
});
afterAll(() => api.close());
beforeEach(async () => {
  await api.deps.sql`DELETE FROM known_heads`;
  await api.deps.sql`DELETE FROM known_places`;
  await historyOf(api.deps.sql).refresh();
});

async function pull(): Promise<{ receipt: Receipt; generation: string }> {
  const [{ accountId } = { accountId: '' }] = await api.deps.sql<{ accountId: string }[]>`
    SELECT account_id AS "accountId" FROM accounts WHERE is_operator`;
  const [account, global] = await Promise.all([headOf(accountId), headOf('global')]);
  const query = new URLSearchParams({
    sidecar_id: sidecar.sidecarId,
    connection_id: sidecar.connectionId,
    account_after: String(account.revision),
    account_mark: account.mark,
    global_after: String(global.revision),
    global_mark: global.mark,
    wait_ms: '0',
  });
  const { body } = await api.call({ url: `/v1/sync/changes?${query}`, key: sidecar.key });
  return body;
}

async function headOf(feedId: string) {
  const [row] = await api.deps.sql<{ revision: number; mark: string }[]>`
    SELECT feeds.revision, coalesce(signature, '') AS mark
    FROM feeds LEFT JOIN changes ON changes.feed_id = feeds.feed_id AND changes.revision = feeds.revision
    WHERE feeds.feed_id = ${feedId}`;
  return row ?? { revision: 0, mark: '' };
}

const report = async (receipts: readonly Receipt[], key = sidecar.key, entries: readonly object[] = []) =>
  (await api.call({ url: '/v1/sync/history', key, body: { receipts, entries } })).body;
const readyz = async () => (await api.call({ url: '/readyz', key: null })).body;

/** As a restore does: the newest changes of the global feed are gone. */
async function loseGlobalChanges(count: number) {
  const { sql } = api.deps;
  await sql`DELETE FROM changes WHERE feed_id = 'global'
    AND revision > (SELECT revision FROM feeds WHERE feed_id = 'global') - ${count}`;
  await sql`UPDATE feeds SET revision = revision - ${count} WHERE feed_id = 'global'`;
}

/** As after a recovery, while the work lasts. */
async function inNextGeneration(work: () => Promise<void>): Promise<void> {
  const { sql } = api.deps;
  await sql`
    INSERT INTO generations (number, generation, begun_at_ms) VALUES (2, ${`gen_${'0'.repeat(32)}`}, 1)`;
  await historyOf(sql).refresh();
  await work();
  await sql`DELETE FROM generations WHERE number = 2`;
  await historyOf(sql).refresh();
}

async function revoked(): Promise<string> {
  const { passport_id: passportId } = await api.issuePassport();
  await api.call({ url: `/v1/passports/${passportId}/revoke`, body: {} });
  return passportId;
}

describe('a receipt of changes', () => {
  it('proves nothing while the database has them', async () => {
    await revoked();
    const { receipt, generation } = await pull();
    expect(generation).toMatch(/^gen_[0-9a-f]{32}$/);
    await revoked();
    expect(await report([receipt])).toEqual({ state: 'whole', generation });
    expect((await readyz()).history).toEqual({ state: 'whole', missing: null });
  });

  it('proves a history that is shorter, and one that says something else at the same place', async () => {
    await revoked();
    await revoked();
    const { receipt } = await pull();
    await loseGlobalChanges(2);
    expect(await report([receipt])).toMatchObject({ state: 'regressed' });
    expect(await readyz()).toMatchObject({
      status: 'ready',
      history: { state: 'regressed', missing: { changes: 2, chains: 0, records: 0, entries: 0 } },
    });
    await api.deps.sql`DELETE FROM known_heads`;
    await historyOf(api.deps.sql).refresh();
    for (let count = 0; count < 3; count++) await revoked();
    expect(await report([receipt])).toMatchObject({ state: 'regressed' });
  });

  it('counts for nobody if it was changed, and for no other account', async () => {
    await revoked();
    const { receipt } = await pull();
    await loseGlobalChanges(1);
    const other = await api.createAccount();
    const theirs = await connectSidecar(api, { key: other.key });
    const forged = [
      { text: receipt.text.replace(/\d+(?=,"[^"]+"\]\}\})/, '999999'), mac: receipt.mac },
      { text: receipt.text, mac: 'A'.repeat(43) },
      { text: receipt.text, mac: '' },
      { text: 'no JSON', mac: receipt.mac },
    ];
    expect(forged[0]?.text).not.toBe(receipt.text);
    expect(await report(forged)).toMatchObject({ state: 'whole' });
    expect(await report([receipt], theirs.key)).toMatchObject({ state: 'whole' });
    expect(await report([receipt])).toMatchObject({ state: 'regressed' });
  });

  it('of a generation that a recovery has ended proves nothing any more', async () => {
    await revoked();
    const { receipt } = await pull();
    await loseGlobalChanges(1);
    await inNextGeneration(async () => {
      expect(await report([receipt])).toMatchObject({ state: 'whole' });
    });
    expect(await report([receipt])).toMatchObject({ state: 'regressed' });
  });
});

describe('a signed change', () => {
  const lastChange = async () =>
    (
      await api.deps.sql<SealedEntry[]>`
        SELECT feed_id, revision, kind, body, signing_key_id, signature,
          (SELECT signature FROM changes before WHERE before.feed_id = 'global'
            AND before.revision = changes.revision - 1) AS previous
        FROM changes WHERE feed_id = 'global' ORDER BY revision DESC LIMIT 1`
    )[0] as SealedEntry;

  it('proves a loss of which there is no receipt, and nothing if it was changed', async () => {
    await revoked();
    await revoked();
    const entry = await lastChange();
    expect(await report([], sidecar.key, [entry])).toMatchObject({ state: 'whole' });
    await loseGlobalChanges(1);
    const forged = { ...entry, revision: entry.revision + 5 };
    expect(await report([], sidecar.key, [forged])).toMatchObject({ state: 'whole' });
    expect(await report([], sidecar.key, [entry])).toMatchObject({ state: 'regressed' });
  });

  it('that a recovery has settled proves nothing any more', async () => {
    await revoked();
    await revoked();
    const entry = await lastChange();
    await loseGlobalChanges(1);
    expect(await report([], sidecar.key, [entry])).toMatchObject({ state: 'regressed' });
    await inNextGeneration(async () => {
      expect(await report([], sidecar.key, [entry])).toMatchObject({ state: 'whole' });
    });
  });
});

describe('a receipt of records', () => {
  async function shipped() {
    const [passport, gate] = [await api.issuePassport(), await api.createGate()];
    const from = await connectSidecar(api);
    const records = Array.from({ length: 3 }, () => recordOf(api, { gateId: gate.gate_id, passport }));
    const { body } = await from.send(1, records);
    return { from, passport, gate, records, receipts: body.receipts as Receipt[] };
  }
  const lose = (chainId: string, count: number) =>
    api.deps.sql.begin(async (tx) => {
      const [{ number, sequence } = { number: 0, sequence: 0 }] = await tx<
        { number: number; sequence: number }[]
      >`
      SELECT number, sequence FROM chains WHERE chain_id = ${chainId}`;
      const [next] = await tx<{ previous_hash: Buffer }[]>`
      SELECT previous_hash FROM records WHERE chain = ${number} AND sequence = ${sequence - count + 1}`;
      await tx`DELETE FROM records WHERE chain = ${number} AND sequence > ${sequence - count}`;
      await tx`UPDATE chains SET sequence = ${sequence - count},
      hash = ${`sha256:${next?.previous_hash.toString('hex')}`} WHERE number = ${number}`;
    });

  it('proves nothing while the chain has them, and goes on', async () => {
    const { from, passport, gate, receipts } = await shipped();
    expect(await report(receipts)).toMatchObject({ state: 'whole' });
    await from.send(4, [recordOf(api, { gateId: gate.gate_id, passport })]);
    expect(await report(receipts)).toMatchObject({ state: 'whole' });
  });

  it('proves a shorter chain, to which nothing is appended then, while other chains go on', async () => {
    const { from, passport, gate, receipts } = await shipped();
    await lose(passport.passport_id, 2);
    expect(await report(receipts)).toMatchObject({ state: 'regressed' });
    expect((await readyz()).history.missing).toEqual({ changes: 0, chains: 1, records: 2, entries: 0 });
    const another = recordOf(api, { gateId: gate.gate_id, passport });
    const answer = await from.send(4, [another]);
    expect(answer.status).toBe(503);
    expect(answer.body.error).toMatchObject({ code: 'service_unavailable' });
    expect(answer.body.error.message).toContain('agent-trust recover');
    const url = `/v1/gates/${gate.gate_id}/check`;
    const body = (jwt: string) => ({ passport: jwt, request: { permission_key: 'orders:read' } });
    expect((await api.call({ url, body: body(passport.jwt) })).status).toBe(503);
  });

  it('stops appending at a replica that has not looked yet', async () => {
    const { passport, gate, receipts } = await shipped();
    const other = await api.issuePassport();
    await lose(passport.passport_id, 2);
    expect(await report(receipts)).toMatchObject({ state: 'regressed' });
    const sql = connect({ url: api.databaseUrl, connectionsMax: 4 });
    const replica = await secondControlPlane({ ...api, deps: { ...api.deps, sql } });
    try {
      const check = (jwt: string) =>
        replica.call(`/v1/gates/${gate.gate_id}/check`, {
          passport: jwt,
          request: { permission_key: 'orders:read' },
        });
      expect((await check(passport.jwt)).status).toBe(503);
      expect((await check(other.jwt)).status).toBe(200);
      expect(historyOf(sql).isRegressed).toBe(false);
    } finally {
      await replica.close();
      await sql.end();
    }
  });

  it('proves a chain that went on otherwise', async () => {
    const { from, passport, gate, receipts } = await shipped();
    await lose(passport.passport_id, 1);
    const others = [4, 5].map(() => recordOf(api, { gateId: gate.gate_id, passport }));
    expect((await from.send(4, others)).status).toBe(200);
    expect(await report(receipts)).toMatchObject({ state: 'regressed' });
  });
});

describe('while history is known to have gone back', () => {
  beforeEach(async () => {
    await revoked();
    await revoked();
  });
  async function regress() {
    const { receipt } = await pull();
    await loseGlobalChanges(1);
    expect(await report([receipt])).toMatchObject({ state: 'regressed' });
  }

  it('changes that give something are refused, and change nothing', async () => {
    const gate = await api.createGate();
    await regress();
    for (const [method, url, body] of [
      ['POST', '/v1/passports', { agent_id: 'agent-x', permissions: ['orders:read'] }],
      ['POST', '/v1/gates', { name: 'g', trust_level: 'L1' }],
      ['PUT', `/v1/gates/${gate.gate_id}`, { trust_level: 'L2' }],
      ['POST', '/v1/api-keys', { name: 'k', scopes: ['gates:read'] }],
    ] as const) {
      const reply = await api.call({ method, url, body });
      expect([url, reply.status, reply.body.error?.code]).toEqual([url, 503, 'service_unavailable']);
    }
    const [made] = await api.deps.sql`SELECT count(*) AS count FROM passports WHERE agent_id = 'agent-x'`;
    expect(made).toEqual({ count: 0 });
    expect((await api.call({ url: `/v1/gates/${gate.gate_id}` })).body.trust_level).toBe('L1');
  });

  it('reads, decisions and what takes away are served', async () => {
    const [gate, passport] = [await api.createGate(), await api.issuePassport()];
    await regress();
    const check = { passport: passport.jwt, request: { permission_key: passport.permissions[0] } };
    const url = `/v1/gates/${gate.gate_id}/check`;
    expect((await api.call({ url, body: check })).body.decision).toBe('PERMIT');
    const revoke = `/v1/passports/${passport.passport_id}/revoke`;
    expect((await api.call({ url: revoke, body: {} })).status).toBe(200);
    expect((await api.call({ url, body: check })).body).toMatchObject({ reason: 'passport_revoked' });
    expect((await api.call({ method: 'DELETE', url: `/v1/gates/${gate.gate_id}` })).status).toBe(200);
  });

  it('the operator is told once by an event', async () => {
    const hook = await api.call({ url: '/v1/webhooks', body: { events: ['history.regressed'], url: null } });
    expect(hook.status).toBe(201);
    const { receipt } = await pull();
    await loseGlobalChanges(1);
    await report([receipt]);
    await report([receipt]);
    const told = await api.deps.sql`SELECT body FROM webhook_events WHERE event = 'history.regressed'`;
    expect(told).toHaveLength(1);
    expect(JSON.stringify(told[0])).toContain('gen_');
  });
});
