import { createHash } from 'node:crypto';
import { expect } from 'vitest';
import type { RequestId } from '../../../shared/model/ids.ts';
import { limits } from '../../../shared/model/limits.ts';
import { silentLogger } from '../../../shared/runtime/logger.ts';
import { chooseServer } from '../../../sidecar/http/choose-server.ts';
import { nodeServer } from '../../../sidecar/http/node-server.ts';
import type {
  Listening,
  ListenOptions,
  Refusal,
  Reply,
  RequestHandler,
  Responder,
  ServerPort,
} from '../../../sidecar/http/server.ts';
import { RawConnection } from '../base/raw-http.ts';
import { until } from '../base/until.ts';

const chosen = await chooseServer(process.env, 'uws');

/** Every adapter that works on this machine. */
export const adapters: readonly ServerPort[] = [
  nodeServer(null),
  ...(chosen.name === 'node:http' ? [] : [chosen]),
];

export interface ServerUnderTest extends Listening {
  /** Responders of `/held`, oldest first. */
  readonly held: Responder[];
  /** What was logged as an error. */
  readonly errors: string[];
  /** What was logged as a warning. */
  readonly warnings: string[];
  connect(): Promise<RawConnection>;
}

export const hash = (bytes: string | Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

const refusal = (kind: Refusal): Reply => ({
  status: kind === 'internal_error' ? 500 : kind === 'overloaded' ? 503 : 400,
  body: JSON.stringify({ error: kind }),
  headers: [['x-request-id', 'req_of_the_refusal']],
});

const text = (body: string): Reply => ({ status: 200, body, contentType: 'text/plain' });

/** One address for each thing that a handler can do. */
const testHandler =
  (held: Responder[]): RequestHandler =>
  (head) => {
    switch (head.path) {
      case '/echo':
        return (body, responder) => responder.reply(text(`${head.method} ${body.byteLength} ${hash(body)}`));
      case '/large':
        return {
          bytesMax: limits.bodyDiscardBytesMax,
          handle: (body, responder) => responder.reply(text(`large ${body.byteLength} ${hash(body)}`)),
        };
      case '/ignored':
        return {
          ignoresBody: true,
          handle: (body, responder) => responder.reply(text(`ignored ${body.byteLength}`)),
        };
      case '/held':
        return (_body, responder) => {
          held.push(responder);
        };
      case '/later':
        return (body, responder) => {
          const bytes = body.byteLength;
          setImmediate(() => responder.reply(text(`later ${bytes}`)));
        };
      case '/refused':
        return {
          status: 401,
          body: '{"error":"unauthorized"}',
          requestId: 'req_1' as RequestId,
          headers: [['www-authenticate', 'Bearer']],
        };
      case '/empty':
        return { status: 200, body: '' };
      case '/throw':
        throw new Error('thrown by the head');
      case '/throw-in-body':
        return () => {
          throw new Error('thrown by the body');
        };
      case '/throw-after-reply':
        return (_body, responder) => {
          responder.reply(text('in time'));
          throw new Error('thrown after the reply');
        };
      case '/line-break':
        return (_body, responder) =>
          responder.reply({ ...text('x'), headers: [['x-caller', 'a\r\nx-forged: 1']] });
      case '/trace':
        return { status: 200, body: head.traceparent };
      default: {
        const { method, path, query, authorization, headers, remoteAddress } = head;
        return {
          status: 200,
          body: JSON.stringify({ method, path, query, authorization, headers, remoteAddress }),
        };
      }
    }
  };

/** Starts `adapter` with the test's handler; `stop` it with `stopAll`. */
export async function start(
  adapter: ServerPort,
  options: Partial<ListenOptions> = {},
): Promise<ServerUnderTest> {
  const held: Responder[] = [];
  const errors: string[] = [];
  const warnings: string[] = [];
  const listening = await adapter.listen({
    host: '127.0.0.1',
    port: 0,
    exclusive: true,
    handler: testHandler(held),
    refuse: refusal,
    logger: {
      ...silentLogger,
      warn: (_fields, message) => warnings.push(message),
      error: (_fields, message) => errors.push(message),
    },
    ...options,
  });
  const connections: RawConnection[] = [];
  const server: ServerUnderTest = {
    held,
    errors,
    warnings,
    port: listening.port,
    get openRequests() {
      return listening.openRequests;
    },
    startDraining: () => listening.startDraining(),
    stopAccepting: () => listening.stopAccepting(),
    close: () => listening.close(),
    connect: async () => {
      const connection = await RawConnection.open(listening.port);
      connections.push(connection);
      return connection;
    },
  };
  running.push({ server, connections });
  return server;
}

/** The same, with one client that has connected. */
export async function opened(adapter: ServerPort, options: Partial<ListenOptions> = {}) {
  const server = await start(adapter, options);
  return { server, client: await server.connect() };
}

const running: { readonly server: ServerUnderTest; readonly connections: readonly RawConnection[] }[] = [];

/** After each test: every client leaves, no request may stay open, every server closes. */
export async function stopAll(): Promise<void> {
  const stopping = running.splice(0);
  for (const { server, connections } of stopping) {
    for (const connection of connections) if (!connection.isClosed) await connection.leave();
    await until(() => server.openRequests === 0, { what: 'no request stays open' });
    await server.close();
  }
  for (const { server } of stopping) {
    await expect(RawConnection.open(server.port)).rejects.toThrow('ECONNREFUSED');
  }
}

/** A request as text; `Host` and, with a body, `Content-Length` are added. */
export function request(
  line: string,
  options: { readonly headers?: readonly string[]; readonly body?: string } = {},
): string {
  const { headers = [], body } = options;
  const lines = [`${line} HTTP/1.1`, 'Host: test', ...headers];
  if (body !== undefined) lines.push(`Content-Length: ${Buffer.byteLength(body, 'latin1')}`);
  return `${lines.join('\r\n')}\r\n\r\n${body ?? ''}`;
}
