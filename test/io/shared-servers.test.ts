import { Redis } from 'ioredis';
import { afterEach, describe, expect, it } from 'vitest';
import { testDatabase } from '../support/postgres.ts';
import { type TestRedis, testRedis } from '../support/redis.ts';
import { until } from '../support/until.ts';

describe('testDatabase', () => {
  it('gives each caller a migrated database of its own', async () => {
    const [first, second] = await Promise.all([testDatabase(), testDatabase()]);
    try {
      await first.sql`INSERT INTO feeds (feed_id, revision) VALUES ('acct_1', 5)`;
      expect(await first.sql`SELECT revision FROM feeds ORDER BY feed_id`).toEqual([
        { revision: 5 },
        { revision: 0 },
      ]);
      expect(await second.sql`SELECT revision FROM feeds`).toEqual([{ revision: 0 }]);
    } finally {
      await Promise.all([first.drop(), second.drop()]);
    }
  });

  it('gives an empty database on request', async () => {
    const { sql, drop } = await testDatabase({ isEmpty: true });
    try {
      expect(await sql`SELECT 1 FROM pg_tables WHERE schemaname = 'public'`).toEqual([]);
    } finally {
      await drop();
    }
  });
});

describe('testRedis', () => {
  let redis: TestRedis | null = null;
  afterEach(() => redis?.stop());

  it('gives each caller a server that can be stopped, restarted empty, and paused', async () => {
    const [mine, other] = await Promise.all([testRedis(), testRedis()]);
    redis = mine;
    const client = new Redis(mine.url, {
      maxRetriesPerRequest: 1,
      retryStrategy: () => 20,
      commandTimeout: 10_000,
    });
    client.on('error', () => undefined);
    try {
      expect(other.url).not.toBe(mine.url);
      await client.set('name', 'value');
      await mine.pause();
      await expect(client.get('name')).rejects.toThrow('timed out');
      mine.resume();
      expect(await client.get('name')).toBe('value');
      await mine.flush();
      expect(await client.get('name')).toBeNull();
      await client.set('name', 'value');
      await mine.stop();
      await expect(client.get('name')).rejects.toThrow();
      await mine.restart();
      const get = () => client.get('name').catch(() => 'not yet');
      await until(async () => (await get()) === null, { what: 'an empty server' });
    } finally {
      client.disconnect();
      await other.stop();
    }
  });
});
