import { text } from 'node:stream/consumers';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type DebianPostgres, makeOwnedDatabase } from '../../bench/harness/debian-postgres.ts';
import type { Database, Transaction } from '../../control-plane/base/database.ts';
import { connect } from '../../control-plane/storage/connect.ts';
import { Replica } from '../../control-plane/storage/replica.ts';
import {
  noteChange,
  readAtReplicaOf,
  readStale,
  readStalePage,
} from '../../control-plane/storage/replica-reads.ts';
import { snapshotExporter } from '../../control-plane/storage/snapshot-export.ts';
import { inProcessBus } from '../../shared/bus/in-process.ts';
import type { AccountId } from '../../shared/model/ids.ts';
import type { MonotonicMillis } from '../../shared/model/time.ts';
import { silentLogger } from '../../shared/runtime/logger.ts';
import { call } from '../support/base/http-client.ts';
import { keptLog } from '../support/base/kept-log.ts';
import { until } from '../support/base/until.ts';
import { installation } from '../support/programs/installation.ts';
import { bundledPrograms } from '../support/programs/programs.ts';
import { testDebianPostgres } from '../support/run/debian-postgres.ts';

/** A primary of Debian's PostgreSQL and a streaming replica of it; the clock is moved by the tests. */
let primary: DebianPostgres;
let standby: DebianPostgres;
let atPrimary: Database;
let atStandby: Database;

const hostRules = ['host replication all all scram-sha-256'];

beforeAll(async () => {
  primary = await testDebianPostgres({ hostRules });
  standby = await testDebianPostgres({
    follows: primary.url,
    configuration: { max_standby_streaming_delay: '0', hot_standby_feedback: 'off' },
  });
  atPrimary = connect({ url: primary.url, connectionsMax: 8 });
  atStandby = connect({ url: standby.url, connectionsMax: 2 });
  await atPrimary`CREATE TABLE numbers (id bigint PRIMARY KEY)`;
});
afterAll(async () => {
  await atPrimary?.end({ timeout: 1 });
  await atStandby?.end({ timeout: 1 });
  await standby?.stop();
  await primary?.stop();
});

const reader = 'acct_00000000000000000000000001' as AccountId;
const writer = 'acct_00000000000000000000000002' as AccountId;
const bus = inProcessBus(silentLogger);

let aheadMs = 0;
/** The clock of the replica where only reading it moves it, so that a busy machine makes nothing old. */
let readAtMs: number | null = null;
function monotonic(): number {
  if (readAtMs === null) return performance.now();
  readAtMs += 0.001;
  return readAtMs;
}
let replica: Replica;
let log: ReturnType<typeof keptLog>;
let sql: Database;

/** With a pool of its own, to which the replica belongs. */
async function follow(url: string): Promise<void> {
  log = keptLog();
  sql = connect({ url: primary.url, connectionsMax: 8 });
  replica = new Replica({
    primary: sql,
    connect: () => connect({ url, setting: 'DATABASE_READ_URL', connectionsMax: 4 }),
    clock: { monotonic: () => (monotonic() + aheadMs) as MonotonicMillis },
    logger: log,
  });
  readAtReplicaOf(sql, replica, { atOnceMax: 2, perOwnerMax: 1 });
  await replica.look();
}

const whereItReads = (owner: AccountId | null = reader): Promise<string> =>
  readStale(sql, owner, async (from) => {
    const [row] = await from<{ isStandby: boolean }[]>`SELECT pg_is_in_recovery() AS "isStandby"`;
    return row?.isStandby ? 'replica' : 'primary';
  });

const insert = (first: number, last: number) =>
  atPrimary`INSERT INTO numbers SELECT * FROM generate_series(${first}::bigint, ${last}::bigint)`;
const replayed = () =>
  until(
    async () => {
      const [there] = await atPrimary<{ place: string }[]>`SELECT pg_current_wal_flush_lsn()::text AS place`;
      const [here] = await atStandby<{ isThere: boolean }[]>`
        SELECT pg_last_wal_replay_lsn() >= ${there?.place ?? ''}::pg_lsn AS "isThere"`;
      return here?.isThere === true;
    },
    { what: 'the replica has replayed everything' },
  );
