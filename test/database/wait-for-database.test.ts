import { createServer, connect as dial } from 'node:net';
import { describe, expect, it } from 'vitest';
import { connect } from '../../control-plane/storage/connect.ts';
import { waitForDatabase } from '../../control-plane/storage/wait-for-database.ts';
import { silentLogger } from '../../shared/runtime/logger.ts';
import { freePort } from '../support/base/free-port.ts';
import { testDatabase } from '../support/database/postgres.ts';

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

  it('waits for a database that is not reached at first', async () => {
    const { url, drop } = await testDatabase({ isEmpty: true });
    const to = new URL(url);
    const folder = to.searchParams.get('host');
    const server = createServer((near) => {
      const far = folder === null ? dial(Number(to.port), to.hostname) : dial(`${folder}/.s.PGSQL.5432`);
      for (const each of [near, far]) each.on('error', () => undefined);
      near.pipe(far).pipe(near);
    });
    const port = await freePort();
    let warnings = 0;
    const through = new URL(`postgres://127.0.0.1:${port}${to.pathname}?sslmode=disable`);
    through.username = to.searchParams.get('user') ?? to.username;
    through.password = to.password;
    await wait(through.href, {
      onWarn: () => {
        warnings += 1;
        if (!server.listening) server.listen(port, '127.0.0.1');
      },
    });
    expect(warnings).toBeGreaterThan(0);
    await new Promise((resolve) => server.close(resolve));
    await drop();
  });

  it('reports a refusal of the database at once', async () => {
    const { url, drop } = await testDatabase({ isEmpty: true });
    const nothing = Object.assign(new URL(url), { pathname: '/nothing' }).href;
    await expect(wait(nothing)).rejects.toThrow(
      /^The database at .+ \(DATABASE_URL\) refused: database "nothing" does not exist\./,
    );
    await drop();
  });

  it('ends early when it is aborted', async () => {
    const stopping = new AbortController();
    const url = 'postgres://user:hunter2@127.0.0.1:1/nothing';
    await expect(wait(url, { onWarn: () => stopping.abort(), signal: stopping.signal })).rejects.toThrow(
      'aborted',
    );
  });
});
