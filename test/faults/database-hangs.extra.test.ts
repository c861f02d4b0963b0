import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Database } from '../../control-plane/base/database.ts';
import { connect } from '../../control-plane/storage/connect.ts';
import { limits } from '../../shared/model/limits.ts';
import { expectWithin, timed } from '../support/base/time-promise.ts';
import { type HangingDatabase, hangingDatabase } from './hanging-database.ts';

let world: HangingDatabase;
beforeAll(async () => {
  world = await hangingDatabase(1_000);
});
afterAll(() => world?.close());

it('a silent database leaves /readyz an answer in time also where the pool is more patient', async () => {
  const short = world.linked;
  const freezePatientPool = async (): Promise<Database> => {
    world.linked = connect({ url: world.link.url, connectionsMax: 1, silenceMsMax: 20_000 });
    expect((await world.api.call({ url: '/readyz', key: null })).status).toBe(200);
    world.link.freeze();
    return world.linked;
  };
  let patient = await freezePatientPool();
  await expectWithin(3_000, '/readyz is answered', async () => {
    const { result, ...time } = await timed(() => world.api.call({ url: '/readyz', key: null }));
    expect(result.body).toMatchObject({ database: 'unreachable' });
    return time;
  });
  await expectWithin(2_000, 'a pool with a silent connection ends', async () => {
    const time = await timed(() => patient.end({ timeout: 1 }));
    world.link.thaw();
    patient = await freezePatientPool();
    return time;
  });
  await patient.end({ timeout: 1 });
  world.link.thaw();
  world.linked = short;
});

it('ends no statement that is quicker than the deadline, and no idle connection in the middle of its use', async () => {
  const sql = connect({ url: world.api.databaseUrl, connectionsMax: 1, silenceMsMax: 4_000 });
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