const pause = async () => {
  await replayed();
  await atStandby`SELECT pg_wal_replay_pause()`;
  await until(
    async () =>
      (await atStandby<{ state: string }[]>`SELECT pg_get_wal_replay_pause_state() AS state`)[0]?.state ===
      'paused',
    { what: 'replay is paused' },
  );
};
const resume = () => atStandby`SELECT pg_wal_replay_resume()`;

describe('a replica', () => {
  beforeEach(async () => {
    aheadMs = 0;
    readAtMs = performance.now();
    await atPrimary`TRUNCATE numbers`;
    await replayed();
    await follow(standby.url);
  });
  afterEach(async () => {
    readAtMs = null;
    await resume();
    await replica.close();
    await sql.end({ timeout: 1 });
  });

  it('answers as long as it has what the primary had five seconds ago', async () => {
    expect(await whereItReads()).toBe('replica');
    await pause();
    await insert(1, 10);
    // Its state is older than that of the primary, and young enough.
    expect(await whereItReads()).toBe('replica');
    await replica.look();
    aheadMs += 4_000;
    await replica.look();
    expect(await whereItReads()).toBe('replica');
    expect(replica.stalenessMs).toBeGreaterThanOrEqual(4_000);
    aheadMs += 2_000;
    // Before the next look, too.
    expect(await whereItReads()).toBe('primary');
    await replica.look();
    await replica.look();
    expect(replica.passedOver).toBe('behind');
    expect(replica.stalenessMs).toBeNull();
    expect(log.lines.filter(({ fields }) => 'reason' in fields && fields.reason === 'behind')).toHaveLength(
      1,
    );
    await resume();
    await replayed();
    await replica.look();
    expect(await whereItReads()).toBe('replica');
    expect(replica.stalenessMs).toBeLessThan(1_000);
  });

  it('is in use however long nothing is written', async () => {
    aheadMs += 3_600_000;
    await replica.look();
    expect(await whereItReads()).toBe('replica');
  });

  it('does not answer while the primary has said nothing for five seconds', async () => {
    aheadMs += 6_000;
    expect(await whereItReads()).toBe('primary');
  });

  it('never shows less than what its reader has changed', async () => {
    await pause();
    await insert(1, 10);
    noteChange({ sql, bus }, writer);
    const count = async (from: Database | Transaction) => (await from`SELECT * FROM numbers`).length;
    expect(await readStale(sql, writer, count)).toBe(10);
    expect(await readStale(sql, reader, count)).toBe(0);
    await resume();
    await replayed();
    // The primary has not said since how far it is.
    expect(await whereItReads(writer)).toBe('primary');
    await replica.look();
    expect(await whereItReads(writer)).toBe('replica');
  });

  it('goes on with a walk only where it has all that the pages before came from', async () => {
    await insert(1, 10);
    await pause();
    await insert(11, 30);
    const readAt: string[] = [];
    const page = (owner: AccountId, cursor?: string) =>
      readStalePage(sql, { owner, query: { cursor } }, async (from, query) => {
        const behind = query.cursor === undefined ? 1_000 : Number(query.cursor);
        const rows = await from<{ id: number; isStandby: boolean }[]>`
          SELECT id, pg_is_in_recovery() AS "isStandby" FROM numbers WHERE id < ${behind} ORDER BY id DESC LIMIT 8`;
        readAt.push(rows[0]?.isStandby ? 'replica' : 'primary');
        const ids = rows.map(({ id }) => id);
        return { ids, next_cursor: ids.length < 8 ? null : String(ids.at(-1)) };
      });
    noteChange({ sql, bus }, writer);
    // The writer's first page comes from the primary, and another reader goes on after it.
    const first = await page(writer);
    const second = await page(reader, first.next_cursor ?? '');
    await resume();
    await replayed();
    const third = await page(reader, second.next_cursor ?? '');
    const last = await page(reader, third.next_cursor ?? '');
    expect(readAt).toEqual(['primary', 'primary', 'replica', 'replica']);
    expect([first, second, third, last].flatMap(({ ids }) => ids)).toEqual(
      Array.from({ length: 30 }, (_, n) => 30 - n),
    );
  });

  it('takes a cursor of before DATABASE_READ_URL was set', async () => {
    const cursorsSeen: unknown[] = [];
    const ask = (cursor: string) =>
      readStalePage(sql, { owner: reader, query: { cursor } }, async (_from, query) => {
        cursorsSeen.push(query.cursor);
        return { next_cursor: null };
      });
    for (const cursor of ['abc', 'abc.1z', 'abc.!', 'a.b.1z']) await ask(cursor);
    expect(cursorsSeen).toEqual(['abc', 'abc', 'abc.!', 'a.b.1z']);
  });

  it('hands a read to the primary that its recovery cancels, and an export that has not begun', async () => {
    await insert(1, 1_000);
    await replayed();
    const cancelled = async (from: Database | Transaction) => {
      const [row] = await from<{ isStandby: boolean }[]>`SELECT pg_is_in_recovery() AS "isStandby"`;
      if (row?.isStandby !== true) return 'primary';
      // A snapshot that lasts, of rows that go meanwhile.
      const read = from`SELECT count(*), pg_sleep(20) FROM numbers`.execute();
      await until(
        async () =>
          (
            await atStandby`SELECT FROM pg_stat_activity WHERE query LIKE 'SELECT count(*), pg_sleep%' AND state = 'active'`
          ).length > 0,
        { what: 'the replica reads' },
      );
      await atPrimary`DELETE FROM numbers WHERE id <= 500`;
      await atPrimary`VACUUM numbers`;
      await read;
      return 'replica';
    };
    expect(await readStale(sql, reader, cancelled)).toBe('primary');
    expect(replica.passedOver).toBeNull();

    await atPrimary`TRUNCATE numbers`;
    await insert(1, 1_000);
    await replayed();
    await replica.look();
    const exportSnapshot = snapshotExporter(
      { sql, logger: silentLogger },
      { atOnceMax: 1, perOwnerMax: 1, exportStallMsMax: 60_000, exportMsMax: 60_000 },
    );
    const stream = await exportSnapshot(reader, async function* (tx) {
      yield Buffer.from(await cancelled(tx));
    });
    expect(await text(stream)).toBe('primary');
    expect(replica.counts).toEqual({ replica: 0, primary: 2 });
  });

  it('leaves the primary no more reads at once than it can bear, and refuses what would wait for long', async () => {
    await pause();
    await insert(1, 1);
    aheadMs += 6_000;
    await replica.look();
    expect(replica.passedOver).toBe('behind');
    let running = 0;
    let most = 0;
    const ask = () =>
      readStale(sql, writer, async (from) => {
        most = Math.max(most, ++running);
        await from`SELECT pg_sleep(0.001)`;
        running -= 1;
        return 'answered';
      }).catch((error: Error & { code?: string }) => error.code);
    const answers = await Promise.all(Array.from({ length: 110 }, ask));
    expect(most).toBe(1);
    expect(answers.filter((answer) => answer === 'answered')).toHaveLength(101);
    expect(answers.filter((answer) => answer === 'overloaded')).toHaveLength(9);
  });

  it('is passed over while it is stopped, and in use again after its start', async () => {
    await standby.stopServer();
    expect(await whereItReads()).toBe('primary');
    // The first failure is enough: the next reads do not try.
    expect(replica.passedOver).toBe('away');
    await replica.look();
    expect(await whereItReads()).toBe('primary');
    expect(log.lines.filter(({ fields }) => 'reason' in fields && fields.reason === 'away')).toHaveLength(1);
    await standby.startServer();
    await until(
      async () => {
        await replica.look();
        return replica.passedOver === null;
      },
      { what: 'the replica is in use again' },
    );
    expect(await whereItReads()).toBe('replica');
  });
});

