import { Socket } from 'node:net';
import { secondMs } from '../../shared/model/time.ts';

/** Where the driver wants to connect: what it read in the URL. */
interface Place {
  readonly host: readonly string[];
  readonly port: readonly number[];
  /** Of a Unix socket; it wins over host and port. */
  readonly path?: string | false;
}

/**
 * Makes the sockets of a pool, and destroys each one that is silent in both directions for `silenceMsMax`.
 * The driver has no deadline for an answer, and a link that just falls silent brings no error: the queries on
 * it would hang, and with them requests and the end of the program. They are rejected with CONNECTION_CLOSED
 * instead, and the pool connects anew.
 *
 * Counts bytes and does not read them, so it holds under TLS too. The pool closes what is idle before this
 * does (`storageLimits.databaseIdleMsMax`).
 */
export function socketMaker(silenceMsMax: number): (place: Place) => Socket {
  let made = 0;
  return ({ host, port, path }) => {
    const turn = made++ % host.length;
    const to = { host: host[turn] ?? 'localhost', port: port[turn] ?? 5432 };
    // Where the name to be proved by TLS is looked for: by the driver, and for an IP address by Node.js.
    const socket = Object.assign(new DriverSocket(), { host: to.host, _host: to.host });
    // A COPY is several small writes: with Nagle's algorithm each waits 40 ms for an acknowledgement.
    socket.setNoDelay(true);
    // Only when this function has returned does the driver listen for errors.
    setImmediate(() => {
      // Given up meanwhile. Connecting would revive it without an owner.
      if (socket.destroyed) return;
      if (path) socket.connect({ path });
      else socket.connect(to);
      destroyWhenSilent(socket, silenceMsMax);
    });
    return socket;
  };
}

/**
 * The driver takes its listeners off when it is done with a socket, and now and then off one that is still
 * connecting. An error without a listener ends the process; these errors can be ignored, because the query
 * has been rejected or waits for the next connection.
 */
class DriverSocket extends Socket {
  /** Arguments are passed on as they came: where there are none, the listeners of every event go. */
  override removeAllListeners(...events: [event?: string | symbol]): this {
    super.removeAllListeners(...events);
    return this.listenerCount('error') > 0 ? this : this.on('error', () => undefined);
  }
}

/**
 * By looks from outside: the driver removes every listener of a socket that it puts under TLS, also one for
 * timeouts.
 */
function destroyWhenSilent(socket: Socket, silenceMsMax: number): void {
  const lookMs = Math.min(silenceMsMax / 4, secondMs);
  let passed = -1;
  let silentMs = 0;
  const timer = setInterval(() => {
    if (socket.destroyed) return clearInterval(timer);
    const passedNow = socket.bytesRead + socket.bytesWritten;
    silentMs = passedNow === passed ? silentMs + lookMs : 0;
    passed = passedNow;
    if (silentMs >= silenceMsMax) socket.destroy();
  }, lookMs);
  timer.unref();
}
