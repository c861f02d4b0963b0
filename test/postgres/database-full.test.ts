import { afterAll, beforeAll, expect, it } from 'vitest';
import { type DebianPostgres, makeOwnedDatabase } from '../../bench/harness/debian-postgres.ts';
import type { Database } from '../../control-plane/base/database.ts';
import { connect } from '../../control-plane/storage/connect.ts';
import { call } from '../support/base/http-client.ts';
import { until, untilAnswer } from '../support/base/until.ts';
import { testPgBouncer } from '../support/peers/pgbouncer.ts';
import { installation } from '../support/programs/installation.ts';
import { bundledPrograms } from '../support/programs/programs.ts';
import { testDebianPostgres } from '../support/run/debian-postgres.ts';
import { isPassing } from '../support/service/sidecar-pair.ts';

/** A server that has fewer connections than a pool wants. */
let server: DebianPostgres;
let url: string;
let admin: Database;
beforeAll(async () => {
  server = await testDebianPostgres();
  url = await makeOwnedDatabase(server.url);
  admin = connect({ url: server.url, connectionsMax: 1 });
});
afterAll(async () => {
  await admin.end({ timeout: 1 });
  await server.stop();
});

const ask = (sql: Database, n: number) => sql<{ n: number }[]>`SELECT ${n}::int AS n, pg_sleep(0.02)`;
const numbers = (count: number) => Array.from({ length: count }, (_, n) => n);

it('answers all statements and transactions of a pool that wants ten where the role has three', async () => {
  await admin.unsafe('ALTER ROLE agent_trust CONNECTION LIMIT 3');
  let refused = 0;
  const sql = connect({ url, connectionsMax: 10, onRefused: () => (refused += 1) });
  try {
    const answers = await Promise.all(
      numbers(60).map((n) => (n % 2 === 0 ? ask(sql, n) : sql.begin((tx) => ask(tx as never, n)))),
    );
    expect(answers.map(([row]) => row?.n)).toEqual(numbers(60));
    expect(refused).toBeGreaterThan(0);
    // Not one attempt for each statement: a refused connection costs the server a process.
    expect(refused).toBeLessThan(20);
  } finally {
    await sql.end({ timeout: 1 });
    await admin.unsafe('ALTER ROLE agent_trust CONNECTION LIMIT -1');
  }
});

it('opens another once there is room, while all that it has are in long transactions', async () => {
  await admin.unsafe('ALTER ROLE agent_trust CONNECTION LIMIT 2');
  let refused = 0;
  const sql = connect({ url, connectionsMax: 4, onRefused: () => (refused += 1) });
  let end = (): void => undefined;
  const ended = new Promise<void>((resolve) => {
    end = resolve;
  });
  try {
    const long = numbers(2).map(() =>
      sql.begin(async (tx) => {
        await tx`SELECT 1`;
        await ended;
      }),
    );
    const waiting = ask(sql, 7).execute();
    await until(() => refused > 0, { what: 'a connection is refused' });
    await admin.unsafe('ALTER ROLE agent_trust CONNECTION LIMIT 3');
    expect((await waiting)[0]?.n).toBe(7);
    end();
    await Promise.all(long);
  } finally {
    end();
    await sql.end({ timeout: 1 });
    await admin.unsafe('ALTER ROLE agent_trust CONNECTION LIMIT -1');
  }
});

it('fails with the words of the server where it gets no connection at all, in the time of a connection', async () => {
  await admin.unsafe('ALTER ROLE agent_trust CONNECTION LIMIT 0');
  const sql = connect({ url, connectionsMax: 4 });
  try {
    const startedMs = performance.now();
    await expect(ask(sql, 1)).rejects.toMatchObject({ code: '53300' });
    expect(performance.now() - startedMs).toBeLessThan(15_000);
  } finally {
    await sql.end({ timeout: 1 });
    await admin.unsafe('ALTER ROLE agent_trust CONNECTION LIMIT -1');
  }
});

it('gives the statements of a pool behind PgBouncer to the clients that it takes', async () => {
  const bouncer = await testPgBouncer(url, { max_client_conn: '3' });
  let refused = 0;
  const sql = connect({
    ...{ url: bouncer.url, connectionsMax: 10, isThroughPooler: true },
    onRefused: () => (refused += 1),
  });
  try {
    const answers = await Promise.all(numbers(60).map((n) => ask(sql, n)));
    expect(answers.map(([row]) => row?.n)).toEqual(numbers(60));
    expect(refused).toBeGreaterThan(0);
  } finally {
    await sql.end({ timeout: 1 });
    await bouncer.stop();
  }
});

it('a control plane with fewer connections than it wants says so, and answers everything', async () => {
  await admin.unsafe('ALTER ROLE agent_trust CONNECTION LIMIT 5');
  const world = await installation(await bundledPrograms(), { databaseUrl: url });
  try {
    const { origin, program } = await world.startControlPlane();
    await program.waitFor(/the database allows fewer connections than DATABASE_CONNECTIONS/);
    const gateId = await world.createGate({ trust_level: 'L1' });
    const { token } = await world.issuePassport();
    const checkOnce = (n: number) =>
      call(`${origin}/v1/gates/${gateId}/check`, {
        method: 'POST',
        key: world.adminKey,
        body: { passport: token, request: { permission_key: 'orders:create', idempotency_key: `key-${n}` } },
      });
    // A busy machine says that it is overloaded, and to ask again.
    const check = (n: number) =>
      untilAnswer(
        () => checkOnce(n),
        (answer) => !isPassing(answer),
        { what: 'an answer that stays' },
      );
    // Few enough that one account has them all waiting, and more than the server has connections.
    const answers = await Promise.all(numbers(12).map(check));
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200));
    const { body } = await call(`${origin}/readyz`);
    expect(body).toMatchObject({ status: 'ready', database_connections_max: 32 });
    expect(body.database_connections_refused).toBeGreaterThan(0);
  } finally {
    await world.close();
    await admin.unsafe('ALTER ROLE agent_trust CONNECTION LIMIT -1');
  }
});
