import { theLoop, theProcess } from '../loop.ts';
import { disk, later, resolved } from './fs.ts';

/*
 * In place of `node:net`: the sockets by which a spool is held (sidecar/attest/hold-spool.ts). The kernel
 * closes them with their process.
 */

export class Server {
  listening = false;
  #path = '';
  #onError: (error: unknown) => void = () => undefined;

  unref(): this {
    return this;
  }

  once(_event: 'error', listener: (error: unknown) => void): this {
    this.#onError = listener;
    return this;
  }

  listen(path: string, done: () => void): this {
    const process = theProcess();
    later(() => {
      const at = resolved(path);
      disk().make('socket', at).listener = process;
      this.#path = at;
      this.listening = true;
    }).then(done, (error: unknown) => this.#onError(error));
    return this;
  }

  close(done: () => void): this {
    this.listening = false;
    const inode = disk().find(this.#path);
    if (inode !== null) {
      inode.listener = null;
      const { folder, name } = disk().place(this.#path);
      folder.entries.delete(name);
    }
    theLoop().schedule(theProcess(), 0, 'io', done);
    return this;
  }
}

export const createServer = (_onConnection: unknown): Server => new Server();

export function connect(path: string, done: () => void) {
  let onError: (error: unknown) => void = () => undefined;
  later(() => {
    const found = disk().find(resolved(path));
    if (found === null) throw Object.assign(new Error('simulated'), { code: 'ENOENT' });
    if (found.listener?.isAlive !== true)
      throw Object.assign(new Error('simulated'), { code: 'ECONNREFUSED' });
  }).then(done, (error: unknown) => onError(error));
  return {
    once: (_event: 'error', listener: (error: unknown) => void) => {
      onError = listener;
    },
    destroy: () => undefined,
  };
}
