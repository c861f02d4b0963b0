import { rm, stat } from 'node:fs/promises';
import { connect, createServer, type Server } from 'node:net';
import { join, resolve } from 'node:path';
import { makePrivate } from './private-folder.ts';
import { StartError } from './start-error.ts';
import { hasCode } from './system-error.ts';

export interface DataDirLock {
  /** Changes made to the folder, each a sentence for the log. */
  readonly notes: readonly string[];
  /** Idempotent. The end of the process releases the lock too, including kill -9. */
  release(): Promise<void>;
}

/** Another process holds the folder. */
export class DataDirInUseError extends StartError {
  override readonly name = 'DataDirInUseError';
}

/**
 * Creates the folder if missing, for its owner alone, and locks it for one role (`control-plane`, `sidecar`)
 * until `release`. Throws DataDirInUseError if another process, or this one, holds the lock; roles do not
 * conflict.
 *
 * The lock is a listening socket, which the kernel closes however the process ends; no file gives that
 * guarantee. Its name is device and inode, so two paths to one folder are one lock. On Linux it is in the
 * abstract namespace and leaves nothing behind. Processes in different network namespaces do not see each
 * other's, so each container needs its own folder. Elsewhere it is a socket file in the folder; a killed
 * process's file refuses connections and is replaced.
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
  // The lock alone must not keep the process alive.
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
