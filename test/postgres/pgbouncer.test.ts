import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type DebianPostgres, makeOwnedDatabase } from '../../bench/harness/debian-postgres.ts';
import type { Transaction } from '../../control-plane/base/database.ts';
import { connect } from '../../control-plane/storage/connect.ts';
import { CopyRows, copyIn } from '../../control-plane/storage/copy-rows.ts';
import { passesThroughPooler } from '../../control-plane/storage/session-settings.ts';
import { beginReading, together } from '../../control-plane/storage/together.ts';
import { waitForDatabase } from '../../control-plane/storage/wait-for-database.ts';
import { silentLogger } from '../../shared/runtime/logger.ts';
import { call } from '../support/base/http-client.ts';
import { until, untilAnswer } from '../support/base/until.ts';
import { type TestPgBouncer, testPgBouncer } from '../support/peers/pgbouncer.ts';
import { installation } from '../support/programs/installation.ts';
import { bundledPrograms } from '../support/programs/programs.ts';
import { testDebianPostgres } from '../support/run/debian-postgres.ts';

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

/**
 * The rows of a COPY are sent after its statement without waiting. Where that has failed by then, they
 * arrive at a server that expects none, and PgBouncer stands between.
 */
describe('a batch of rows that fails behind a PgBouncer in transaction mode', () => {
  let bouncer: TestPgBouncer;
  let sql: ReturnType<typeof connect>;
  let direct: ReturnType<typeof connect>;

  beforeAll(async () => {
    // Fewer connections than the pool has: what a failure leaves behind meets the next batch.
    bouncer = await testPgBouncer(databaseUrl, { default_pool_size: '2' });
    sql = connect({ url: bouncer.url, connectionsMax: 4 });
    direct = connect({ url: databaseUrl, connectionsMax: 2 });
    const signal = new AbortController().signal;
    await waitForDatabase(sql, { url: bouncer.url, logger: silentLogger, signal });
    await direct`CREATE TABLE copied (id bigint PRIMARY KEY, filling text NOT NULL)`;
    await direct`CREATE TABLE batches (first bigint PRIMARY KEY)`;
  });
  beforeEach(() => direct`TRUNCATE copied, batches`);
  afterAll(async () => {
    await sql?.end({ timeout: 1 });
    await direct?.end({ timeout: 1 });
    await bouncer?.stop();
  });

  const rowsOfBatch = 1_000;
  /** Some 4 MB: far more than the sockets between hold. */
  const filling = 'x'.repeat(4_000);
  const copied = (strings: TemplateStringsArray) => strings;

  /** All of it, and its row of `batches`, or nothing. `before` and `behind` travel with the rows. */
  async function store(
    first: number,
    {
      before = (tx: Transaction) => tx`SELECT 1`,
      behind = (tx: Transaction) => tx`SELECT 1`,
    }: {
      readonly before?: (tx: Transaction) => PromiseLike<unknown>;
      readonly behind?: (tx: Transaction) => PromiseLike<unknown>;
    } = {},
  ): Promise<void> {
    const rows = new CopyRows(rowsOfBatch * (filling.length + 32));
    for (let id = first; id < first + rowsOfBatch; id++) {
      rows.row(2);
      rows.bigint(id);
      rows.text(filling);
    }
    await beginReading(sql, (tx) =>
      together([
        () => before(tx),
        () => copyIn(tx, copied`COPY copied (id, filling) FROM STDIN (FORMAT binary)`, rows.take()),
        () => tx`INSERT INTO batches VALUES (${first})`,
        () => behind(tx),
      ]),
    );
  }

  const codeOf = (work: Promise<unknown>): Promise<string> =>
    work.then(
      () => 'stored',
      (error: Error & { code?: string }) => error.code ?? error.message,
    );

  /** With a row that a batch from 1 on waits for, until it is over. */
  async function whileWaiting(work: (untilItWaits: () => Promise<number>) => Promise<void>): Promise<void> {
    const held = await direct.reserve();
    try {
      await held`BEGIN`;
      await held`INSERT INTO copied VALUES (${rowsOfBatch}, '')`;
      await work(async () => {
        // On a connection without a transaction: within one, the first look at the activity is kept.
        const waiting = () => direct<{ pid: number }[]>`
          SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'COPY copied%'`;
        await until(async () => (await waiting()).length === 1, { what: 'the COPY waits' });
        return (await waiting())[0]?.pid ?? 0;
      });
    } finally {
      await held`ROLLBACK`;
      held.release();
    }
  }

  /** Batches that fail; each resolves to the codes of their errors. */
  const failures: readonly (readonly [
    what: string,
    fail: () => Promise<readonly string[]>,
    codes: string[],
  ])[] = [
    [
      'by its last row',
      async () => {
        await direct`INSERT INTO copied VALUES (${rowsOfBatch}, '')`;
        const code = await codeOf(store(1));
        await direct`DELETE FROM copied`;
        return [code];
      },
      ['23505'],
    ],
    [
      'by a statement before it',
      async () => [await codeOf(store(1, { before: (tx) => tx`SELECT 1 / 0` }))],
      ['22012'],
    ],
    [
      'for its time',
      async () => {
        let code = '';
        await whileWaiting(async (untilItWaits) => {
          const before = (tx: Transaction) => tx`SELECT set_config('statement_timeout', '3000', true)`;
          const stored = codeOf(store(1, { before }));
          await untilItWaits();
          code = await stored;
        });
        return [code];
      },
      ['57014'],
    ],
    [
      'because its server process is ended',
      async () => {
        let code = '';
        await whileWaiting(async (untilItWaits) => {
          const stored = codeOf(store(1));
          await direct`SELECT pg_terminate_backend(${await untilItWaits()}::int)`;
          code = await stored;
        });
        return [code];
      },
      // PgBouncer passes on what the server said, or just closes.
      [expect.stringMatching(/^(57P01|CONNECTION_CLOSED)$/)],
    ],
    [
      'beside others that do as well',
      () =>
        Promise.all(
          [1, 1, 1, 1, 1, 1].map((first) => codeOf(store(first, { before: (tx) => tx`SELECT 1 / 0` }))),
        ),
      ['22012', '22012', '22012', '22012', '22012', '22012'],
    ],
  ];

  it.each(failures)('%s: nothing is stored of it, and all of what comes next', async (_what, fail, codes) => {
    expect(await fail()).toEqual(codes);
    expect(await direct`SELECT count(*) AS count FROM copied`).toEqual([{ count: 0 }]);
    const firsts = Array.from({ length: 12 }, (_, place) => 1 + place * rowsOfBatch);
    const outcomes = await Promise.all(firsts.map((first) => codeOf(store(first))));
    expect(outcomes).toEqual(firsts.map(() => 'stored'));
    expect(await sql`SELECT first FROM batches ORDER BY first`).toEqual(firsts.map((first) => ({ first })));
    expect(await direct`SELECT count(*) AS count, count(DISTINCT id) AS ids FROM copied`).toEqual([
      { count: firsts.length * rowsOfBatch, ids: firsts.length * rowsOfBatch },
    ]);
    expect(await direct`SELECT pid FROM pg_stat_progress_copy`).toEqual([]);
    // Of clients alone: a vacuum may come by itself.
    const busy = () => direct`SELECT state, query FROM pg_stat_activity
      WHERE datname = current_database() AND pid <> pg_backend_pid() AND state <> 'idle'
        AND backend_type = 'client backend'`;
    await until(async () => (await busy()).length === 0, { what: 'no client that is busy' });
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
