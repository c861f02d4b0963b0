import { execFileSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type DebianPostgres, makeOwnedDatabase } from '../../bench/harness/debian-postgres.ts';
import { connect } from '../../control-plane/storage/connect.ts';
import { databaseFailure } from '../../control-plane/storage/database-away.ts';
import { call } from '../support/base/http-client.ts';
import { temporaryFolder } from '../support/base/temporary-folder.ts';
import { untilAnswer } from '../support/base/until.ts';
import { type Installation, installation, type Running } from '../support/programs/installation.ts';
import { bundledPrograms } from '../support/programs/programs.ts';
import { testDebianPostgres } from '../support/run/debian-postgres.ts';

/** Every default that a server, a database or a role may have otherwise than ours. */
const foreign = {
  DateStyle: 'SQL, DMY',
  IntervalStyle: 'sql_standard',
  TimeZone: 'America/New_York',
  bytea_output: 'escape',
  standard_conforming_strings: 'off',
  escape_string_warning: 'off',
  extra_float_digits: '0',
  default_transaction_isolation: 'serializable',
  lc_messages: 'de_DE.UTF-8',
  quote_all_identifiers: 'on',
};

const folder = temporaryFolder();
let server: DebianPostgres;
let url: string;
let world: Installation;
let controlPlane: Running;

beforeAll(async () => {
  const locales = join(folder.path, 'locales');
  mkdirSync(locales, { mode: 0o755 });
  // Its exit code tells of warnings too.
  for (const name of ['en_US', 'de_DE']) {
    execFileSync('/bin/sh', [
      '-c',
      'localedef -i "$1" -f UTF-8 "$2" || [ -d "$2" ]',
      'sh',
      name,
      join(locales, `${name}.UTF-8`),
    ]);
  }
  server = await testDebianPostgres({
    initdb: ['--locale=en_US.UTF-8'],
    environment: { LOCPATH: locales },
    configuration: foreign,
  });
  url = await makeOwnedDatabase(server.url);
  world = await installation(await bundledPrograms(), { databaseUrl: url });
  controlPlane = await world.startControlPlane();
});
afterAll(async () => {
  await world?.close();
  await server?.stop();
  folder.remove();
});

it('is foreign: the server sorts as libc does in English, and speaks German where it has the words', async () => {
  const sql = connect({ url, connectionsMax: 1 });
  try {
    expect(await sql`SELECT 'a' < 'B' AS sorted, current_setting('lc_messages') AS words`).toEqual([
      { sorted: true, words: 'de_DE.UTF-8' },
    ]);
    const error = await sql`SELECT FROM nothing`.catch((reason: unknown) => reason);
    expect(databaseFailure(error)).toBeNull();
    const [row] =
      await sql`SELECT '\\x00ff'::bytea AS bytes, '2026-02-01'::date::text AS day, '\\'::text AS slash`;
    expect(row).toEqual({ bytes: Buffer.of(0, 255), day: '2026-02-01', slash: '\\' });
  } finally {
    await sql.end({ timeout: 1 });
  }
});

it('serves decisions, keys, lists and an export that verifies', async () => {
  const sidecar = await world.startSidecar();
  const gateId = await world.createGate({ trust_level: 'L1' });
  const { token } = await world.issuePassport();
  // On a busy machine the time of one may be over, or a sidecar not know the gate yet.
  const check = (origin: string, key: string | null) =>
    untilAnswer(
      () => ask(origin, key),
      ({ status }) => status === 200,
      { what: 'an answer' },
    );
  const ask = (origin: string, key: string | null) =>
    call(`${origin}/v1/gates/${gateId}/check`, {
      method: 'POST',
      key: world.adminKey,
      body: {
        passport: token,
        request: { permission_key: 'orders:create', ...(key === null ? {} : { idempotency_key: key }) },
      },
    });
  for (const { origin } of [sidecar, controlPlane]) {
    for (const key of [null, `of-${origin}`]) expect((await check(origin, key)).body.decision).toBe('PERMIT');
  }
  // The same key at once, many times: isolation of the database would refuse some.
  const copies = await Promise.all(Array.from({ length: 12 }, () => check(controlPlane.origin, 'copied')));
  expect(new Set(copies.map(({ body }) => body.attestation_id)).size).toBe(1);
  const names = ['b', 'A', 'a', 'B', '_', 'ä'];
  const total = async () => (await world.api('GET', '/gates?limit=100')).body.total;
  const before = await total();
  for (const name of names)
    expect((await world.api('POST', '/gates', { name, trust_level: 'L1' })).status).toBe(201);
  expect(await total()).toBe(before + names.length);
  await world.verifyExport();
});
