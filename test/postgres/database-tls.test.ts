import { type AddressInfo, createServer, connect as dial, type Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { connect } from '../../control-plane/storage/connect.ts';
import { selfSigned } from '../support/base/self-signed.ts';
import { until } from '../support/base/until.ts';
import { type TestDatabase, testDatabase } from '../support/database/postgres.ts';

/**
 * For TLS the driver puts its socket under another one. The end of the two must cost the work that was on
 * them, and not the process.
 */
let database: TestDatabase;
let encrypted: Encrypted;

beforeEach(async () => {
  database = await testDatabase();
  encrypted = await encryptedWayTo(new URL(database.url));
});
afterEach(async () => {
  await encrypted.close();
  await database.drop();
});

const outcomeOf = (query: Promise<unknown>): Promise<'served' | 'rejected'> =>
  query.then(
    () => 'served',
    () => 'rejected',
  );

it('a connection under TLS that breaks is followed by another', async () => {
  const pool = connect({ url: encrypted.url, connectionsMax: 1 });
  for (let round = 0; round < 3; round++) {
    await until(async () => (await outcomeOf(pool`SELECT 1`)) === 'served', { what: 'a query is served' });
    const broken = outcomeOf(pool`SELECT pg_sleep(10)`);
    const isUnderWay = async () =>
      (await database.sql`SELECT FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%'`).length > 0;
    await until(isUnderWay, { what: 'a query is under way' });
    encrypted.cut();
    expect(await broken).toBe('rejected');
  }
  await pool.end({ timeout: 1 });
});

interface Encrypted {
  readonly url: string;
  /** Breaks what is open. */
  cut(): void;
  close(): Promise<void>;
}

/** Takes TLS as PostgreSQL does, in front of one at a Unix socket that takes none. */
async function encryptedWayTo(far: URL): Promise<Encrypted> {
  const certificate = selfSigned('localhost');
  const open = new Set<Socket>();
  const keep = (socket: Socket): void => {
    open.add(socket);
    // Whatever ends one side ends the other.
    socket.on('error', () => undefined).on('close', () => open.delete(socket));
  };
  const server = createServer((near) => {
    keep(near);
    near.once('data', () => {
      // The eight bytes that ask for TLS, and nothing after them.
      near.write('S');
      const plain = new TLSSocket(near, { isServer: true, ...certificate });
      const other = dial(`${far.searchParams.get('host')}/.s.PGSQL.5432`);
      keep(plain);
      keep(other);
      plain.pipe(other).pipe(plain);
      plain.on('close', () => other.destroy());
      other.on('close', () => plain.destroy());
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const cut = (): void => {
    for (const socket of open) socket.destroy();
  };
  return {
    url: `postgres://${far.searchParams.get('user')}@127.0.0.1:${port}${far.pathname}?sslmode=require`,
    cut,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        cut();
      }),
  };
}
