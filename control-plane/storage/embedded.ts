import { chown, mkdtemp, readFile, rename, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type { Logger } from '../../shared/runtime/logger.ts';
import { StartError } from '../../shared/runtime/start-error.ts';
import { socketUrl } from './connect.ts';
import { endProcessesIn } from './data-holders.ts';
import { type EmbeddedPlace, prepareEmbeddedPlace } from './embedded-place.ts';
import { type GuardedProcess, startGuarded } from './guarded-process.ts';

export interface EmbeddedOptions {
  /** Everything is kept in `<dataDir>/postgres`. The caller holds `dataDir` against a second process. */
  readonly dataDir: string;
  readonly logger: Logger;
  /** For tests: nothing waits for the disk, and a power cut may lose the data. */
  readonly isDisposable?: boolean;
}

export interface EmbeddedPostgres {
  /** For `connect`. Stays the same when the server is started again. */
  readonly url: string;
  /**
   * Why and where the server is stored elsewhere, as a sentence for the operator; null: in its usual place.
   */
  readonly relocation: string | null;
  /** Ends all sessions and the server, and resolves when no process of it is left. */
  stop(): Promise<void>;
}

const user = 'agent_trust';
const database = 'postgres';
/** Names the socket; with a socket only, nothing else uses it. */
const port = 5432;
const socketName = `.s.PGSQL.${port}`;
/** `sun_path` holds 108 bytes with its final zero. */
const socketPathBytesMax = 107;
/** Crash recovery of a large write-ahead log takes its time. */
const startMsMax = 120_000;
const stopMsMax = 15_000;
/** Between two attempts to start a server again that ended by itself, doubling from first to last. */
const restartFirstMs = 100;
const restartLastMs = 30_000;

/**
 * Starts a real PostgreSQL server, making its cluster on the first start. It listens on a Unix socket only,
 * in a private folder, and it ends when this process ends, including kill -9. A server that ends by itself is
 * started again, at the same address.
 *
 * Recovers from whatever an earlier run left behind: a half made cluster is made again, a server whose parent
 * died is ended first, and the crash recovery of PostgreSQL does the rest. Throws StartError with the
 * server's own last words where it does not start at all.
 */
export async function startEmbeddedPostgres(options: EmbeddedOptions): Promise<EmbeddedPostgres> {
  const place = await prepareEmbeddedPlace(options.dataDir);
  await makeCluster(place, options.isDisposable ?? false);
  const socketDirectory = await chooseSocketDirectory(place);
  const start = () => startServer(place, socketDirectory, options);
  const supervised = await supervise(start, options.logger);
  return {
    url: socketUrl({ folder: socketDirectory, database, user }),
    relocation: place.relocation,
    stop: async () => {
      await supervised.stop();
      // Sessions of a server that was killed end a moment after it, and a server whose guard was killed has
      // to be told.
      await endProcessesIn(place.cluster, stopMsMax);
      if (socketDirectory !== place.cluster) await rm(socketDirectory, { recursive: true, force: true });
    },
  };
}

/** Keeps a server running until it is stopped. Rejects only where the first start fails. */
async function supervise(
  start: () => Promise<GuardedProcess>,
  logger: Logger,
): Promise<{ stop(): Promise<void> }> {
  let server = await start();
  const stopping = new AbortController();
  const keepRunning = async (): Promise<void> => {
    let pauseMs = restartFirstMs;
    for (;;) {
      const startedAtMs = performance.now();
      await server.exited;
      const wasStable = performance.now() - startedAtMs > restartLastMs;
      pauseMs = wasStable ? restartFirstMs : Math.min(pauseMs * 2, restartLastMs);
      // Rejects when it is cut short, which is all there is to know.
      await pause(pauseMs, null, { signal: stopping.signal }).catch(() => null);
      if (stopping.signal.aborted) return;
      logger.error({ pauseMs }, 'the embedded PostgreSQL has ended by itself; it is started again');
      try {
        server = await start();
      } catch (error) {
        logger.error({ err: error }, 'the embedded PostgreSQL did not start again');
      }
      if (stopping.signal.aborted) await server.stop({ timeoutMs: stopMsMax });
    }
  };
  const supervision = keepRunning();
  return {
    stop: async () => {
      stopping.abort();
      await server.stop({ timeoutMs: stopMsMax });
      await supervision;
    },
  };
}

/** Resolves when the server takes connections. */
async function startServer(
  place: EmbeddedPlace,
  socketDirectory: string,
  options: EmbeddedOptions,
): Promise<GuardedProcess> {
  await clearLeftovers(place.cluster, socketDirectory);
  const server = startGuarded({
    ...place.run,
    command: join(place.programs, 'postgres'),
    args: serverArguments(place.cluster, socketDirectory, options.isDisposable ?? false),
    onLine: (line) => options.logger.debug({ line }, 'embedded PostgreSQL says'),
  });
  try {
    await waitUntilReady(place.cluster, server);
    return server;
  } catch (error) {
    await server.stop({ timeoutMs: stopMsMax });
    throw error;
  }
}

/**
 * Made under another name and renamed when it is whole: a crash in between leaves nothing that looks like a
 * cluster.
 */
async function makeCluster(place: EmbeddedPlace, isDisposable: boolean): Promise<void> {
  if ((await readOrNull(join(place.cluster, 'PG_VERSION'))) !== null) return;
  const unfinished = `${place.cluster}.unfinished`;
  await endProcessesIn(unfinished, stopMsMax);
  await rm(unfinished, { recursive: true, force: true });
  const initdb = startGuarded({
    ...place.run,
    command: join(place.programs, 'initdb'),
    args: [
      `--pgdata=${unfinished}`,
      `--username=${user}`,
      '--encoding=UTF8',
      // Sorts by code point, the same on every machine.
      '--locale=C',
      '--locale-provider=builtin',
      '--builtin-locale=C.UTF-8',
      '--auth-local=trust',
      '--auth-host=reject',
      ...(isDisposable ? ['--no-sync'] : []),
    ],
  });
  if ((await initdb.exited) !== 0)
    throw new StartError(`initdb failed on ${unfinished}:\n${initdb.lastLines()}`);
  await rename(unfinished, place.cluster);
}

async function clearLeftovers(cluster: string, socketDirectory: string): Promise<void> {
  await endProcessesIn(cluster, stopMsMax);
  // The folder is not in use: these files are of a killed server. PostgreSQL's own check may take a zombie
  // for a living one.
  const leftovers = [
    join(cluster, 'postmaster.pid'),
    join(socketDirectory, socketName),
    join(socketDirectory, `${socketName}.lock`),
  ];
  for (const path of leftovers) await rm(path, { force: true });
}

/**
 * The cluster itself is a folder that only its user may enter; where its path is too long for a socket, a
 * fresh one like it.
 */
async function chooseSocketDirectory({ cluster, run }: EmbeddedPlace): Promise<string> {
  if (Buffer.byteLength(join(cluster, socketName)) <= socketPathBytesMax) return cluster;
  const directory = await mkdtemp(join(tmpdir(), 'agent-trust-'));
  if (run.user !== null) await chown(directory, run.user.uid, run.user.gid);
  return directory;
}

/** Of a run of tests, whose files and programs share one server: none waits for the disk or a connection. */
const disposable = {
  fsync: 'off',
  full_page_writes: 'off',
  file_copy_method: 'clone',
  max_connections: '300',
};

function serverArguments(cluster: string, socketDirectory: string, isDisposable: boolean): string[] {
  const parameters = {
    listen_addresses: '',
    unix_socket_directories: socketDirectory,
    timezone: 'UTC',
    log_timezone: 'UTC',
    // No statement and no row in a log.
    log_error_verbosity: 'terse',
    log_min_error_statement: 'panic',
    ...(isDisposable ? disposable : {}),
  };
  return [
    '-D',
    cluster,
    '-p',
    String(port),
    ...Object.entries(parameters).flatMap(([name, value]) => ['-c', `${name}=${value}`]),
  ];
}

/** The eighth line of postmaster.pid is where the server says how far it is; pg_ctl reads the same. */
async function waitUntilReady(cluster: string, server: GuardedProcess): Promise<void> {
  const deadline = performance.now() + startMsMax;
  for (;;) {
    const lines = (await readOrNull(join(cluster, 'postmaster.pid')))?.split('\n') ?? [];
    if (lines[7]?.trim() === 'ready') return;
    if (!server.isRunning || performance.now() > deadline) {
      throw new StartError(`PostgreSQL did not start on ${cluster}:\n${server.lastLines()}`);
    }
    await pause(10);
  }
}

const readOrNull = (path: string): Promise<string | null> => readFile(path, 'utf8').catch(() => null);
