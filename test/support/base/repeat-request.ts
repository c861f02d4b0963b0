import { connect, type Socket } from 'node:net';

/** Enough that the server finds several requests in each turn, as under load. */
const connections = 32;

/**
 * Sends the same whole HTTP request so many times over kept connections, each of which has one in flight.
 * Throws for an answer that does not hold `expected`, and where a connection is closed. Reads no more of an
 * answer than it must: the test pays for this, too.
 */
export async function repeatRequest(
  port: number,
  {
    request,
    times,
    expected,
  }: { readonly request: Buffer; readonly times: number; readonly expected: string },
): Promise<void> {
  let left = times;
  const sockets: Socket[] = [];
  try {
    await Promise.all(
      Array.from({ length: connections }, () => {
        const socket = connect(port, '127.0.0.1').setNoDelay();
        sockets.push(socket);
        return new Promise<void>((resolve, reject) => {
          let received = '';
          const next = () => {
            if (left === 0) return resolve();
            left -= 1;
            received = '';
            socket.write(request);
          };
          socket.on('data', (piece) => {
            received += piece.toString('latin1');
            const length = /content-length: (\d+)\r\n/i.exec(received);
            const headEnd = received.indexOf('\r\n\r\n');
            if (length === null || headEnd < 0 || received.length < headEnd + 4 + Number(length[1])) return;
            if (!received.includes(expected)) reject(new Error(`not the expected answer: ${received}`));
            else next();
          });
          socket.once('error', reject);
          socket.once('close', () => reject(new Error('the server has closed the connection')));
          socket.once('connect', next);
        });
      }),
    );
  } finally {
    for (const socket of sockets) socket.destroy();
  }
}
