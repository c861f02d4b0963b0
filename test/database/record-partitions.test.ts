import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { appendRecords, RepeatedRecord } from '../../control-plane/attestations/append-records.ts';
import type { Database } from '../../control-plane/base/database.ts';
import { moveMonths } from '../support/database/record-months.ts';
import { type Api, startOwnApi } from '../support/service/api.ts';
import { exportText, newRecord, operatorOf, verifyText } from '../support/service/exports.ts';
import { secondControlPlane } from '../support/service/second-control-plane.ts';
import { connectSidecar, expectSoundStore, recordOf } from '../support/service/test-sidecar.ts';

const partitionOf = async (sql: Database, attestationId: string): Promise<string | undefined> => {
  const [row] = await sql<{ name: string }[]>`
    SELECT tableoid::regclass::text AS name FROM records WHERE id_of_uuid('att', attestation_id) = ${attestationId}`;
  return row?.name;
};

const nameOf = async (sql: Database, ahead: string): Promise<string> => {
  const [row] = await sql<{ name: string }[]>`
    SELECT to_char((now() + ${ahead}::interval) AT TIME ZONE 'UTC', '"records_"YYYY_MM') AS name`;
  return row?.name ?? '';
};

describe('a control plane that slept over several months', () => {
  let api: Api;
  beforeAll(async () => {
    api = await startOwnApi();
  });
  afterAll(() => api.close());

  it('makes the partition that is missing with the record that needs it, once for two replicas', async () => {
    const { sql } = api.deps;
    const [gate, passport] = [await api.createGate(), await api.issuePassport()];
    const other = await secondControlPlane(api);
    const url = `/v1/gates/${gate.gate_id}/check`;
    const body = { passport: passport.jwt, request: { permission_key: 'orders:create' } };
    const before = await api.call({ url, body });
    expect(before.status).toBe(200);
    await moveMonths(sql, '7 months');
    const months = await nameOf(sql, '7 months');
    expect(await sql`SELECT FROM pg_class WHERE relname = ${months}`).toHaveLength(0);
    const answers = await Promise.all([
      ...Array.from({ length: 5 }, () => api.call({ url, body })),
      ...Array.from({ length: 5 }, () => other.call(url, body)),
    ]);
    await other.close();
    const ids = [before, ...answers].map((answer) => answer.body.attestation_id);
    expect(answers.map(({ status }) => status)).toEqual(Array(10).fill(200));
    expect(await partitionOf(sql, ids[0])).not.toBe(months);
    for (const id of ids.slice(1)) expect(await partitionOf(sql, id)).toBe(months);

    const list = await api.call({ url: `/v1/attestations?passport_id=${passport.passport_id}` });
    expect(list.body.attestations.map(({ id }: { id: string }) => id).sort()).toEqual([...ids].sort());
    for (const id of ids) expect((await api.call({ url: `/v1/attestations/${id}` })).status).toBe(200);
    const text = await exportText(api);
    expect(await verifyText(api, text)).toMatchObject({ kind: 'valid', records: 11 });
    await expectSoundStore(api);
  });

  it('finds a record that was stored in an earlier month, and stores it no second time', async () => {
    const { sql } = api.deps;
    const [gate, passport] = [await api.createGate(), await api.issuePassport()];
    const [one, two] = [await connectSidecar(api), await connectSidecar(api)];
    const record = recordOf(api, { gateId: gate.gate_id, passport });
    expect(await one.send(1, [record])).toMatchObject({ status: 200 });
    await moveMonths(sql, '9 months');
    const answer = await two.send(1, [record]);
    expect(answer.status).toBe(400);
    expect(answer.body.error.refused).toEqual([
      { seq: 1, message: 'an attestation with this id already exists' },
    ]);
  });

  it('refuses a record whose id is from the future, which could be stored again in a later month', async () => {
    const [gate, passport] = [await api.createGate(), await api.issuePassport()];
    const sidecar = await connectSidecar(api);
    const id = api.deps.random.newId('att', (api.deps.clock.now() + 61_000) as never);
    const answer = await sidecar.send(1, [recordOf(api, { gateId: gate.gate_id, passport }, { id })]);
    expect(answer.status).toBe(400);
    expect(answer.body.error.refused).toEqual([{ seq: 1, message: 'id is in the future' }]);
  });

  it('stores no copy that slips through between two months', async () => {
    const { sql } = api.deps;
    const owner = await operatorOf(api);
    const [gate, passport] = [await api.createGate(), await api.issuePassport()];
    const record = newRecord(api, {
      passport: { id: passport.passport_id, owner },
      gateId: gate.gate_id,
      gateOwner: owner,
    });
    const store = () => sql.begin((tx) => appendRecords(tx, api.deps, [record]));
    await moveMonths(sql, '12 months');
    await store();
    // The month after turned five minutes ago.
    const [{ ahead } = { ahead: '' }] = await sql<{ ahead: string }[]>`
      SELECT (date_trunc('month', now() AT TIME ZONE 'UTC') + interval '13 months 5 minutes'
        - now() AT TIME ZONE 'UTC')::text AS ahead`;
    await moveMonths(sql, ahead);
    await expect(store()).rejects.toThrow(RepeatedRecord);
  });
});
