import { type AddressInfo, createServer, connect as dial, type Socket } from 'node:net';

/** A connection between two programs that a test can cut: bytes pass both ways until then. */
export interface Link {
  /** Of this end, to be called instead of the other. */
  readonly origin: string;
  /** Ends what is open and refuses what comes, as a machine does whose program is gone. */
  cut(): void;
  restore(): void;
  close(): Promise<void>;
}

/** `eachWayMs`: how long bytes are on their way there, and back. */
export async function linkTo(port: number, { eachWayMs = 0 } = {}): Promise<Link> {
  const open = new Set<Socket>();
  let isCut = false;
  const keep = (socket: Socket, other: Socket): void => {
    open.add(socket);
    // Whatever ends one side ends the other; how it ended shows at both.
    socket.on('error', () => other.destroy());
    socket.on('close', () => {
      open.delete(socket);
      other.destroy();
    });
  };
  const server = createServer((near) => {
    if (isCut) {
      near.destroy();
      return;
    }
    const far = dial(port, '127.0.0.1');
    keep(near, far);
    keep(far, near);
    if (eachWayMs === 0) {
      near.pipe(far).pipe(near);
      return;
    }
    for (const socket of [near, far]) socket.setNoDelay(true);
    passLater(near, far, eachWayMs);
    passLater(far, near, eachWayMs);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const cutOpen = (): void => {
    for (const socket of open) socket.destroy();
  };
  return {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    cut: () => {
      isCut = true;
      cutOpen();
    },
    restore: () => {
      isCut = false;
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        cutOpen();
      }),
  };
}

/** In their order: what came later is never passed on earlier. `onPassed` comes before each write. */
export function passLater(from: Socket, to: Socket, afterMs: number, onPassed = (): void => undefined): void {
  const pass = (bytes: Buffer) => {
    onPassed();
    if (to.writable) to.write(bytes);
  };
  from.on('data', (bytes: Buffer) => {
    if (afterMs === 0) pass(bytes);
    else setTimeout(pass, afterMs, bytes);
  });
}
