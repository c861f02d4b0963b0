import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';

/** A request as it arrived: its head and its body. */
export interface Arrived {
  readonly head: string;
  readonly body: string;
}

/**
 * A server that answers exactly the bytes, at exactly the moment, that a test says: what a broken service
 * does. A real one breaks at moments that no test can choose.
 */
export interface ScriptedServer {
  readonly url: string;
  readonly arrived: readonly Arrived[];
  /** Connections that were opened so far. */
  readonly connections: () => number;
  close(): Promise<void>;
}

/** `answer` is called for each whole request, with its number from 1. */
export async function startScriptedServer(
  answer: (socket: Socket, request: Arrived & { readonly number: number }) => void | Promise<void>,
): Promise<ScriptedServer> {
  const arrived: Arrived[] = [];
  const sockets = new Set<Socket>();
  let connections = 0;
  const server = createServer((socket) => {
    connections += 1;
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    socket.on('error', () => undefined);
    let text = '';
    socket.setEncoding('utf8').on('data', (chunk) => {
      text += chunk;
      const [head, body] = text.split('\r\n\r\n', 2);
      const length = Number(/^content-length: (\d+)/im.exec(head ?? '')?.[1] ?? 0);
      if (head === undefined || body === undefined || Buffer.byteLength(body) < length) return;
      text = '';
      arrived.push({ head, body });
      void answer(socket, { head, body, number: arrived.length });
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    arrived,
    connections: () => connections,
    close: async () => {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}

/** A whole answer with this body. */
export function http(status: number, body: unknown, headers: Readonly<Record<string, string>> = {}): string {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  const all = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text), ...headers };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
  return `HTTP/1.1 ${status} Status\r\n${lines.join('')}\r\n${text}`;
}

export const errorBody = (code: string, status: number): object => ({
  error: { code, message: `${code} happened`, status, request_id: 'req_01m7w73a5pffzt5jwz6hbpmzxj' },
});
