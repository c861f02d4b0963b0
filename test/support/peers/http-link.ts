import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { Pool } from 'undici';
import { listening } from '../base/listening.ts';

/** What stands between a program and those that it calls, and can do with each call what a test wants. */
export interface HttpLink {
  /** Of this end, to be called as the other. */
  readonly origin: string;
  close(): Promise<void>;
}

/** A call as it arrived, whole. */
export interface ArrivedCall {
  readonly method: string;
  readonly path: string;
  readonly headers: Record<string, string>;
  readonly body: Buffer;
}

export interface LinkAnswer {
  readonly status: number;
  readonly type: string | string[] | undefined;
  readonly body: Buffer;
}

/** Null: there was no answer, and the connection of the caller ends without one. */
export type Deliver = (call: ArrivedCall) => Promise<LinkAnswer | null>;

/** `pass` answers each call, by delivering it once, more often or not at all. */
export async function httpLink(
  chooseOrigin: () => string,
  pass: (call: ArrivedCall, deliver: Deliver) => Promise<LinkAnswer | null>,
): Promise<HttpLink> {
  const pools = new Map<string, Pool>();
  const poolOf = (origin: string): Pool => {
    // A caller gives up when it wants to; what it asks for may be news that come in half a minute.
    const pool = pools.get(origin) ?? new Pool(origin, { headersTimeout: 0, bodyTimeout: 0 });
    pools.set(origin, pool);
    return pool;
  };
  const deliver: Deliver = async (call) => {
    try {
      const { statusCode, headers, body } = await poolOf(chooseOrigin()).request({
        method: call.method as 'GET' | 'POST',
        path: call.path,
        headers: call.headers,
        body: call.body.length === 0 ? null : call.body,
      });
      return {
        status: statusCode,
        type: headers['content-type'],
        body: Buffer.from(await body.arrayBuffer()),
      };
    } catch {
      // That program is down, or went down: for the caller the connection ends.
      return null;
    }
  };
  const server = createServer((request, response) => {
    void arrived(request)
      .then((call) => pass(call, deliver))
      .catch(() => null)
      .then((answer) => reply(response, answer));
  });
  server.requestTimeout = 0;
  const { origin, close } = await listening(server);
  return {
    origin,
    close: async () => {
      await close();
      await Promise.all(Array.from(pools.values(), (pool) => pool.destroy()));
    },
  };
}

async function arrived(request: IncomingMessage): Promise<ArrivedCall> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk);
  const { host: _host, connection: _connection, 'content-length': _length, ...headers } = request.headers;
  return {
    method: request.method ?? 'GET',
    path: request.url ?? '/',
    headers: Object.fromEntries(
      Object.entries(headers).flatMap(([name, value]) => (typeof value === 'string' ? [[name, value]] : [])),
    ),
    body: Buffer.concat(chunks),
  };
}

function reply(response: ServerResponse, answer: LinkAnswer | null): void {
  if (answer === null) {
    response.destroy();
    return;
  }
  response.writeHead(answer.status, answer.type === undefined ? {} : { 'content-type': answer.type });
  response.end(answer.body);
}
