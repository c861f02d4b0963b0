import { open, readdir, rm } from 'node:fs/promises';
import { connect, createServer, type Server } from 'node:net';
import { join } from 'node:path';
import type { Random } from '../../shared/runtime/random.ts';
import { hasCode } from '../../shared/runtime/system-error.ts';

export interface SpoolHold {
  /**
   * No other process on this kernel wrote to the spool when this one began to, and one that comes later is
   * not sole. False: one did, or it cannot be known.
   */
  readonly isSole: boolean;
  release(): Promise<void>;
}

/** Builds until 2026-11-25 all listen on `writer.sock`. */
const socketPattern = /^writer(-[0-9a-f]{16})?\.sock$/;

/**
 * Shows other processes that open the same spool that its writer is alive, and finds out whether another
 * writer is. The lock of DATA_DIR keeps two processes apart already, but not two containers that share a
 * volume. Both find a socket in the folder: while one listens it is alive, and the kernel ends that with the
 * process, `kill -9` included.
 *
 * Each process first listens on a name of its own and then looks for others. So of two that start at once at
 * least one sees the other, and that is enough: whoever is not sole takes no epoch for certain and writes so
 * into its own (EpochOrigin), which the other, sole or not, therefore takes for uncertain, too. A process
 * that starts later sees the one that is sole.
 *
 * Never prevents a start: if another writer is alive, or the file system has no sockets, the only consequence
 * is that exclusive ownership is uncertain.
 */
export async function holdSpool(directory: string, random: Random): Promise<SpoolHold> {
  // The path of a socket has at most 107 characters; through an open folder it is short.
  const folder = await open(directory, 'r').catch(() => null);
  const own = `writer-${Buffer.from(random.bytes(8)).toString('hex')}.sock`;
  const server = createServer((socket) => socket.destroy()).unref();
  const isSole =
    folder !== null &&
    process.platform === 'linux' &&
    (await listenAlone(server, `/proc/self/fd/${folder.fd}`, own).catch(() => false));
  return {
    isSole,
    release: async () => {
      // Closing removes the file, by the path through the folder.
      if (server.listening) await new Promise((resolve) => server.close(resolve));
      await folder?.close().catch(() => undefined);
    },
  };
}

/** Listens on that name in the folder. True: no other name is answered, and those were removed. */
async function listenAlone(server: Server, folder: string, own: string): Promise<boolean> {
  await listen(server, join(folder, own));
  const dead: string[] = [];
  for (const name of await readdir(folder)) {
    if (name === own || !socketPattern.test(name)) continue;
    if (await isAnswered(join(folder, name))) return false;
    dead.push(name);
  }
  // A process that looked after the name was made and before anything listened on it has taken it for dead.
  // It was answered above if it is alive; if not, it has removed the name, and nobody would see this process.
  if (!(await readdir(folder)).includes(own)) return false;
  for (const name of dead) await rm(join(folder, name), { force: true });
  return true;
}

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
