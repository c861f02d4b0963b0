import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Database } from '../../control-plane/base/database.ts';
import { connect } from '../../control-plane/storage/connect.ts';
import { convertInBackground } from '../../control-plane/storage/convert-in-background.ts';
import { type MigrateOptions, migrate, type OpenSession } from '../../control-plane/storage/migrate.ts';
import { keptLog } from '../support/base/kept-log.ts';
import { expectOnceWithin, timed } from '../support/base/time-promise.ts';
import { until } from '../support/base/until.ts';
import { useFolder } from '../support/base/use.ts';
import { type TestDatabase, testDatabase } from '../support/database/postgres.ts';

let database: TestDatabase;
const folder = useFolder();
beforeEach(async () => {
  database = await testDatabase({ isEmpty: true });
  mkdirSync(join(folder.path, 'before'));
  mkdirSync(join(folder.path, 'after'));
  write('0001-first.sql', 'CREATE TABLE first (x bigint); INSERT INTO first VALUES (1);');
});
afterEach(async () => {
  await database.drop();
});

const directory = (name: string) => pathToFileURL(`${join(folder.path, name)}/`);
/** Into both versions, or the later one alone. */
function write(name: string, text: string, versions: readonly string[] = ['before', 'after']): void {
  for (const version of versions) writeFileSync(join(folder.path, version, name), text);
}
const later = (name: string, text: string) => write(name, text, ['after']);
const startEarlier = (options: MigrateOptions = {}) =>
  migrate(database.sql, { directory: directory('before'), sharedUpTo: 1, ...options });
const startLater = (options: MigrateOptions = {}) =>
  migrate(database.sql, { directory: directory('after'), sharedUpTo: 1, ...options });
const names = async (table: string) =>
  (await database.sql<{ name: string }[]>`SELECT name FROM ${database.sql(table)} ORDER BY number`).map(
    ({ name }) => name,
  );

describe('a version and the one before on a database', () => {
  it('lets the version before start once more: it finds only what it knows in its table', async () => {
    await startEarlier();
    later('0002-second.sql', 'ALTER TABLE first ADD COLUMN y bigint');
    await startLater();
    expect(await names('migrations')).toEqual(['0001-first.sql']);
    expect(await names('expansions')).toEqual(['0002-second.sql']);
    await startEarlier();
    await startLater();
    expect(await database.sql`SELECT x, y FROM first`).toEqual([{ x: 1, y: null }]);
  });

  it('refuses the version before that as soon as one that may take away has started', async () => {
    await startEarlier();
    later('0002-second.sql', 'ALTER TABLE first ADD COLUMN y bigint');
    await startLater();
    await startLater({ sharedUpTo: 2 });
    expect(await names('migrations')).toEqual(['0001-first.sql', '0002-second.sql']);
    await expect(startEarlier()).rejects.toThrow(
      'it has 0002-second.sql, and this build ends at 0001-first.sql',
    );
    await startLater({ sharedUpTo: 1 });
  });

  it('refuses an expansion that was changed, or is another one', async () => {
    later('0002-second.sql', 'ALTER TABLE first ADD COLUMN y bigint');
    await startLater();
    write('0002-second.sql', 'ALTER TABLE first ADD COLUMN z bigint');
    await expect(startEarlier()).rejects.toThrow('0002-second.sql was changed after it had been applied');
  });
});

