import { afterAll, beforeAll, expect, it } from 'vitest';
import type { DebianPostgres } from '../../bench/harness/debian-postgres.ts';
import { connect } from '../../control-plane/storage/connect.ts';
import { testDebianPostgres } from '../support/debian-postgres.ts';

/** Two servers, as they are behind poolers that keep connections through a switchover. */
let first: DebianPostgres;
let second: DebianPostgres;

beforeAll(async () => {
  [first, second] = (await Promise.all(
    [1, 2].map(() => testDebianPostgres({ hostRules: ['host all all all trust'] })),
  )) as [DebianPostgres, DebianPostgres];
});
afterAll(async () => {
  await first?.stop();
  await second?.stop();
});

it('a pool leaves a server that takes no writes any more for one that does', async () => {
  const hosts = [first, second].map(({ url }) => new URL(url).host);
  const sql = connect({
    url: `postgres://postgres@${hosts.join(',')}/postgres?target_session_attrs=read-write`,
    connectionsMax: 4,
  });
  const write = () =>
    sql
      .begin(async (tx) => {
        await tx`CREATE TABLE IF NOT EXISTS written (id int)`;
        const [row] = await tx<{ port: string }[]>`SELECT current_setting('port') AS port`;
        return row?.port;
      })
      .catch((error: Error & { code?: string }) => error.code);
  const portOf = ({ url }: DebianPostgres) => new URL(url).port;
  try {
    expect(await write()).toBe(portOf(first));
    const admin = connect({ url: first.url, connectionsMax: 1 });
    await admin`ALTER SYSTEM SET default_transaction_read_only = on`;
    await admin`SELECT pg_reload_conf()`;
    await admin.end();
    const answers: unknown[] = [];
    while (answers.length < 100 && answers.at(-1) !== portOf(second)) answers.push(await write());
    // The first one notices; those that were on their way may end with the connection.
    expect(answers.at(-1)).toBe(portOf(second));
    expect(answers.filter((answer) => answer === '25006').length).toBeLessThanOrEqual(1);
  } finally {
    await sql.end({ timeout: 1 });
  }
});
