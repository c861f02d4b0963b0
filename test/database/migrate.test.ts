import { mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { migrate, type OnStep } from '../../control-plane/storage/migrate.ts';
import { MigrationError } from '../../control-plane/storage/migration-files.ts';
import { useFolder } from '../support/base/use.ts';
import { type TestDatabase, testDatabase } from '../support/database/postgres.ts';

describe('migrate', () => {
  let database: TestDatabase;
  const folder = useFolder();
  beforeEach(async () => {
    database = await testDatabase({ isEmpty: true });
    mkdirSync(join(folder.path, 'migrations'));
    write('0001-first.sql', 'CREATE TABLE first (x bigint); INSERT INTO first VALUES (1);');
    write('0002-second.sql', 'CREATE TABLE second AS SELECT x + 1 AS x FROM first');
  });
  afterEach(async () => {
    await database.drop();
  });

  const path = (name: string) => join(folder.path, 'migrations', name);
  const write = (name: string, text: string) => writeFileSync(path(name), text);
  const run = (onStep: OnStep = () => undefined) => {
    const directory = pathToFileURL(`${join(folder.path, 'migrations')}/`);
    return migrate(database.sql, { directory, onStep });
  };
  const applied = async () =>
    (await database.sql<{ name: string }[]>`SELECT name FROM migrations ORDER BY number`).map(
      (row) => row.name,
    );

  it('applies only what is new at the next start', async () => {
    await run();
    write('0003-third.sql', 'INSERT INTO first VALUES (3)');
    await run();
    await run();
    expect(await database.sql`SELECT x FROM first`).toEqual([{ x: 1 }, { x: 3 }]);
  });

  it('applies each once when replicas start at the same moment', async () => {
    await Promise.all([run(), run(), run(), run()]);
    expect(await database.sql`SELECT x FROM first`).toEqual([{ x: 1 }]);
    expect(await applied()).toHaveLength(2);
  });

  it('leaves the database at the last whole migration when one fails', async () => {
    write('0002-second.sql', 'CREATE TABLE second (x bigint); SELECT 1 / 0;');
    await expect(run()).rejects.toThrow('division by zero');
    expect(await applied()).toEqual(['0001-first.sql']);
    expect(await database.sql`SELECT 1 FROM pg_tables WHERE tablename = 'second'`).toEqual([]);
    write('0002-second.sql', 'CREATE TABLE second (x bigint)');
    await run();
    expect(await applied()).toHaveLength(2);
  });

  it('applies a file of steps until it returns no row, each step for itself, and goes on after the last', async () => {
    const step = 'UPDATE second SET x = x + 1 WHERE x < 5 RETURNING x';
    write('0003-third.steps.sql', `INSERT INTO first VALUES (7); SELECT 1 / (4 - x) FROM second; ${step}`);
    await expect(run()).rejects.toThrow('division by zero');
    expect(await database.sql`SELECT x FROM second`).toEqual([{ x: 4 }]);
    expect(await applied()).toHaveLength(2);
    write('0003-third.steps.sql', `INSERT INTO first VALUES (8); ${step}`);
    const steps: string[] = [];
    await run((file) => void steps.push(file));
    // The last step finds nothing to change.
    expect(steps).toEqual(['0003-third.steps.sql', '0003-third.steps.sql']);
    expect(await database.sql`SELECT x FROM second`).toEqual([{ x: 5 }]);
    // Twice 7 and twice 8: the last step is the one that finds nothing to change.
    expect(await database.sql`SELECT x FROM first ORDER BY x`).toEqual([1, 7, 7, 8, 8].map((x) => ({ x })));
    expect(await applied()).toEqual(['0001-first.sql', '0002-second.sql', '0003-third.steps.sql']);
  });

  it('refuses a file that was changed after it had been applied', async () => {
    await run();
    write('0001-first.sql', 'CREATE TABLE first (x text)');
    await expect(run()).rejects.toThrow(MigrationError);
    await expect(run()).rejects.toThrow('0001-first.sql was changed after it had been applied');
  });

  it('refuses a database at which a newer build has been at work', async () => {
    await run();
    rmSync(path('0002-second.sql'));
    await expect(run()).rejects.toThrow(/newer version of agent-trust: it has 0002-second\.sql/);
  });

  it('refuses a database of an unreleased build: an applied migration is another one here', async () => {
    await run();
    renameSync(path('0002-second.sql'), path('0002-other.sql'));
    await expect(run()).rejects.toThrow(
      /An unreleased build .* has applied 0002-second\.sql, where this one has 0002-other\.sql/,
    );
  });

  it.each(['0004-gap.sql', '0003-Upper.sql', 'third.sql'])('refuses a file named %s', async (name) => {
    write(name, 'SELECT 1');
    await expect(run()).rejects.toThrow(`${name} should be number 3`);
  });

  it('takes no notice of other files', async () => {
    write('README.md', 'not SQL');
    await run();
    expect(await applied()).toHaveLength(2);
  });
});
