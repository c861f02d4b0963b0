import { copyFileSync, mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { addUnsignedRecords } from '../../bench/harness/unsigned-records.ts';
import { appendRecords, RepeatedRecord } from '../../control-plane/attestations/append-records.ts';
import type { Database } from '../../control-plane/base/database.ts';
import { connect } from '../../control-plane/storage/connect.ts';
import { migrate } from '../../control-plane/storage/migrate.ts';
import type { Owner } from '../../shared/model/owner.ts';
import { type Api, startApi } from '../support/api.ts';
import { exportText, newRecord, operatorOf, verifyText } from '../support/exports.ts';
import { type TestDatabase, testDatabase } from '../support/postgres.ts';
import { moveMonths } from '../support/record-months.ts';
import { sampleId } from '../support/sample-chains.ts';
import { secondControlPlane } from '../support/second-control-plane.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { connectSidecar, expectSoundStore, recordOf } from '../support/test-sidecar.ts';
import { expectOnceWithin, timed } from '../support/time-promise.ts';

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
    api = await startApi();
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

const migrations = new URL('../../control-plane/storage/migrations/', import.meta.url);
const partitioning = 45;

describe('the conversion of a table that is in use', () => {
  let database: TestDatabase;
  let folder: ReturnType<typeof temporaryFolder>;
  const owner: Owner = { accountId: sampleId('acct', 1), mode: 'live' };
  const passportIds = [sampleId('pass', 1), sampleId('pass', 2)];

  beforeAll(async () => {
    database = await testDatabase({ isEmpty: true });
    folder = temporaryFolder();
    const earlier = join(folder.path, 'migrations');
    mkdirSync(earlier);
    for (const name of readdirSync(migrations)) {
      if (Number(name.slice(0, 4)) >= partitioning) continue;
      copyFileSync(join(fileURLToPath(migrations), name), join(earlier, name));
    }
    await migrate(database.sql, { directory: pathToFileURL(`${earlier}/`) });
    await database.sql`
      INSERT INTO accounts (account_id, name, plan, status, is_operator, created_at_ms)
      VALUES (${owner.accountId}, 'of before', 'enterprise', 'active', true, 0)`;
    await add(database.sql, 0, 200);
  });
  afterAll(async () => {
    await database.drop();
    folder.remove();
  });

  const add = (sql: Database, from: number, count: number) =>
    addUnsignedRecords(sql, { owner, passportIds, gateIds: [sampleId('gate', 1)], from, count, startMs: 0 });
  const figures = async (sql: Database) => {
    const [row] = await sql<{ records: number; positions: number }[]>`
      SELECT count(*)::int AS records, count(DISTINCT position)::int AS positions FROM records`;
    return row;
  };

  it('copies nothing, and lets writers of the version before go on while a reader holds it up', async () => {
    const { sql } = database;
    const fileOf = async (table: string) =>
      (await sql<{ file: number }[]>`SELECT pg_relation_filenode(${table}) AS file`)[0]?.file;
    const before = await fileOf('records');
    const writer = connect({ url: database.url, connectionsMax: 1 });
    const reader = connect({ url: database.url, connectionsMax: 1 });
    const steps: string[] = [];
    let release: () => void = () => undefined;
    const reading = reader.begin(async (tx) => {
      await tx`SELECT count(*) FROM records`;
      await new Promise<void>((resolve) => {
        release = resolve;
      });
    });
    let written = 200;
    let isMigrated = false;
    const migrating = migrate(sql, { onStep: (name) => steps.push(name) }).then(() => {
      isMigrated = true;
    });
    // By the statements of the version before, on a connection that is older than the migration.
    while (!isMigrated) {
      const adding = await timed(() => add(writer, written, 2));
      expectOnceWithin(2_000, 'two records are added', adding);
      written += 2;
      // It has given way to the reader, and come back.
      if (steps.length >= 3) release();
    }
    await Promise.all([migrating, reading]);
    await add(writer, written, 2);
    await Promise.all([writer.end(), reader.end()]);

    expect(await fileOf('records_before')).toBe(before);
    expect(await figures(sql)).toEqual({ records: written + 2, positions: written + 2 });
    const [{ count } = { count: 0 }] = await sql<{ count: number }[]>`
      SELECT count(*)::int AS count FROM records WHERE tableoid = ${await nameOf(sql, '0 months')}::regclass`;
    expect(count).toBeGreaterThanOrEqual(2);
    // Every record of a chain is found in its place, and the view shows each.
    const [seen] = await sql`
      SELECT count(*)::int AS records, max(sequence)::int AS last FROM attestations WHERE chain_id = ${passportIds[0] ?? ''}`;
    expect(seen).toEqual({ records: (written + 2) / 2, last: (written + 2) / 2 });
  });
});
