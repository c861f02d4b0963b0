import { createServer } from 'node:net';

/**
 * The port itself, or for 0 a free port of that host, because a program that publishes its address must know
 * it before it listens.
 */
export const concretePort = (listener: { readonly host: string; readonly port: number }): Promise<number> =>
  new Promise((resolve, reject) => {
    if (listener.port !== 0) return resolve(listener.port);
    const server = createServer();
    server.once('error', reject);
    server.listen(0, listener.host, () => {
      const address = server.address();
      // A listener on a host and port always has an address of this shape.
      const port = typeof address === 'object' && address !== null ? address.port : 0;
      server.close(() => resolve(port));
    });
  });
