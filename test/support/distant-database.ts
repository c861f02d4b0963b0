import { type AddressInfo, createServer, connect as dial, type Socket } from 'node:net';
import { join } from 'node:path';
import { passLater } from './link.ts';

/** A PostgreSQL that is some milliseconds away. */
export interface DistantDatabase {
  /** Of this end, over TCP. */
  readonly url: string;
  /** How often a connection has sent something and waited for the answer, since the start. */
  readonly journeys: number;
  close(): Promise<void>;
}

/** `url`: as `testDatabase` gives it. Bytes are held back for `eachWayMs` on their way there, and back. */
export async function distantDatabase(
  url: string,
  { eachWayMs }: { readonly eachWayMs: number },
): Promise<DistantDatabase> {
  const target = new URL(url);
  const folder = target.searchParams.get('host');
  const open = new Set<Socket>();
  let journeys = 0;
  const server = createServer((near) => {
    const far =
      folder === null
        ? dial(Number(target.port), target.hostname)
        : dial(join(folder, `.s.PGSQL.${target.port || 5432}`));
    // Of what was sent last: what is sent before an answer has come back travels beside it.
    let hasAnswered = true;
    near.on('data', () => {
      if (hasAnswered) journeys += 1;
      hasAnswered = false;
    });
    passLater(near, far, eachWayMs);
    passLater(far, near, eachWayMs, () => {
      hasAnswered = true;
    });
    for (const socket of [near, far]) {
      open.add(socket.setNoDelay(true));
      socket.on('error', () => undefined).on('close', () => open.delete(socket));
    }
    near.on('close', () => far.destroy());
    far.on('close', () => near.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const user = target.searchParams.get('user') ?? target.username;
  const password = target.password === '' ? '' : `:${target.password}`;
  return {
    url: `postgres://${user}${password}@127.0.0.1:${port}${target.pathname}`,
    get journeys() {
      return journeys;
    },
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        for (const socket of open) socket.destroy();
      }),
  };
}
