import { type AddressInfo, createServer, connect as dial, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Database } from '../../control-plane/base/database.ts';
import { connect } from '../../control-plane/storage/connect.ts';
import { must } from '../../shared/errors/assert.ts';
import { type TestDatabase, testDatabase } from '../support/database/postgres.ts';

/**
 * On each new connection the driver asks PostgreSQL for the types of arrays first, by itself. When that comes
 * to nothing, nobody but the driver knows of the question, so that its failure must not end the process, must
 * not reach a statement that was never sent, and must leave no connection that reads arrays as text.
 */
let database: TestDatabase;
let server: Server;
let pool: Database;
let asked: number;
/** In the text of the question. */
let question: string;
/** Done at each question; what it gives is passed on. */
let onTypes: (near: Socket, question: Buffer) => Promise<Buffer>;
let unhandled: unknown[];
const keep = (reason: unknown) => void unhandled.push(reason);

beforeEach(async () => {
  database = await testDatabase();
  asked = 0;
  question = 'pg_catalog.pg_type';
  unhandled = [];
  process.on('unhandledRejection', keep);
  const url = new URL(database.url);
  const far = join(must(url.searchParams.get('host'), 'it listens in a folder'), '.s.PGSQL.5432');
  server = createServer((near) => passTo(far, near));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const user = must(url.searchParams.get('user'), 'it names its user');
  pool = connect({ url: `postgres://${user}@127.0.0.1:${port}${url.pathname}`, connectionsMax: 1 });
});
afterEach(async () => {
  process.off('unhandledRejection', keep);
  await pool.end({ timeout: 1 });
  await new Promise((resolve) => server.close(resolve));
  await database.drop();
});

function passTo(path: string, near: Socket): void {
  const far = dial(path);
  for (const [one, other] of [
    [near, far],
    [far, near],
  ] as const) {
    one.on('error', () => other.destroy());
    one.on('close', () => other.destroy());
  }
  far.pipe(near);
  near.on('data', (bytes) => {
    if (bytes.includes(question)) {
      asked += 1;
      onTypes(near, bytes).then((passed) => far.write(passed), keep);
    } else {
      far.write(bytes);
    }
  });
}

const firstTime = (work: (near: Socket) => unknown) => async (near: Socket, bytes: Buffer) => {
  if (asked === 1) await work(near);
  return bytes;
};
const killSessions = async (): Promise<void> => {
  await database.sql`SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid()`;
};
const readArray = async () => (await pool`SELECT ARRAY['one', 'two'] AS words`)[0]?.['words'];

describe('a connection that ends while the driver asks for types', () => {
  it('is replaced, and the statement that waited for it is served, when its socket closes', async () => {
    onTypes = firstTime((near) => near.destroy());
    expect(await readArray()).toEqual(['one', 'two']);
    expect({ asked, unhandled }).toEqual({ asked: 2, unhandled: [] });
  });

  it('is replaced, and the statement is served, when PostgreSQL says that it ends it', async () => {
    onTypes = firstTime(killSessions);
    expect(await readArray()).toEqual(['one', 'two']);
    expect({ asked, unhandled }).toEqual({ asked: 2, unhandled: [] });
  });

  it('costs the statement that waited for it and nothing else when its socket fails', async () => {
    onTypes = firstTime((near) => near.resetAndDestroy());
    await expect(readArray()).rejects.toThrow(/ECONNRESET/);
    expect(await readArray()).toEqual(['one', 'two']);
    expect(unhandled).toEqual([]);
  });
});

it('gives up a connection on which the question for types was refused, and asks again on the next', async () => {
  const misspelt = (question: Buffer) =>
    Buffer.from(question.toString('latin1').replace('pg_type b', 'no_type b'), 'latin1');
  onTypes = async (_, question) => (asked === 1 ? misspelt(question) : question);
  await expect(readArray()).rejects.toThrow(/no_type/);
  expect(await readArray()).toEqual(['one', 'two']);
  expect({ asked, unhandled }).toEqual({ asked: 2, unhandled: [] });
});

describe('a connection that ends while the driver asks whether the server is the primary', () => {
  beforeEach(async () => {
    const { host, port, user, database: name } = pool.options;
    await pool.end({ timeout: 1 });
    question = 'pg_catalog.pg_is_in_recovery';
    pool = connect({
      url: `postgres://${user}@${host}:${port}/${name}?target_session_attrs=primary`,
      connectionsMax: 1,
    });
  });

  it('is replaced, and the statement that waited for it is served', async () => {
    onTypes = firstTime((near) => near.destroy());
    expect(await readArray()).toEqual(['one', 'two']);
    expect({ asked, unhandled }).toEqual({ asked: 2, unhandled: [] });
  });

  it('is replaced where the question is refused', async () => {
    onTypes = async (_near, bytes) =>
      asked > 1 ? bytes : Buffer.from(bytes.toString('latin1').replace('select', 'sElEcc'), 'latin1');
    expect(await readArray()).toEqual(['one', 'two']);
    expect({ asked, unhandled }).toEqual({ asked: 2, unhandled: [] });
  });

  it('fails the statement alone where every one ends', async () => {
    onTypes = async (near, bytes) => {
      near.destroy();
      return bytes;
    };
    await expect(readArray()).rejects.toMatchObject({ code: 'CONNECTION_CLOSED' });
    expect(unhandled).toEqual([]);
  });
});
