import { mkdtemp, readdir, rm, stat, statfs } from 'node:fs/promises';
import { createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { TestProject } from 'vitest/node';
import { connect } from '../../../control-plane/storage/connect.ts';
import { startEmbeddedPostgres } from '../../../control-plane/storage/embedded.ts';
import { migrate } from '../../../control-plane/storage/migrate.ts';
import { silentLogger } from '../../../shared/runtime/logger.ts';
import { buildConsole } from './build-console.ts';
import { bundleForTests, compilePrograms, packForTests } from './compile-programs.ts';
import { isDebianAsked, testDebianPostgres } from './debian-postgres.ts';
import { type DebianProgramName, debianPrograms, findDebianProgram } from './debian-program.ts';
import type { SharedServiceAnswer } from './shared-services.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** Socket at which a test file asks for what all files share. */
    readonly sharedServices: string;
  }
}

/**
 * Runs once per vitest run, in its main process. Everything lies in a folder of this run, so that two runs
 * side by side do not meet; the servers end with this process also when it is killed.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const folder = await mkdtemp(join(tmpdir(), 'agent-trust-test-'));
  let postgres: ReturnType<typeof startTemplate> | null = null;
  const found: Partial<Record<DebianProgramName, Promise<string>>> = {};
  let programs: Promise<string> | null = null;
  let bundle: Promise<string> | null = null;
  let builtConsole: Promise<string> | null = null;
  let packed: Promise<string> | null = null;
  const start = (name: string): Promise<string> => {
    if (isDebianProgram(name)) {
      found[name] ??= findDebianProgram(name);
      return found[name];
    }
    if (name === 'programs') {
      programs ??= compilePrograms();
      return programs;
    }
    if (name === 'bundle') {
      bundle ??= bundleForTests();
      return bundle;
    }
    if (name === 'console') {
      builtConsole ??= buildConsole(join(folder, 'console'));
      return builtConsole;
    }
    if (name === 'package') {
      packed ??= start('console').then((built) => packForTests(join(folder, 'package'), built));
      return packed;
    }
    if (name !== 'postgres') return Promise.reject(new Error(`no service ${name}`));
    postgres ??= startTemplate();
    return postgres.then(({ url }) => url);
  };

  const server = createServer((socket) => {
    socket.on('error', () => socket.destroy());
    socket.once('data', (name) => {
      start(name.toString()).then(
        (ok) => answer(socket, { ok }),
        (error: unknown) => answer(socket, { error: error instanceof Error ? error.message : String(error) }),
      );
    });
  });
  const path = join(folder, 'shared.sock');
  await new Promise<void>((resolve) => server.listen(path, resolve));
  project.provide('sharedServices', path);

  return async () => {
    server.close();
    // A server that never came up has nothing to stop; its error went to the test that asked.
    const running = await (postgres as ReturnType<typeof startTemplate> | null)?.catch(() => null);
    await running?.stop();
    const made = [programs, bundle].map((each: Promise<string> | null) => each?.catch(() => null));
    for (const used of [folder, ...(await Promise.all(made))])
      if (used) await rm(used, { recursive: true, force: true });
  };
}

const isDebianProgram = (name: string): name is DebianProgramName => Object.hasOwn(debianPrograms, name);

const answer = (socket: Socket, reply: SharedServiceAnswer): void => void socket.end(JSON.stringify(reply));

/**
 * The database that every test copies. Nobody stays connected to it: PostgreSQL copies only a database that
 * is not in use.
 */
async function startTemplate(): Promise<{ readonly url: string; stop(): Promise<void> }> {
  const folder = await databaseFolder();
  const server = isDebianAsked
    ? await testDebianPostgres({
        programs: dirname(await findDebianProgram('initdb')),
        configuration: { max_connections: '300' },
      })
    : await startEmbeddedPostgres({ dataDir: folder, logger: silentLogger, isDisposable: true });
  const stop = async (): Promise<void> => {
    await server.stop();
    await rm(folder, { recursive: true, force: true });
  };
  const sql = connect({ url: server.url, connectionsMax: 1 });
  try {
    await migrate(sql);
  } catch (error) {
    await stop();
    throw error;
  } finally {
    await sql.end();
  }
  return { url: server.url, stop };
}

const memory = '/dev/shm';
const folderName = 'agent-trust-test-';
/** A run has some 20 databases of 13 MB at once, and what its tests write into them. */
const memoryBytesMin = 4 * 1024 ** 3;

/**
 * In memory where there is room, else on the disk: each database is 800 files that are made and removed
 * again, which takes five times as long on a disk. What a killed run has left in memory is removed by a run
 * of the next day: a younger folder may be of a container that shares the memory and not the processes.
 */
async function databaseFolder(): Promise<string> {
  const { bavail, bsize } = await statfs(memory).catch(() => ({ bavail: 0, bsize: 0 }));
  if (bavail * bsize < memoryBytesMin) return mkdtemp(join(tmpdir(), folderName));
  for (const name of await readdir(memory)) {
    const pid = name.startsWith(folderName)
      ? Number(name.slice(folderName.length).split('-')[0])
      : process.pid;
    if (!isAlive(pid) && (await isOld(join(memory, name))))
      await rm(join(memory, name), { recursive: true, force: true });
  }
  return mkdtemp(join(memory, `${folderName}${process.pid}-`));
}

const isOld = async (path: string): Promise<boolean> =>
  Date.now() - ((await stat(path).catch(() => null))?.mtimeMs ?? Date.now()) > 24 * 3_600_000;

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    // Of another user.
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
