import { join } from 'node:path';
import { linkTo } from '../peers/link.ts';

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
  let journeys = 0;
  const socket = folder === null ? null : join(folder, `.s.PGSQL.${target.port || 5432}`);
  const link = await linkTo(
    socket === null ? { port: Number(target.port), host: target.hostname } : { path: socket },
    {
      eachWayMs,
      watch: () => {
        // Of what was sent last: what is sent before an answer has come back travels beside it.
        let hasAnswered = true;
        return {
          onAsked: () => {
            if (hasAnswered) journeys += 1;
            hasAnswered = false;
          },
          onAnswered: () => {
            hasAnswered = true;
          },
        };
      },
    },
  );
  const user = target.searchParams.get('user') ?? target.username;
  const password = target.password === '' ? '' : `:${target.password}`;
  return {
    url: `postgres://${user}${password}@127.0.0.1:${link.port}${target.pathname}`,
    get journeys() {
      return journeys;
    },
    close: link.close,
  };
}
