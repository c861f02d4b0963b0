import { describe, expect, it } from 'vitest';
import { connect } from '../../control-plane/storage/connect.ts';
import { waitForDatabase } from '../../control-plane/storage/wait-for-database.ts';
import { silentLogger } from '../../shared/runtime/logger.ts';
import { testDatabaseServer } from '../support/postgres.ts';

describe('waitForDatabase', () => {
  const wait = async (url: string, options: { onWarn?: () => void; signal?: AbortSignal } = {}) => {
    const sql = connect({ url, connectionsMax: 1 });
    try {
      await waitForDatabase(sql, {
        url,
        logger: { ...silentLogger, warn: () => options.onWarn?.() },
        signal: options.signal ?? new AbortController().signal,
      });
    } finally {
      await sql.end();
    }
  };

  it('waits for a database that is just being started', async () => {
    const server = await testDatabaseServer();
    try {
      await server.stopServer();
      let starting: Promise<void> | null = null;
      await wait(server.url, {
        onWarn: () => {
          starting ??= server.startServer();
        },
      });
      expect(starting).not.toBeNull();
      await starting;
    } finally {
      await server.stop();
    }
  });

  it('reports a refusal of the database at once', async () => {
    const server = await testDatabaseServer();
    try {
      const url = new URL(server.url);
      url.pathname = '/nothing';
      await expect(wait(url.href)).rejects.toThrow(
        /^The database at .+ \(DATABASE_URL\) refused: database "nothing" does not exist\./,
      );
    } finally {
      await server.stop();
    }
  });

  it('ends early when it is aborted', async () => {
    const stopping = new AbortController();
    const url = 'postgres://user:hunter2@127.0.0.1:1/nothing';
    await expect(wait(url, { onWarn: () => stopping.abort(), signal: stopping.signal })).rejects.toThrow(
      'aborted',
    );
  });
});
