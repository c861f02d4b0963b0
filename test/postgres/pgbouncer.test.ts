import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type DebianPostgres, makeOwnedDatabase } from '../../bench/harness/debian-postgres.ts';
import { connect } from '../../control-plane/storage/connect.ts';
import { passesThroughPooler } from '../../control-plane/storage/session-settings.ts';
import { waitForDatabase } from '../../control-plane/storage/wait-for-database.ts';
import { silentLogger } from '../../shared/runtime/logger.ts';
import { testDebianPostgres } from '../support/debian-postgres.ts';
import { call } from '../support/http-client.ts';
import { installation } from '../support/installation.ts';
import { testPgBouncer } from '../support/pgbouncer.ts';
import { bundledPrograms } from '../support/programs.ts';
import { untilAnswer } from '../support/until.ts';

let server: DebianPostgres;
let databaseUrl: string;

beforeAll(async () => {
  server = await testDebianPostgres();
  databaseUrl = await makeOwnedDatabase(server.url);
});
afterAll(() => server.stop());

const dropped = { ignore_startup_parameters: Object.keys(connectedSettings()).join(',') };

function connectedSettings() {
  const { application_name: _, ...settings } = connect({ url: 'postgres://nobody@127.0.0.1:1/none' }).options
    .connection;
  return settings;
}

describe.each([
  ['refuses settings of a session', {}],
  ['drops settings of a session', dropped],
])('PgBouncer in transaction mode that %s', (_, settings) => {
  it('has the settings in each transaction, and none that outlives it', async () => {
    const bouncer = await testPgBouncer(databaseUrl, settings);
    const sql = connect({ url: bouncer.url, connectionsMax: 4 });
    try {
      const signal = new AbortController().signal;
      await waitForDatabase(sql, { url: bouncer.url, logger: silentLogger, signal });
      expect(passesThroughPooler(sql)).toBe(true);
      const names = ['jit', 'enable_seqscan', 'statement_timeout', 'idle_in_transaction_session_timeout'];
      const settingsOf = async (on: Pick<typeof sql, 'unsafe'>) => {
        const [row] = await on.unsafe(
          `SELECT ${names.map((name) => `current_setting('${name}') AS ${name}`).join(', ')}`,
        );
        return row && names.map((name) => row[name]);
      };
      expect(await sql.begin(settingsOf)).toEqual(['off', 'off', '30s', '30s']);
      expect(await settingsOf(sql)).toEqual(['on', 'on', '0', '0']);
    } finally {
      await sql.end({ timeout: 1 });
      await bouncer.stop();
    }
  });
});

it('serves a control plane and a sidecar through a PgBouncer in transaction mode', async () => {
  // Fewer connections than the control plane opens: they change between transactions.
  const bouncer = await testPgBouncer(databaseUrl, { default_pool_size: '4', max_client_conn: '100' });
  const world = await installation(await bundledPrograms(), { databaseUrl: bouncer.url });
  try {
    await world.startControlPlane();
    const sidecar = await world.startSidecar();
    const gateId = await world.createGate({ trust_level: 'L1' });
    const { token } = await world.issuePassport();
    const check = (n: number) =>
      call(`${sidecar.origin}/v1/gates/${gateId}/check`, {
        method: 'POST',
        key: world.adminKey,
        body: { passport: token, request: { permission_key: 'orders:create', idempotency_key: `key-${n}` } },
      });
    // On a busy machine the time of one may be over: 503 says to ask again.
    const permitted = (n: number) =>
      untilAnswer(
        () => check(n),
        ({ status }) => status !== 503,
        { what: `an answer about key ${n}` },
      );
    const answers = await Promise.all(Array.from({ length: 40 }, (_, n) => permitted(n)));
    expect(answers.map(({ body }) => body)).toEqual(
      answers.map(() => expect.objectContaining({ decision: 'PERMIT' })),
    );
    await world.verifyExport();
  } finally {
    await world.close();
    await bouncer.stop();
  }
});
