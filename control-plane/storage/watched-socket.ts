import { Socket } from 'node:net';
import { secondMs } from '../../shared/model/time.ts';
import { runOutsideTraces } from '../../shared/runtime/current-trace.ts';
import { storageLimits } from './limits.ts';

/** Where the driver wants to connect: what it read in the URL. */
interface Place {
  readonly host: readonly string[];
  readonly port: readonly number[];
  /** Of a Unix socket; it wins over host and port. */
  readonly path?: string | false;
}

/** Between two farewells: a server that stays read-only is not connected to without end. */
const leaveIntervalMs = secondMs;

/**
 * The sockets of a pool. Makes them, and destroys each one that is silent in both directions for
 * `silenceMsMax`. The driver has no deadline for an answer, and a link that just falls silent brings no
 * error: the queries on it would hang, and with them requests and the end of the program. They are rejected
 * with CONNECTION_CLOSED instead, and the pool connects anew.
 *
 * Counts bytes and does not read them, so it holds under TLS too. The pool closes what is idle before this
 * does (`storageLimits.databaseIdleMsMax`).
 */
export class Sockets {
  readonly #silenceMsMax: number;
  readonly #open = new Set<Socket>();
  /** Of the host to which new ones go. */
  #turn = 0;
  #leftAtMs = Number.NEGATIVE_INFINITY;

  constructor(silenceMsMax: number) {
    this.#silenceMsMax = silenceMsMax;
  }

  /**
   * One that heard nothing, or ended before it could be idle, came to nothing: its host is away, or not of
   * the kind that is wanted. The next ones go to the next host, so that of two a new connection finds the
   * primary at the second attempt at most.
   */
  #onEnd(turn: number, hosts: number): (bytesRead: number) => void {
    const madeAtMs = performance.now();
    return (bytesRead) => {
      const isShort = performance.now() - madeAtMs < storageLimits.databaseIdleMsMax;
      if ((isShort || bytesRead === 0) && this.#turn === turn) this.#turn = (turn + 1) % hosts;
    };
  }

  /**
   * A pooler keeps connections of clients when the server behind it ends and comes back as a standby, so that
   * a pool would stay with it for ever. All are destroyed, at most once a second: which of them lead there is
   * not known. What is under way on the others fails as if the server had died, as it just has.
   */
  leaveServer(): void {
    const nowMs = performance.now();
    if (nowMs - this.#leftAtMs < leaveIntervalMs) return;
    this.#leftAtMs = nowMs;
    for (const socket of this.#open) socket.destroy();
  }

  readonly make = ({ host, port, path }: Place): Socket => {
    const turn = this.#turn % host.length;
    const to = { host: host[turn] ?? 'localhost', port: port[turn] ?? 5432 };
    // Where the name to be proved by TLS is looked for: by the driver, and for an IP address by Node.js.
    const socket = Object.assign(new DriverSocket(this.#onEnd(turn, host.length)), {
      host: to.host,
      _host: to.host,
    });
    // A COPY is several small writes: with Nagle's algorithm each waits 40 ms for an acknowledgement.
    socket.setNoDelay(true);
    this.#open.add(socket);
    // Only when this function has returned does the driver listen for errors.
    runOutsideTraces(() =>
      setImmediate(() => {
        // Given up meanwhile. Connecting would revive it without an owner.
        if (socket.destroyed) return void this.#open.delete(socket);
        if (path) socket.connect({ path });
        else socket.connect(to);
        destroyWhenSilent(socket, this.#silenceMsMax, () => this.#open.delete(socket));
      }),
    );
    return socket;
  };
}

/**
 * The driver takes its listeners off when it is done with a socket, and now and then off one that is still
 * connecting. An error without a listener ends the process; these errors can be ignored, because the query
 * has been rejected or waits for the next connection.
 */
class DriverSocket extends Socket {
  readonly #onEnd: (bytesRead: number) => void;

  constructor(onEnd: (bytesRead: number) => void) {
    super();
    this.#onEnd = onEnd;
  }

  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    this.#onEnd(this.bytesRead);
    super._destroy(error, callback);
  }

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
function destroyWhenSilent(socket: Socket, silenceMsMax: number, onEnd: () => void): void {
  const lookMs = Math.min(silenceMsMax / 4, secondMs);
  let passed = -1;
  let silentMs = 0;
  const timer = setInterval(() => {
    if (socket.destroyed) {
      clearInterval(timer);
      onEnd();
      return;
    }
    const passedNow = socket.bytesRead + socket.bytesWritten;
    silentMs = passedNow === passed ? silentMs + lookMs : 0;
    passed = passedNow;
    if (silentMs >= silenceMsMax) socket.destroy();
  }, lookMs);
  timer.unref();
}
