import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import { listening } from '../base/listening.ts';

/** What arrived at a receiver of webhooks. */
export interface Received {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
  readonly atMs: number;
}

export interface Receiver {
  readonly url: string;
  readonly received: Received[];
  /** Answers from now on; the default answers 204. */
  answer(how: (response: ServerResponse, received: Received) => void): void;
  close(): Promise<void>;
}

/** A real HTTP server on this machine that takes webhooks. */
export async function startReceiver(): Promise<Receiver> {
  const received: Received[] = [];
  let respond = (response: ServerResponse, _received: Received): void => void response.writeHead(204).end();
  const server = createServer((request, response) => {
    const pieces: Buffer[] = [];
    request.on('data', (piece) => pieces.push(piece));
    request.on('end', () => {
      const one = {
        path: request.url ?? '',
        headers: request.headers,
        body: Buffer.concat(pieces).toString('utf8'),
        atMs: Date.now(),
      };
      received.push(one);
      respond(response, one);
    });
  });
  const { origin, close } = await listening(server);
  return {
    url: `${origin}/hook`,
    received,
    answer: (how) => {
      respond = how;
    },
    close,
  };
}
