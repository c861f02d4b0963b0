import { createServer, type IncomingMessage, type Server, ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { must } from '../../shared/errors/assert.ts';
import { limits } from '../../shared/model/limits.ts';
import { Exchange, ListenerState, type Wire } from './exchange.ts';
import { httpLimits } from './limits.ts';
import { nodeStreams, upgradingAt } from './node-streams.ts';
import { HeadReader } from './read-head.ts';
import { contentTypeOf, requestIdHeader, statusLine } from './respond.ts';
import type { Listening, ListenOptions, Refusal, Reply, ServerPort, Upgrade } from './server.ts';

/** SO_REUSEPORT came with Node 22.12 and 23.1; before, a second thread gets EADDRINUSE. */
const [major = 0, minor = 0] = process.versions.node.split('.').map(Number);
const hasReusePort = major > 23 || (major === 23 && minor >= 1) || (major === 22 && minor >= 12);

/**
 * The server where the addon does not load (musl, a Node version without a binary): slower, the same
 * promises.
 */
export const nodeServer = (fallbackReason: string | null): ServerPort => ({
  name: 'node:http',
  fallbackReason,
  sharesPorts: hasReusePort,
  listen: async (options) => {
    const listener = new ListenerState(nodeWire, options);
    const server = serve(listener, options);
    return listening(server, listener, await openPort(server, options));
  },
});

/** A connection and its requests that are not answered to the end. */
interface Connection {
  readonly open: Set<Exchange<ServerResponse>>;
  /**
   * Set once, by a request whose end cannot be determined: what follows it on the connection is not served.
   */
  isRefused: boolean;
}

function serve(listener: ListenerState<ServerResponse>, options: ListenOptions): Server {
  const reader = new HeadReader(options.headerNamesOf);
  const connections = new WeakMap<Duplex, Connection>();
  const connectionOf = (socket: Duplex) => must(connections.get(socket), 'a request comes over a connection');
  const streams = nodeStreams(options.logger);

  const begin = (
    req: IncomingMessage,
    res: ServerResponse,
    upgrade: ((to: Upgrade) => void) | null,
  ): Exchange<ServerResponse> => {
    const connection = connectionOf(req.socket);
    const exchange = new Exchange(listener, res);
    connection.open.add(exchange);
    res.once('close', () => {
      connection.open.delete(exchange);
      exchange.abort();
    });
    readHead(exchange, reader, req);
    connection.isRefused = reader.problem !== null;
    if (req.headers.host === undefined) exchange.refuse('invalid_request', 'close');
    else exchange.begin(reader, upgrade);
    return exchange;
  };

  const receive = (req: IncomingMessage, res: ServerResponse) => {
    if (connectionOf(req.socket).isRefused) return;
    const exchange = begin(req, res, null);
    if (exchange.wantsBody) {
      req.on('data', (piece: Buffer) => exchange.take(piece, false));
      req.once('end', () => exchange.take(noBytes, true));
    }
  };

  const receiveHandshake = (req: IncomingMessage, socket: Duplex, head: Buffer) => {
    // From here on nothing else listens for it.
    socket.on('error', () => undefined);
    const connection = connectionOf(socket);
    if (connection.isRefused || connection.open.size > 0) {
      // After a request that is still unanswered its answer could not be sent in order.
      socket.destroy();
      return;
    }
    const res = new ServerResponse(req);
    res.shouldKeepAlive = false;
    res.assignSocket(socket as Socket);
    res.once('finish', () => (socket as Socket).destroySoon());
    begin(req, res, (to) => {
      connection.open.clear();
      res.detachSocket(socket as Socket);
      streams.upgrade(req, socket, head, to);
    });
  };

  const server = newServer(options);
  server.on('connection', (socket: Socket) => {
    connections.set(socket, newConnection(socket));
  });
  server.on('request', receive);
  server.on('upgrade', receiveHandshake);
  // An expectation that is not understood is ignored, as uWebSockets.js does, instead of a 417 without a
  // body.
  server.on('checkExpectation', receive);
  server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) => {
    const hasOpen = connectionOf(socket).open.size > 0;
    endBroken(socket, hasOpen, () => rawAnswer(listener.refuse(refusalOf(error.code ?? ''))), error);
  });
  return server;
}

function newConnection(socket: Socket): Connection {
  const connection: Connection = { open: new Set(), isRefused: false };
  // The response of a pipelined request that waits for its turn gets no event when its connection closes.
  socket.once('close', () => {
    for (const exchange of connection.open) exchange.abort();
  });
  return connection;
}

const newServer = ({ streamPath }: Pick<ListenOptions, 'streamPath'>): Server =>
  createServer({
    IncomingMessage: upgradingAt(streamPath),
    maxHeaderSize: limits.headerBytesMax,
    // Its own answer to a missing Host has no body.
    requireHostHeader: false,
    headersTimeout: httpLimits.requestSilenceMsMax,
    requestTimeout: httpLimits.requestSilenceMsMax,
    keepAliveTimeout: httpLimits.requestSilenceMsMax,
    connectionsCheckingInterval: httpLimits.requestSilenceMsMax / 4,
  });

