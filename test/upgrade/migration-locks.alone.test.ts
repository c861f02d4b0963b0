import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { Database } from '../../control-plane/base/database.ts';
import { connect } from '../../control-plane/storage/connect.ts';
import { migrate } from '../../control-plane/storage/migrate.ts';
import { must } from '../../shared/errors/assert.ts';
import { type TestDatabase, testDatabase } from '../support/database/postgres.ts';
import { restore } from './dump.ts';
import { releaseBefore } from './released-programs.ts';

/**
 * How long migrations hold tables of the version before, in which there are many rows, against those who
 * write (docs/operate/upgrade.md): an added column, index, constraint or trigger must not cost a look at
 * every row under the lock. Of a version that is not released yet only what is here for a reason.
 */
const heldMsMax = 1_000;
const rowsEach = 100_000;

/** Per test: a second try of one that migrated has to migrate again. */
let database: TestDatabase;

beforeEach(async () => {
  database = await testDatabase({ isEmpty: true });
});
afterEach(() => database?.drop());

/** As the version before left it, with many rows. */
async function fill(): Promise<void> {
  await restore(database.sql, readFileSync(new URL(`${releaseBefore.version}.sql`, import.meta.url), 'utf8'));
  const own = connect({ url: database.url, connectionsMax: 1, silenceMsMax: 300_000 });
  await own`SET statement_timeout TO 0`;
  // Without triggers, each of which would change one and the same row so many times.
  await own`SET session_replication_role TO replica`;
  await multiply(own, 'gates', { gate_id: `'gate_' || lpad(n::text, 26, '0')` });
  await multiply(own, 'api_keys', {
    key_id: `'key_' || lpad(n::text, 26, '0')`,
    key_hash: `lpad(n::text, 64, '0')`,
  });
  await multiply(own, 'passports', {
    passport_id: `'pass_' || lpad(n::text, 26, '0')`,
    agent_id: `'agent ' || n`,
  });
  await multiply(own, 'approvals', {
    approval_id: `'appr_' || lpad(n::text, 26, '0')`,
    request_hash: `'sha256:' || lpad(n::text, 64, '0')`,
  });
  await multiply(own, 'records', {
    attestation_id: 'gen_random_uuid()',
    sequence: '1000 + n',
    position: '1000000 + n',
  });
  await multiply(own, 'audit_entries', {
    audit_id: `'aud_' || lpad(n::text, 26, '0')`,
    sequence: '1000 + n',
  });
  await multiply(own, 'webhook_events', { event_id: `'evt_' || lpad(n::text, 26, '0')` });
  await own.end();
}

/** So many copies of a row of the table, each with these members of its own. */
async function multiply(sql: Database, table: string, own: Readonly<Record<string, string>>): Promise<void> {
  const members = Object.entries(own).map(([name, value]) => `'${name}', ${value}`);
  const columns = await sql<{ name: string }[]>`
    SELECT attname AS name FROM pg_attribute
    WHERE attrelid = ${table}::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = ''`;
  const names = columns.map(({ name }) => `"${name}"`).join(', ');
  await sql.unsafe(`
    INSERT INTO ${table} (${names}) OVERRIDING SYSTEM VALUE
    SELECT ${columns.map(({ name }) => `copy."${name}"`).join(', ')}
    FROM (SELECT whole AS row FROM ${table} AS whole ORDER BY ctid DESC LIMIT 1) AS one, generate_series(1, ${rowsEach}) AS n,
      jsonb_populate_record(one.row, jsonb_build_object(${members.join(', ')})) AS copy`);
  await sql.unsafe(`ANALYZE ${table}`);
}

interface Held {
  readonly table: string;
  readonly migration: string;
  readonly ms: number;
}

/**
 * Looks every few milliseconds at which tables of before are locked against writers, during which migration,
 * and for how long without a break.
 */
async function watchLocks(sql: Database, of: { isOver: boolean; file: string }): Promise<readonly Held[]> {
  const before = await sql<{ oid: number; name: string }[]>`
    SELECT oid::bigint AS oid, relname AS name FROM pg_class
    WHERE relkind IN ('r', 'p') AND relnamespace = 'public'::regnamespace`;
  const nameOf = new Map(before.map(({ oid, name }) => [oid, name]));
  const longest = new Map<string, Held>();
  const since = new Map<number, number>();
  while (!of.isOver) {
    const rows = await sql<{ oid: number }[]>`
      SELECT DISTINCT relation::bigint AS oid FROM pg_locks
      WHERE granted AND locktype = 'relation' AND pid <> pg_backend_pid()
        AND mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`;
    const nowMs = performance.now();
    const held = new Set(rows.map(({ oid }) => oid));
    for (const oid of since.keys()) if (!held.has(oid)) since.delete(oid);
    for (const oid of held) {
      const table = nameOf.get(oid);
      if (table === undefined) continue;
      if (!since.has(oid)) since.set(oid, nowMs);
      const ms = nowMs - must(since.get(oid), 'it was just set');
      const key = `${of.file} ${table}`;
      if (ms >= (longest.get(key)?.ms ?? 0)) longest.set(key, { table, migration: of.file, ms });
    }
    await pause(5);
  }
  return [...longest.values()];
}

it('would see a table that is held for too long', async () => {
  const watcher = connect({ url: database.url, connectionsMax: 1 });
  const state = { isOver: false, file: 'a migration' };
  await database.sql`CREATE TABLE gates (gate_id text)`;
  const watching = watchLocks(watcher, state);
  await database.sql.begin(async (tx) => {
    await tx`LOCK TABLE gates IN SHARE MODE`;
    await tx`SELECT pg_sleep(${(heldMsMax + 2_000) / 1_000})`;
  });
  state.isOver = true;
  const [held, ...others] = await watching;
  await watcher.end();
  expect(others).toEqual([]);
  expect(held).toMatchObject({ table: 'gates', migration: 'a migration' });
  expect(held?.ms).toBeGreaterThan(heldMsMax);
});

it(`holds no table of ${rowsEach} rows for longer than ${heldMsMax} ms`, async () => {
  await fill();
  const before = await database.sql`SELECT FROM migrations UNION ALL SELECT FROM expansions`;
  const watcher = connect({ url: database.url, connectionsMax: 1 });
  const state = { isOver: false, file: '' };
  const watching = watchLocks(watcher, state);
  const applied: string[] = [];
  await migrate(database.sql, {
    onStep: (file) => {
      state.file = file;
      applied.push(file);
    },
  });
  state.isOver = true;
  const held = await watching;
  await watcher.end();
  const folder = readdirSync(new URL('../../control-plane/storage/migrations/', import.meta.url));
  expect(applied).toHaveLength(folder.length - before.length);
  expect(held.filter(({ ms }) => ms > heldMsMax)).toEqual([]);
});
