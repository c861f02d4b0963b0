import type { AddressInfo, Server, Socket } from 'node:net';

/** A server that listens on loopback. */
export interface ListeningServer {
  readonly port: number;
  readonly origin: string;
  /** Ends what is connected, too. */
  close(): Promise<void>;
}

export async function listening(server: Server): Promise<ListeningServer> {
  const open = new Set<Socket>();
  server.on('connection', (socket: Socket) => {
    open.add(socket);
    socket.on('close', () => open.delete(socket));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    port,
    origin: `http://127.0.0.1:${port}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        for (const socket of open) socket.destroy();
      }),
  };
}
