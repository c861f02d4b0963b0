import { randomInt } from 'node:crypto';
import { createSocket } from 'node:dgram';
import { createServer } from 'node:net';

/**
 * Where the ports begin that are given out here: below those that the kernel chooses (32768 and up), for
 * connections and for whoever listens on port 0. Any of them could otherwise take a port before its program
 * listens on it, or while that program is down to be started again.
 */
const firstPort = 20_000;
const portCount = 12_000;
/** Each process begins elsewhere and goes on from there, so that two at once seldom try the same port. */
let portsTried = randomInt(portCount);

/**
 * A TCP port that belongs to this process until it ends: nobody listens on it, the kernel gives it to nobody,
 * and no other process that asks here gets it, not even while the program that uses it is down to be started
 * again. So a program can be given its address before it listens, and keep it over a restart.
 */
export async function freePort(): Promise<number> {
  for (let tries = 0; tries < portCount; tries += 1) {
    const port = firstPort + (portsTried++ % portCount);
    if ((await isReserved(port)) && (await isFree(port))) return port;
  }
  throw new Error(`no port from ${firstPort} on is free`);
}

/**
 * Reserves a TCP port among the processes that ask here, by holding the UDP port of the same number, which
 * nothing else uses. The kernel releases it when this process ends, however it ends. Resolves to false if
 * another process holds it.
 */
function isReserved(port: number): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const reservation = createSocket('udp4');
    reservation.once('error', (error: NodeJS.ErrnoException) => {
      reservation.close();
      if (error.code === 'EADDRINUSE') resolve(false);
      else reject(error);
    });
    reservation.bind({ port, address: '127.0.0.1', exclusive: true }, () => {
      reservation.unref();
      resolve(true);
    });
  });
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', (error: NodeJS.ErrnoException) =>
      error.code === 'EADDRINUSE' ? resolve(false) : reject(error),
    );
    // On all addresses, as programs may.
    server.listen(port, () => server.close(() => resolve(true)));
  });
}
