import { rm, stat } from 'node:fs/promises';
import { connect, createServer, type Server } from 'node:net';
import { join, resolve } from 'node:path';
import { makePrivate } from './private-folder.ts';
import { StartError } from './start-error.ts';
import { hasCode } from './system-error.ts';

export interface DataDirLock {
  /** What was changed of the folder, each a sentence for the log. */
  readonly notes: readonly string[];
  /** Doing it twice changes nothing. The end of the process releases as well, kill -9 included. */
  release(): Promise<void>;
}

/** Another process holds the folder. */
export class DataDirInUseError extends StartError {
  override readonly name = 'DataDirInUseError';
}

/**
 * Makes the folder if need be, for its owner alone, and holds it for one role (`control-plane`, `sidecar`)
 * until `release`. Throws DataDirInUseError where another process, or this one, holds it already; different
 * roles do not meet.
 *
 * The lock is a listening socket, because the kernel closes it whatever becomes of the process, which no file
 * can promise. Its name is made of device and inode: two paths to one folder are one lock. On Linux it lies
 * in the abstract namespace, which leaves nothing behind; processes in different network namespaces do not
 * see each other there, so give each container a folder of its own. Elsewhere it is a socket file in the
 * folder; the file of a process that was killed is recognised by the refused connection, and replaced.
 */
export async function lockDataDir(directory: string, role: string): Promise<DataDirLock> {
  const notes = await makePrivate(directory).catch((cause: Error) => {
    if (cause instanceof StartError) throw cause;
    throw new StartError(`DATA_DIR ${resolve(directory)} cannot be created: ${cause.message}.`, { cause });
  });
  const { dev, ino } = await stat(directory, { bigint: true });
  const isLinux = process.platform === 'linux';
  const path = isLinux ? `\0agent-trust:${role}:${dev}:${ino}` : join(resolve(directory), `.${role}.lock`);
  const server = createServer((socket) => socket.destroy());
  try {
    await listen(server, path);
  } catch (error) {
    if (!hasCode(error, 'EADDRINUSE')) throw error;
    const isStale = !isLinux && !(await isAnswered(path));
    if (!isStale) {
      throw new DataDirInUseError(
        `DATA_DIR ${resolve(directory)} is in use by another ${role} process. Stop that one, or set DATA_DIR to another folder.`,
        { cause: error },
      );
    }
    await rm(path, { force: true });
    await listen(server, path);
  }
  // Holding a folder is no reason to stay alive.
  server.unref();
  return {
    notes,
    release: () =>
      new Promise((resolve) => {
        if (server.listening) server.close(() => resolve());
        else resolve();
      }),
  };
}

const listen = (server: Server, path: string): Promise<void> =>
  new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(path, () => {
      server.off('error', reject);
      resolve();
    });
  });

const isAnswered = (path: string): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(path, () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
  });
