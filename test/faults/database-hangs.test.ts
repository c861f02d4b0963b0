import { createServer, connect as dial, type Socket } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Database } from '../../control-plane/base/database.ts';
import { connect } from '../../control-plane/storage/connect.ts';
import { limits } from '../../shared/model/limits.ts';
import { type Api, startApi } from '../support/api.ts';
import { expectError } from '../support/expect-error.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { expectWithin, timed } from '../support/time-promise.ts';
import { until } from '../support/until.ts';

/**
 * Passes bytes to the database until it is frozen: then connections stay open, new ones too, and nothing
 * comes through.
 */
async function freezableLink(folder: string, databaseUrl: string) {
  const url = new URL(databaseUrl);
  const behind = join(url.searchParams.get('host') ?? '', '.s.PGSQL.5432');
  const open = new Set<Socket>();
  let isFrozen = false;
  const server = createServer((near) => {
    const far = dial(behind);
    for (const [socket, other] of [
      [near, far],
      [far, near],
    ] as const) {
      open.add(socket);
      socket.on('error', () => other.destroy());
      socket.on('close', () => {
        open.delete(socket);
        other.destroy();
      });
      socket.on('data', (bytes) => other.write(bytes));
      if (isFrozen) socket.pause();
    }
  });
  await new Promise<void>((resolve) => server.listen(join(folder, '.s.PGSQL.5432'), resolve));
  url.searchParams.set('host', folder);
  return {
    url: url.href,
    freeze: () => {
      isFrozen = true;
      for (const socket of open) socket.pause();
    },
    thaw: () => {
      isFrozen = false;
      for (const socket of open) socket.resume();
    },
    close: () => {
      for (const socket of open) socket.destroy();
      server.close();
    },
  };
}

const silenceMsMax = 1_000;
const folder = temporaryFolder();
let api: Api;
let link: Awaited<ReturnType<typeof freezableLink>>;
let linked: Database | null = null;

beforeAll(async () => {
  // The app is built before its database has a name; the pool behind the link takes over with the first
  // request.
  const target = (direct: Database): Database => linked ?? direct;
  api = await startApi({
    wrapSql: (direct) =>
      new Proxy(direct, {
        apply: (_sql, _this, args) => Reflect.apply(target(direct), undefined, args),
        get: (_sql, name) => Reflect.get(target(direct), name),
      }),
  });
  link = await freezableLink(folder.path, api.databaseUrl);
  linked = connect({ url: link.url, connectionsMax: 4, silenceMsMax });
});
afterAll(async () => {
  link.close();
  await linked?.end({ timeout: 1 });
  await api.close();
  folder.remove();
});

describe('a database that falls silent', () => {
  it('costs the requests in flight a 503, and serves the next ones when the database answers again', async () => {
    expect((await api.call({ url: '/v1/gates' })).status).toBe(200);
    await expectWithin(3 * silenceMsMax, 'a call and /readyz are answered', async () => {
      link.freeze();
      const { result, ...time } = await timed(() =>
        Promise.all([api.call({ url: '/v1/gates' }), api.call({ url: '/readyz', key: null })]),
      );
      const [call, ready] = result;
      expectError(call, 'service_unavailable');
      expect(ready.body).toMatchObject({ status: 'not_ready', database: 'unreachable' });
      link.thaw();
      const isServed = async () => (await api.call({ url: '/v1/gates' })).status === 200;
      await until(isServed, { what: 'a served call' });
      return time;
    });
    expect((await api.call({ url: '/readyz', key: null })).status).toBe(200);
  });

  it('answers /readyz in time also where the pool is more patient', async () => {
    const short = linked;
    const freezePatientPool = async (): Promise<Database> => {
      linked = connect({ url: link.url, connectionsMax: 1, silenceMsMax: 20_000 });
      expect((await api.call({ url: '/readyz', key: null })).status).toBe(200);
      link.freeze();
      return linked;
    };
    let patient = await freezePatientPool();
    await expectWithin(3_000, '/readyz is answered', async () => {
      const { result, ...time } = await timed(() => api.call({ url: '/readyz', key: null }));
      expect(result.body).toMatchObject({ database: 'unreachable' });
      return time;
    });
    await expectWithin(2_000, 'a pool with a silent connection ends', async () => {
      const time = await timed(() => patient.end({ timeout: 1 }));
      link.thaw();
      patient = await freezePatientPool();
      return time;
    });
    await patient.end({ timeout: 1 });
    link.thaw();
    linked = short;
  });
});

it('ends no statement that is quicker than the deadline, and no idle connection in the middle of its use', async () => {
  const sql = connect({ url: api.databaseUrl, connectionsMax: 1, silenceMsMax: 4_000 });
  try {
    await sql`SELECT pg_sleep(0.2)`;
    await sql.begin(async (tx) => {
      for (let round = 0; round < 9; round++) await tx`SELECT pg_sleep(0.5)`;
    });
    // Past the deadline: the connection was cut, and the pool has another.
    await expect(sql`SELECT pg_sleep(20)`).rejects.toMatchObject({ code: 'CONNECTION_CLOSED' });
    expect(await sql`SELECT 1 AS one`).toEqual([{ one: 1 }]);
  } finally {
    await sql.end({ timeout: 1 });
  }
  expect(limits.databaseSilenceMsMax).toBeLessThanOrEqual(10_000);
});