describe('the address of a replica', () => {
  afterEach(async () => {
    await replica.close();
    await sql.end({ timeout: 1 });
  });

  it('may not be that of a primary', async () => {
    await follow(primary.url);
    expect(replica.passedOver).toBe('not_following');
    expect(await whereItReads()).toBe('primary');
  });

  it('may not be that of another cluster', async () => {
    const other = await testDebianPostgres({ hostRules });
    const standbyOfOther = await testDebianPostgres({ follows: other.url });
    try {
      await follow(standbyOfOther.url);
      expect(replica.passedOver).toBe('another_cluster');
      expect(await whereItReads()).toBe('primary');
    } finally {
      await standbyOfOther.stop();
      await other.stop();
    }
  });

  it('may name several servers, and finds another when one is promoted', async () => {
    const second = await testDebianPostgres({ follows: primary.url });
    try {
      const several = new URL(second.url);
      const url = second.url.replace(several.host, `${several.host},${new URL(standby.url).host}`);
      await follow(`${url}?target_session_attrs=prefer-standby`);
      expect(replica.passedOver).toBeNull();
      const atSecond = connect({ url: second.url, connectionsMax: 1 });
      await atSecond`SELECT pg_promote()`;
      await atSecond.end();
      await until(
        async () => {
          await replica.look();
          return replica.passedOver === null && (await whereItReads()) === 'replica';
        },
        { what: 'the other replica is in use' },
      );
    } finally {
      await second.stop();
    }
  });
});