/** Answers and ends a connection whose HTTP cannot be read. */
function endBroken(
  socket: Socket,
  hasOpen: boolean,
  answer: () => string,
  { code }: NodeJS.ErrnoException,
): void {
  if (hasOpen) {
    // The client would take this answer for that of its open request, which has until the end of the turn.
    setImmediate(() => socket.destroySoon());
  } else if (socket.writable && code?.startsWith('HPE_')) {
    socket.end(answer(), () => socket.destroy());
  } else {
    // Reset, or silent for too long: it reads nothing any more.
    socket.destroy();
  }
}

/** By the names of llhttp's errors. */
function refusalOf(code: string): Refusal {
  if (code === 'HPE_HEADER_OVERFLOW') return 'headers_too_large';
  if (code.includes('TRANSFER_ENCODING') || code === 'HPE_INVALID_CHUNK_SIZE') return 'transfer_encoding';
  return code.includes('CONTENT_LENGTH') ? 'content_length' : 'invalid_request';
}

const noBytes = Buffer.alloc(0);

function readHead(exchange: Exchange<ServerResponse>, reader: HeadReader, req: IncomingMessage): void {
  const target = req.url ?? '';
  const queryAt = target.indexOf('?');
  exchange.method = req.method ?? '';
  exchange.path = queryAt === -1 ? target : target.slice(0, queryAt);
  exchange.query = queryAt === -1 ? '' : target.slice(queryAt + 1);
  reader.begin(exchange.path);
  for (let index = 0; index + 1 < req.rawHeaders.length; index += 2) {
    reader.see((req.rawHeaders[index] ?? '').toLowerCase(), req.rawHeaders[index + 1] ?? '');
  }
}

const nodeWire: Wire<ServerResponse> = {
  write(res, { reply, after }) {
    // For HEAD, node leaves the body out by itself and keeps the length.
    res.writeHead(reply.status, answerHeaders(reply, after));
    res.end(reply.body);
  },
  cut: (res) => res.destroy(),
  remoteAddress: (res) => (res.socket?.remoteAddress ?? '').replace(/^::ffff:(?=\d+\.)/, ''),
};

function answerHeaders(reply: Reply, after: 'keep' | 'close'): string[] {
  const headers = ['content-length', String(Buffer.byteLength(reply.body))];
  const contentType = contentTypeOf(reply);
  if (contentType !== null) headers.push('content-type', contentType);
  if (reply.requestId !== undefined) headers.push(requestIdHeader, reply.requestId);
  for (const [name, value] of reply.headers ?? []) headers.push(name, value);
  if (after === 'close') headers.push('connection', 'close');
  return headers;
}

/** For a request that the parser refused, so that there is no response to write through. */
function rawAnswer(reply: Reply): string {
  const headers = answerHeaders(reply, 'close');
  const lines = [`HTTP/1.1 ${statusLine(reply.status)}`];
  for (let index = 0; index + 1 < headers.length; index += 2)
    lines.push(`${headers[index]}: ${headers[index + 1]}`);
  return `${lines.join('\r\n')}\r\n\r\n${reply.body}`;
}

function openPort(server: Server, { host, port, exclusive, logger }: ListenOptions): Promise<number> {
  const where = { host, port, exclusive: true, reusePort: !exclusive && hasReusePort };
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(where, () => {
      server.off('error', reject);
      server.on('error', (error) => logger.error({ err: error }, 'the HTTP server reports an error'));
      resolve((server.address() as AddressInfo).port);
    });
  });
}

function listening(server: Server, listener: ListenerState<ServerResponse>, port: number): Listening {
  let closed: Promise<void> | null = null;
  const connections = new Set<Socket>();
  server.on('connection', (socket: Socket) => {
    connections.add(socket);
    socket.once('close', () => connections.delete(socket));
  });

  const allClosed = new Promise<void>((resolve) => server.once('close', resolve));

  let isAccepting = true;
  const startDraining = () => {
    listener.isDraining = true;
  };
  const stopAccepting = () => {
    startDraining();
    if (!isAccepting) return;
    isAccepting = false;
    server.close();
  };
  const close = async () => {
    stopAccepting();
    const deadline = setTimeout(() => server.closeAllConnections(), limits.drainMsMax);
    await listener.drained();
    // node hands an answer to its socket within the turn; from there destroySoon sees it out.
    await new Promise((resolve) => setImmediate(resolve));
    for (const socket of connections) socket.destroySoon();
    await allClosed;
    clearTimeout(deadline);
  };
  return {
    port,
    get openRequests() {
      return listener.openRequests;
    },
    startDraining,
    stopAccepting,
    close: () => {
      closed ??= close();
      return closed;
    },
  };
}
