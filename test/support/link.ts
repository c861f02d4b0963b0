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

export async function linkTo(port: number): Promise<Link> {
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
    near.pipe(far).pipe(near);
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
