import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { connect } from '../../control-plane/storage/connect.ts';
import { type EmbeddedPostgres, startEmbeddedPostgres } from '../../control-plane/storage/embedded.ts';
import { must } from '../../shared/errors/assert.ts';
import { silentLogger } from '../../shared/runtime/logger.ts';
import { temporaryFolder } from '../support/base/temporary-folder.ts';
import { until } from '../support/base/until.ts';

const hostProgram = fileURLToPath(new URL('../support/database/embedded-host.ts', import.meta.url));
const isRoot = process.getuid?.() === 0;
const nobody = 65_534;

describe('the embedded PostgreSQL', () => {
  let folder: ReturnType<typeof temporaryFolder>;
  const servers: EmbeddedPostgres[] = [];
  const hosts: ChildProcess[] = [];
  beforeEach(() => {
    folder = temporaryFolder();
  });
  afterEach(async () => {
    for (const host of hosts.splice(0)) host.kill('SIGKILL');
    await Promise.all(servers.splice(0).map((server) => server.stop()));
    await until(() => serversIn(folder.path).length === 0, { what: 'no PostgreSQL is left behind' });
    folder.remove();
  });

  const start = async (dataDir = folder.path): Promise<EmbeddedPostgres> => {
    const server = await startEmbeddedPostgres({ dataDir, logger: silentLogger, isDisposable: true });
    servers.push(server);
    return server;
  };

  /** An embedded server in another process. */
  const startHost = async (dataDir: string, user: { uid?: number; gid?: number } = {}) => {
    const host = spawn(process.execPath, ['--import', 'tsx', hostProgram, dataDir], {
      stdio: ['ignore', 'pipe', 'inherit'],
      ...user,
    });
    hosts.push(host);
    const [url] = (await once(createInterface({ input: must(host.stdout, 'piped') }), 'line')) as [string];
    return { host, url };
  };

  async function query<T>(url: string, statement: string): Promise<T[]> {
    const sql = connect({ url, connectionsMax: 1 });
    try {
      return [...(await sql.unsafe<T[]>(statement))];
    } finally {
      await sql.end();
    }
  }
  const remember = (url: string) => query(url, 'CREATE TABLE memory AS SELECT 42 AS answer');
  const recall = (url: string) => query<{ answer: number }>(url, 'SELECT answer FROM memory');

  it('keeps its data from one start to the next', async () => {
    const first = await start();
    await remember(first.url);
    await first.stop();
    expect(serversIn(folder.path)).toEqual([]);
    expect(await recall((await start()).url)).toEqual([{ answer: 42 }]);
  });

  it('sorts by code point, in UTF-8 and UTC, and listens on a socket of its owner alone', async () => {
    const { url } = await start();
    expect(
      await query(
        url,
        "SELECT current_setting('server_encoding') AS encoding, current_setting('timezone') AS zone",
      ),
    ).toEqual([{ encoding: 'UTF8', zone: 'UTC' }]);
    expect(
      await query(
        url,
        "SELECT string_agg(x, '' ORDER BY x) AS sorted FROM unnest(ARRAY['b', 'a', 'B', 'é']) x",
      ),
    ).toEqual([{ sorted: 'Babé' }]);
    expect(await query(url, "SELECT current_setting('listen_addresses') AS addresses")).toEqual([
      { addresses: '' },
    ]);
    const socketFolder = must(new URL(url).searchParams.get('host'), 'a socket');
    expect(statSync(socketFolder).mode & 0o077).toBe(0);
  });

  it('takes a path that is too long for a socket', async () => {
    const long = join(folder.path, 'a'.repeat(120));
    const server = await start(long);
    await remember(server.url);
    expect(await recall(server.url)).toEqual([{ answer: 42 }]);
    const socketFolder = must(new URL(server.url).searchParams.get('host'), 'a socket');
    await server.stop();
    expect(existsSync(socketFolder)).toBe(false);
  });

  it('ends when its parent is killed, and the next start finds the data', async () => {
    const { host, url } = await startHost(folder.path);
    await remember(url);
    expect(serversIn(folder.path).length).toBeGreaterThan(0);
    host.kill('SIGKILL');
    // At once, while the old one may still be on its way out.
    expect(await recall((await start()).url)).toEqual([{ answer: 42 }]);
  });

  it('ends when its parent is killed, without another start', async () => {
    const { host } = await startHost(folder.path);
    host.kill('SIGKILL');
    await until(() => serversIn(folder.path).length === 0, { what: 'the server ends by itself' });
  });

  it('ends a server whose parent and guard were both killed', async () => {
    const { host, url } = await startHost(folder.path);
    await remember(url);
    const orphan = postmasterIn(folder.path);
    // It stands still: it would start another server as soon as it saw that its guard is gone.
    host.kill('SIGSTOP');
    const guards = childrenOf(must(host.pid, 'it runs')).flatMap((guard) => [guard, ...childrenOf(guard)]);
    kill(guards.filter((pid) => pid !== orphan));
    host.kill('SIGKILL');
    await once(host, 'exit');
    expect(serversIn(folder.path)).toContain(orphan);
    expect(await recall((await start()).url)).toEqual([{ answer: 42 }]);
    expect(serversIn(folder.path)).not.toContain(orphan);
  });

  it('starts again by itself when the server is killed, at the same address and with its data', async () => {
    const { url } = await start();
    await remember(url);
    const killed = postmasterIn(folder.path);
    process.kill(killed, 'SIGKILL');
    await until(async () => (await recall(url).catch(() => [])).length === 1, { what: 'the server is back' });
    expect(postmasterIn(folder.path)).not.toBe(killed);
  });

  it('starts again by itself when its guard is killed', async () => {
    const { url } = await start();
    await remember(url);
    const killed = postmasterIn(folder.path);
    process.kill(parentOf(killed), 'SIGKILL');
    await until(
      async () =>
        !serversIn(folder.path).includes(killed) && (await recall(url).catch(() => [])).length === 1,
      {
        what: 'a new server is there',
      },
    );
  });

  it('makes a cluster that a crash left half made once more', async () => {
    const half = join(folder.path, 'postgres', 'data.unfinished');
    mkdirSync(half, { recursive: true });
    writeFileSync(join(half, 'PG_VERSION'), '18');
    const { url } = await start();
    await remember(url);
    expect(readdirSync(join(folder.path, 'postgres')).sort()).toEqual(['data']);
  });

  it("quotes the server's output when it does not start", async () => {
    await (await start()).stop();
    writeFileSync(join(folder.path, 'postgres', 'data', 'postgresql.conf'), 'no_such_parameter = 1\n');
    await expect(start()).rejects.toThrow('unrecognized configuration parameter "no_such_parameter"');
  });

  describe.runIf(isRoot)('started as root', () => {
    it('opens its own folder to that user, for passing through and nothing else', async () => {
      chmodSync(folder.path, 0o700);
      const { relocation } = await start();
      expect(relocation).toBeNull();
      expect(statSync(folder.path).mode & 0o777).toBe(0o710);
      expect(statSync(`/proc/${postmasterIn(folder.path)}`).uid).not.toBe(0);
    });

    it('keeps the data elsewhere where a folder on the way is closed, says so, and finds them again', async () => {
      const home = join(folder.path, 'home');
      const dataDir = join(home, 'clone', '.data');
      mkdirSync(home, { mode: 0o700 });
      const first = await start(dataDir);
      const moved = realpathSync(join(dataDir, 'postgres'));
      try {
        expect(moved).toMatch(/^\/var\/lib\/agent-trust\/data-/);
        expect(first.relocation).toContain(
          `cannot reach ${home}: what it needs is kept under /var/lib/agent-trust/`,
        );
        expect(statSync(home).mode & 0o777).toBe(0o700);
        await remember(first.url);
        await first.stop();
        const second = await start(dataDir);
        expect(second.relocation).toBe(first.relocation);
        expect(await recall(second.url)).toEqual([{ answer: 42 }]);
        await second.stop();
      } finally {
        await Promise.all(servers.splice(0).map((server) => server.stop()));
        rmSync(moved, { recursive: true, force: true });
      }
    });

    it('names the folder that was closed after the data had been put behind it', async () => {
      const home = join(folder.path, 'home');
      await (await start(join(home, '.data'))).stop();
      chmodSync(home, 0o700);
      await expect(start(join(home, '.data'))).rejects.toThrow(`cannot enter ${home} any more`);
      expect(lstatSync(join(home, '.data', 'postgres')).isDirectory()).toBe(true);
    });

    it('needs no other user when it is not root', async () => {
      chownSync(folder.path, nobody, nobody);
      const { host, url } = await startHost(folder.path, { uid: nobody, gid: nobody });
      await remember(url);
      expect(statSync(`/proc/${postmasterIn(folder.path)}`).uid).toBe(nobody);
      host.kill('SIGKILL');
    });
  });
});

/** The processes of PostgreSQL that work below this folder. */
function serversIn(folder: string): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      try {
        return (
          readlinkSync(`/proc/${pid}/cwd`).startsWith(`${folder}/`) &&
          readlinkSync(`/proc/${pid}/exe`).endsWith('/postgres')
        );
      } catch {
        return false;
      }
    })
    .map(Number);
}

const postmasterIn = (folder: string): number =>
  Number(readFileSync(join(folder, 'postgres', 'data', 'postmaster.pid'), 'utf8').split('\n')[0]);

/** Some end by themselves when they see the first of them killed. */
function kill(pids: readonly number[]): void {
  for (const pid of pids) {
    try {
      process.kill(pid, 'SIGKILL');
    } catch (error) {
      expect(error).toMatchObject({ code: 'ESRCH' });
    }
  }
}

const parentOf = (pid: number): number =>
  Number(/^PPid:\s*(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]);

const childrenOf = (pid: number): number[] =>
  readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').filter(Boolean).map(Number);
