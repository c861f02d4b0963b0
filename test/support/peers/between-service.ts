import { createServer, request, type ServerResponse } from 'node:http';
import { listening } from '../base/listening.ts';

/** What becomes of an answer: `send` whole, or anything else a server or the line between may do. */
export type Spoil = (answer: ServerResponse, body: Buffer) => unknown;

/** A service as a command sees it through something that spoils some of its answers. */
export interface BetweenService {
  readonly origin: string;
  /** Of the answers whose path begins so, from now on; null: of none. */
  spoil(path: string | null, how?: Spoil): void;
  close(): Promise<void>;
}

/** Passes everything on to `origin` and back, but for what is spoilt. */
export async function betweenService(origin: string): Promise<BetweenService> {
  let spoilt: { readonly path: string; readonly how: Spoil } | null = null;
  const server = createServer((asked, answer) => {
    const { method, url = '/', headers } = asked;
    const passed = request(`${origin}${url}`, { method, headers, agent: false }, (got) => {
      const pieces: Buffer[] = [];
      got.on('data', (piece: Buffer) => pieces.push(piece));
      got.on('end', () => {
        const body = Buffer.concat(pieces);
        const how = spoilt !== null && url.startsWith(spoilt.path) ? spoilt.how : null;
        const { 'content-length': _length, 'transfer-encoding': _encoding, ...passedOn } = got.headers;
        if (how === null || got.statusCode !== 200) {
          answer.writeHead(got.statusCode ?? 502, passedOn).end(body);
          return;
        }
        how(answer, body);
      });
    });
    passed.on('error', () => answer.destroy());
    asked.pipe(passed);
  });
  const { origin: here, close } = await listening(server);
  return {
    origin: here,
    spoil: (path, how = () => undefined) => {
      spoilt = path === null ? null : { path, how };
    },
    close,
  };
}
