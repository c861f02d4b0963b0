import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Database } from '../../control-plane/base/database.ts';
import { connect } from '../../control-plane/storage/connect.ts';
import { collectGarbage, collectYoungGarbage } from '../../shared/runtime/collect-garbage.ts';
import { type TestDatabase, testDatabase } from '../support/database/postgres.ts';

/**
 * What a finished query or transaction referred to must be garbage like any other, gone with the next
 * collection of young objects (deploy/patches/README.md).
 */
const mebibyte = 1024 ** 2;
/** Too few for V8 to begin a full collection by itself, which would hide what is held. */
const times = 16;
let database: TestDatabase;
let pool: Database;

beforeAll(async () => {
  database = await testDatabase();
  pool = connect({ url: database.url, connectionsMax: 1 });
  await pool`SELECT 1`;
});
afterAll(async () => {
  await pool.end({ timeout: 1 });
  await database.drop();
});

/** Each piece of work refers to a mebibyte; returns how many of them are still there. */
async function mebibytesHeldAfter(work: (held: Buffer) => Promise<unknown>): Promise<number> {
  collectGarbage();
  const before = process.memoryUsage().arrayBuffers;
  for (let i = 0; i < times; i++) {
    await work(Buffer.allocUnsafeSlow(mebibyte));
    collectYoungGarbage();
  }
  collectYoungGarbage();
  return (process.memoryUsage().arrayBuffers - before) / mebibyte;
}

it('lets go of what a query refers to', async () => {
  const held = await mebibytesHeldAfter((bytes) =>
    pool`SELECT 1`.forEach(() => {
      bytes.fill(0, 0, 1);
    }),
  );
  expect(held).toBeLessThan(times / 4);
});

it('lets go of what a transaction refers to', async () => {
  const held = await mebibytesHeldAfter((bytes) =>
    pool.begin(async (tx) => {
      await tx`SELECT 1`;
      bytes.fill(0, 0, 1);
    }),
  );
  expect(held).toBeLessThan(times / 4);
});
