import { open, rm } from 'node:fs/promises';
import { connect, createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { hasCode } from '../../shared/runtime/system-error.ts';

export interface SpoolHold {
  /**
   * No other process that runs on this kernel writes to the spool. False: one does, or it cannot be known.
   */
  readonly isSole: boolean;
  release(): Promise<void>;
}

const name = 'writer.sock';

/**
 * Shows other processes that open the same spool that its writer is alive, and finds out whether another
 * writer is. The lock of DATA_DIR keeps two processes apart already, but not two containers that share a
 * volume. Both find a socket in the folder: while one listens it is alive, and the kernel ends that with the
 * process, `kill -9` included.
 *
 * Never prevents a start: if another writer is alive, or the file system has no sockets, the only consequence
 * is that exclusive ownership is uncertain.
 */
export async function holdSpool(directory: string): Promise<SpoolHold> {
  // The path of a socket has at most 107 characters; through an open folder it is short.
  const folder = await open(directory, 'r').catch(() => null);
  if (folder === null || process.platform !== 'linux') return notSole(async () => folder?.close());
  const path = `/proc/self/fd/${folder.fd}/${name}`;
  const server = createServer((socket) => socket.destroy()).unref();
  try {
    if (await isAnswered(path)) return notSole(() => folder.close());
    await rm(join(directory, name), { force: true });
    await listen(server, path);
  } catch {
    return notSole(() => folder.close());
  }
  return {
    isSole: true,
    release: async () => {
      // Closing removes the file, by the path through the folder.
      if (server.listening) await new Promise((resolve) => server.close(resolve));
      await folder.close().catch(() => undefined);
    },
  };
}

const notSole = (release: () => Promise<unknown>): SpoolHold => ({
  isSole: false,
  release: async () => {
    await release().catch(() => undefined);
  },
});

const listen = (server: Server, path: string): Promise<void> =>
  new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(path, resolve);
  });

/** Rejects where a socket is there and it cannot be known who listens, for example by another user. */
const isAnswered = (path: string): Promise<boolean> =>
  new Promise((resolve, reject) => {
    const socket = connect(path, () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', (error) => {
      if (hasCode(error, 'ECONNREFUSED') || hasCode(error, 'ENOENT')) resolve(false);
      else reject(error);
    });
  });
