import { connect, createServer, type Server, type Socket } from 'node:net';

/**
 * A load balancer for TCP in front of several programs on this machine, as operators put one in front of
 * control planes.
 */
export interface Balancer {
  readonly origin: string;
  close(): Promise<void>;
}

/** Each connection goes to the next program that accepts one; where none does, it is closed. */
export async function balancerOf(origins: readonly string[]): Promise<Balancer> {
  const ports = origins.map((origin) => Number(new URL(origin).port));
  const sockets = new Set<Socket>();
  const keep = (socket: Socket): Socket => {
    sockets.add(socket);
    return socket.once('close', () => sockets.delete(socket)).on('error', () => socket.destroy());
  };
  let turn = 0;
  const server: Server = createServer((client) => {
    keep(client);
    const tryNext = (tried: number, first: number): void => {
      const port = ports[(first + tried) % ports.length];
      if (tried === ports.length || port === undefined) {
        client.destroy();
        return;
      }
      const program = keep(connect(port, '127.0.0.1'));
      const isRefused = () => tryNext(tried + 1, first);
      program.once('error', isRefused);
      program.once('connect', () => {
        program.off('error', isRefused);
        client.pipe(program).pipe(client);
        client.once('close', () => program.destroy());
        program.once('close', () => client.destroy());
      });
    };
    tryNext(0, turn++);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('a balancer listens on a port');
  return {
    origin: `http://127.0.0.1:${address.port}`,
    close: async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