describe('a migration while others write', () => {
  let writer: Database;
  beforeEach(() => {
    writer = connect({ url: database.url, connectionsMax: 3 });
  });
  afterEach(() => writer.end({ timeout: 1 }));

  /** Holds a lock on the table, as a long export does, until it is let go. */
  async function longTransaction(): Promise<() => Promise<void>> {
    let letGo: () => void = () => undefined;
    const released = new Promise<void>((resolve) => {
      letGo = resolve;
    });
    let read: () => void = () => undefined;
    const hasRead = new Promise<void>((resolve) => {
      read = resolve;
    });
    const over = writer.begin(async (tx) => {
      await tx`SELECT count(*) FROM first`;
      read();
      await released;
    });
    await hasRead;
    return async () => {
      letGo();
      await over;
    };
  }

  it('waits for a long transaction without making writers wait for longer than 1 s', async () => {
    await startEarlier();
    later('0002-second.sql', 'ALTER TABLE first ADD COLUMN y bigint NOT NULL DEFAULT 0');
    const end = await longTransaction();
    const waits: (readonly OpenSession[])[] = [];
    const migrated = startLater({ onWait: (_file, sessions) => void waits.push(sessions) });
    let written = 0;
    while (waits.length < 2 || written <= 10) {
      const insert = await timed(async () => void (await writer`INSERT INTO first (x) VALUES (2)`));
      expectOnceWithin(1_000, 'a row is written', insert);
      written++;
    }
    expect(waits.at(-1)?.[0]).toMatchObject({ application: 'agent-trust', pid: expect.any(Number) });
    expect(await names('expansions')).toEqual([]);
    await end();
    await migrated;
    expect(await names('expansions')).toEqual(['0002-second.sql']);
    expect(await database.sql`SELECT count(*) AS count, sum(y)::int AS y FROM first`).toEqual([
      { count: written + 1, y: 0 },
    ]);
  });
});

describe('a conversion in the background', () => {
  const rows = 300;
  const step = `UPDATE first SET y = x WHERE x IN (SELECT x FROM first WHERE y IS NULL ORDER BY x LIMIT 50 FOR UPDATE)
    RETURNING x`;
  beforeEach(async () => {
    write('0002-fill.sql', `INSERT INTO first SELECT generate_series(2, ${rows})`);
    later('0003-second.sql', 'ALTER TABLE first ADD COLUMN y bigint');
    later('0004-convert.background.sql', step);
    later('0005-third.sql', 'ALTER TABLE first ADD COLUMN z bigint');
    await startLater();
  });
  const left = async () =>
    (await database.sql<{ left: number }[]>`SELECT count(*) AS left FROM first WHERE y IS NULL`)[0]?.left ??
    -1;
  const begin = (logger = keptLog()) =>
    convertInBackground(database.sql, { directory: directory('after'), sharedUpTo: 1, logger });

  it('is no part of the start, and goes on after the last step after a stop', async () => {
    expect(await left()).toBe(rows);
    expect(await names('expansions')).toEqual(['0002-fill.sql', '0003-second.sql', '0005-third.sql']);
    const first = begin();
    await until(async () => (await left()) < rows, { what: 'a step' });
    await first.stop();
    const atStop = await left();
    expect(atStop).toBeGreaterThan(0);
    expect(await left()).toBe(atStop);
    const log = keptLog();
    const second = begin(log);
    await until(async () => (await names('expansions')).includes('0004-convert.background.sql'), {
      what: 'the end of the conversion',
    });
    await second.stop();
    expect(await left()).toBe(0);
    const [end] = log.lines.filter(({ message }) => message === 'a table has been converted');
    expect(end?.fields).toMatchObject({ file: '0004-convert.background.sql', rows: atStop });
  });

  it('takes turns with other replicas, and passes over locked rows by trying again', async () => {
    const other = connect({ url: database.url, connectionsMax: 2 });
    let letGo: () => void = () => undefined;
    let lock: () => void = () => undefined;
    const isLocked = new Promise<void>((resolve) => {
      lock = resolve;
    });
    const held = other.begin(async (tx) => {
      await tx`SELECT x FROM first WHERE x = 150 FOR UPDATE`;
      lock();
      await new Promise<void>((resolve) => {
        letGo = resolve;
      });
    });
    await isLocked;
    const log = keptLog();
    const both = [begin(log), begin(log)];
    await until(() => log.text().includes('is tried again'), { what: 'a step that met the lock' });
    letGo();
    await held;
    await until(async () => (await left()) === 0, { what: 'all rows' });
    await Promise.all(both.map((each) => each.stop()));
    expect(await database.sql`SELECT count(*) AS count FROM first WHERE y <> x`).toEqual([{ count: 0 }]);
    await other.end();
  });

  it('is finished before the start of the version that may take the old form away', async () => {
    await startLater({ sharedUpTo: 5 });
    expect(await left()).toBe(0);
    expect(await names('migrations')).toContain('0004-convert.background.sql');
  });
});
