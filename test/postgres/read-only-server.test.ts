import { afterAll, beforeAll, expect, it } from 'vitest';
import type { DebianPostgres } from '../../bench/harness/debian-postgres.ts';
import { connect } from '../../control-plane/storage/connect.ts';
import { waitForDatabase } from '../../control-plane/storage/wait-for-database.ts';
import { silentLogger } from '../../shared/runtime/logger.ts';
import { until } from '../support/base/until.ts';
import { type TestPgBouncer, testPgBouncer } from '../support/peers/pgbouncer.ts';
import { testDebianPostgres } from '../support/run/debian-postgres.ts';

/** Two servers, and a PgBouncer in front of each, which keeps its clients when its server turns read-only. */
let servers: readonly DebianPostgres[] = [];
let bouncers: readonly TestPgBouncer[] = [];

const two = [0, 1] as const;

beforeAll(async () => {
  const hostRules = ['host all all all trust'];
  servers = await Promise.all(two.map(() => testDebianPostgres({ hostRules })));
  bouncers = await Promise.all(servers.map(({ url }) => testPgBouncer(url)));
});
afterAll(async () => {
  for (const one of [...bouncers, ...servers]) await one.stop();
});

it.each([
  ['', () => servers],
  [' behind a PgBouncer', () => bouncers],
])('a pool leaves a server%s that takes no writes any more', async (_, ends) => {
  const hosts = ends().map(({ url }) => new URL(url).host);
  const url = `postgres://postgres@${hosts.join(',')}/postgres?target_session_attrs=read-write`;
  const sql = connect({ url, connectionsMax: 4 });
  const portOf = (n: number) => new URL(servers[n]?.url ?? '').port;
  const write = () =>
    sql
      .begin(async (tx) => {
        await tx`CREATE TABLE IF NOT EXISTS written (id int)`;
        const [row] = await tx<{ port: string }[]>`SELECT current_setting('port') AS port, pg_sleep(0.02)`;
        return row?.port;
      })
      .catch((error: Error & { code?: string }) => error.code);
  /** As many as there are connections, at once. */
  const burst = () => Promise.all(Array.from({ length: 4 }, write));
  try {
    await waitForDatabase(sql, { url, logger: silentLogger, signal: new AbortController().signal });
    const used = await burst();
    const left = used.includes(portOf(0)) ? 0 : 1;
    expect(used).toContain(portOf(left));
    await setReadOnly(left, 'on');
    const all = two.flatMap(() => [portOf(1 - left), portOf(1 - left)]);
    // The first ones notice, and those that were on their way end with their connections.
    await until(async () => String(await burst()) === String(all), { what: 'all at the other server' });
    for (let n = 0; n < 10; n++) expect(await burst()).toEqual(all);
  } finally {
    for (const n of two) await setReadOnly(n, 'off');
    await sql.end({ timeout: 1 });
  }
});

async function setReadOnly(n: number, value: 'on' | 'off'): Promise<void> {
  const admin = connect({ url: servers[n]?.url ?? '', connectionsMax: 1 });
  await admin.unsafe(`ALTER SYSTEM SET default_transaction_read_only = ${value}`);
  await admin`SELECT pg_reload_conf()`;
  await admin.end();
}