it('serves lists, statistics, searches and exports of a control plane, and its state', async () => {
  const databaseUrl = await makeOwnedDatabase(primary.url);
  const readUrl = new URL(databaseUrl);
  readUrl.port = new URL(standby.url).port;
  const world = await installation(await bundledPrograms(), { databaseUrl });
  try {
    const { origin } = await world.startControlPlane({ DATABASE_READ_URL: readUrl.href });
    const readyz = async () => (await call(`${origin}/readyz`)).body.replica;
    await until(async () => (await readyz())?.in_use === true, { what: 'the replica is in use' });
    expect(await readyz()).toEqual({ in_use: true, reason: null, staleness_ms: expect.any(Number) });

    const made: string[] = [];
    while (made.length < 25) {
      made.unshift(await world.createGate());
      // Read at once, and again while the replica follows.
      const { body } = await world.api('GET', '/gates?limit=1');
      expect(body.items[0].gate_id).toBe(made[0]);
    }
    const counted = async (database: string): Promise<number> => {
      const { body } = await call(`${origin}/metrics`);
      return Number(
        new RegExp(`agent_trust_reads_total\\{database="${database}"\\} (\\d+)`).exec(body)?.[1] ?? 0,
      );
    };
    await until(async () => (await world.api('GET', '/gates')) !== null && (await counted('replica')) > 0, {
      what: 'a list that the replica answers',
    });
    const walked: string[] = [];
    let cursor: string | null = null;
    do {
      const { body } = await world.api('GET', `/gates?limit=4${cursor === null ? '' : `&cursor=${cursor}`}`);
      walked.push(...body.items.map((gate: { gate_id: string }) => gate.gate_id));
      cursor = body.next_cursor;
    } while (cursor !== null);
    expect(walked).toEqual(made);

    const before = await counted('replica');
    const paths = ['/passports', '/attestations', '/audit', '/audit/export', '/attestations/export'];
    paths.push('/statistics/decisions', '/discover?capability=orders');
    for (const path of paths) expect((await world.api('GET', path)).status).toBe(200);
    expect((await counted('replica')) - before).toBe(paths.length);
    expect((await call(`${origin}/metrics`)).body).toMatch(/agent_trust_read_staleness_seconds 0\.?\d*/);
    await world.verifyExport();
  } finally {
    await world.close();
  }
});
