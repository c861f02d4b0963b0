import { open, readdir, rm } from 'node:fs/promises';
import { connect, createServer, type Server } from 'node:net';
import { join } from 'node:path';
import type { Random } from '../../shared/runtime/random.ts';
import { hasCode } from '../../shared/runtime/system-error.ts';

export interface SpoolHold {
  /**
   * No other process on this kernel wrote to the spool when this one began, and a later one is not sole.
   * False: another one did, or this cannot be determined.
   */
  readonly isSole: boolean;
  release(): Promise<void>;
}

/** Earlier builds listen on `writer.sock`. */
const socketPattern = /^writer(-[0-9a-f]{16})?\.sock$/;

/**
 * Announces this writer to other processes that open the same spool, and detects a live one. The lock of
 * DATA_DIR does not separate two containers that share a volume, but both see the sockets in the folder. A
 * writer listens while it is alive; the kernel closes its socket with the process, even after `kill -9`.
 *
 * Each process first listens on its own name and then looks for others, so of two that start at once at least
 * one sees the other. That is enough: a non-exclusive writer treats no epoch as certain and marks its own as
 * uncertain (EpochOrigin), so the other process treats it as uncertain too. A process that starts later sees
 * the sole writer.
 *
 * Never prevents a start: if another writer is alive, or the file system has no sockets, only exclusive
 * ownership is uncertain.
 */
export async function holdSpool(directory: string, random: Random): Promise<SpoolHold> {
  // A socket path has at most 107 characters; through an open folder it is short.
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
      // Closing removes the file by its path through the folder, so the folder must still be open.
      if (server.listening) await new Promise((resolve) => server.close(resolve));
      await folder?.close().catch(() => undefined);
    },
  };
}

/** Listens on that name in the folder. True: no other socket is answered; dead ones were removed. */
async function listenAlone(server: Server, folder: string, own: string): Promise<boolean> {
  await listen(server, join(folder, own));
  const dead: string[] = [];
  for (const name of await readdir(folder)) {
    if (name === own || !socketPattern.test(name)) continue;
    if (await isAnswered(join(folder, name))) return false;
    dead.push(name);
  }
  // A process that looked between the creation of the name and `listen` may have removed it as dead. If that
  // process is alive, the loop above found it. If not, without the name no other process would see this one.
  if (!(await readdir(folder)).includes(own)) return false;
  for (const name of dead) await rm(join(folder, name), { force: true });
  return true;
}

const listen = (server: Server, path: string): Promise<void> =>
  new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(path, resolve);
  });

/** Rejects if a socket cannot be probed, for example one of another user. */
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
