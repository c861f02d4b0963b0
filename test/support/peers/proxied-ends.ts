import { createHash } from 'node:crypto';
import { createServer as createHttpServer } from 'node:http';
import { createServer, connect as dial, type Server, type Socket } from 'node:net';
import { freePort } from '../base/free-port.ts';
import { listening } from '../base/listening.ts';

/** A request as it reached the service behind a proxy. */
export interface Served {
  readonly method: string;
  /** As it was sent. */
  readonly target: string;
  /** In lower case, in their order, repeated ones included. */
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly bodySha256: string;
}

/** A service of no opinion: it answers everything with 200, and counts. */
export interface CountingService {
  readonly port: number;
  /** Everything that reached it and that nobody has taken out; what was no HTTP has the method `?`. */
  readonly served: Served[];
  close(): Promise<void>;
}

const headerBytesMax = 64 * 1024;

export async function startCountingService(): Promise<CountingService> {
  const served: Served[] = [];
  const server = createHttpServer({ maxHeaderSize: headerBytesMax }, (request, response) => {
    const { method = '', url: target = '', rawHeaders } = request;
    const headers = rawHeaders.flatMap((name, index) =>
      index % 2 === 0 ? [[name.toLowerCase(), rawHeaders[index + 1] ?? ''] as const] : [],
    );
    const hash = createHash('sha256');
    const seen = { method, target, headers, bodySha256: '' };
    served.push(seen);
    request.on('data', (bytes) => hash.update(bytes));
    request.on('end', () => {
      seen.bodySha256 = hash.digest('hex');
      response.writeHead(200, { 'content-type': 'text/plain', 'content-length': '6' }).end('served');
    });
  });
  server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
    // Not for a connection that was only closed.
    if (error.code?.startsWith('HPE_')) served.push({ method: '?', target: '', headers: [], bodySha256: '' });
    socket.destroy();
  });
  const { port, close } = await listening(server);
  return { port, served, close };
}

/** A question as a proxy asked it: its first line, and its headers in lower case, in their order. */
export interface Question {
  readonly line: string;
  readonly headers: readonly (readonly [name: string, value: string])[];
}

/** Between a proxy and its sidecar: shows what is asked, and stands for a sidecar that is gone or late. */
export interface SidecarRelay {
  readonly port: number;
  readonly questions: Question[];
  /** Connections that were made to it so far. */
  readonly connections: number;
  /**
   * Passes everything on to the sidecar on this port. Connections that already lead there stay: HAProxy may
   * send a request on one that was closed a moment ago, and answers it with 503.
   */
  passTo(port: number): Promise<void>;
  /** Nobody listens, and what was open is closed. */
  refuse(): Promise<void>;
  /** Takes every question from now on and answers none. */
  hold(): void;
  close(): Promise<void>;
}

export async function startSidecarRelay(): Promise<SidecarRelay> {
  // Of those that nobody gets by chance while nobody listens.
  const port = await freePort();
  const questions: Question[] = [];
  const open = new Set<Socket>();
  let connections = 0;
  let target: number | 'hold' = 'hold';
  let server: Server | null = null;

  const accept = (near: Socket): void => {
    connections += 1;
    open.add(near);
    near.on('close', () => open.delete(near)).on('error', () => near.destroy());
    let head = '';
    near.on('data', (bytes: Buffer) => {
      head += bytes.toString('latin1');
      // Nothing comes after the head: a question has no body.
      for (let end = head.indexOf('\r\n\r\n'); end !== -1; end = head.indexOf('\r\n\r\n')) {
        questions.push(parseHead(head.slice(0, end)));
        head = head.slice(end + 4);
      }
    });
    if (target === 'hold') return;
    const far = dial(target, '127.0.0.1');
    far.on('error', () => near.destroy()).on('close', () => near.destroy());
    near.on('close', () => far.destroy());
    near.pipe(far).pipe(near);
  };
  const closeOpen = (): void => {
    for (const socket of open) socket.destroy();
  };
  const listen = async (): Promise<void> => {
    if (server !== null) return;
    const listening = createServer(accept);
    await new Promise<void>((resolve) => listening.listen(port, '127.0.0.1', resolve));
    server = listening;
  };
  const refuse = async (): Promise<void> => {
    const closing = server;
    server = null;
    if (closing === null) return;
    const closed = new Promise((resolve) => closing.close(resolve));
    closeOpen();
    await closed;
  };
  return {
    port,
    questions,
    get connections() {
      return connections;
    },
    passTo: async (to) => {
      if (target === to && server !== null) return;
      target = to;
      closeOpen();
      await listen();
    },
    refuse,
    hold: () => {
      target = 'hold';
      closeOpen();
    },
    close: refuse,
  };
}

function parseHead(text: string): Question {
  const [line = '', ...lines] = text.split('\r\n');
  const headers = lines.map((each) => {
    const colon = each.indexOf(':');
    return [each.slice(0, colon).toLowerCase(), each.slice(colon + 1).trim()] as const;
  });
  return { line, headers };
}
