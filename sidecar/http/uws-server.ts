import {
  App,
  type HttpRequest,
  type HttpResponse,
  type TemplatedApp,
  type us_listen_socket,
  us_listen_socket_close,
  type us_socket_context_t,
  us_socket_local_port,
} from 'uWebSockets.js';
import { createServer, SocketAddress } from 'node:net';
import { must } from '../../shared/errors/assert.ts';
import { limits } from '../../shared/model/limits.ts';
import { minuteMs } from '../../shared/model/time.ts';
import type { Logger } from '../../shared/runtime/logger.ts';
import { Exchange, ListenerState, type Wire } from './exchange.ts';
import { HeadReader } from './read-head.ts';
import { type After, contentTypeOf, requestIdHeader, statusLine } from './respond.ts';
import type { Listening, ListenOptions, Reply, ServerPort } from './server.ts';
import { uwsStreams } from './uws-streams.ts';

declare module 'uWebSockets.js' {
  interface TemplatedApp {
    /** Missing in the published types: host and options together. */
    listen(
      host: string,
      port: number,
      options: number,
      callback: (listenSocket: us_listen_socket | false) => void,
    ): TemplatedApp;
  }
}

/** The addon's own numbers, which its package declares as a type only. */
const listenShared = 0;
const listenExclusive = 1;

/**
 * The server of choice. Import this file through choose-server.ts, which first sets what the addon reads when
 * it loads.
 *
 * An exception inside one of its callbacks ends the process or strands the client, so every callback here
 * catches; the rest of its traps are noted where they are avoided. Its own refusals (431 for a header block
 * that is too large, 505, 400) are HTML pages that cannot be replaced. It answers 505 also to a good request
 * of which the first read ends in the version (https://github.com/uNetworking/uWebSockets/issues/1776).
 */
export const uwsServer: ServerPort = {
  name: 'uWebSockets.js',
  fallbackReason: null,
  sharesPorts: true,
  listen: async (options) => {
    const listener = new ListenerState(uwsWire(), options);
    const app = serve(listener, options);
    return listening(app, listener, await openPort(app, options));
  },
};

function serve(listener: ListenerState<HttpResponse>, options: ListenOptions): TemplatedApp {
  const reader = new HeadReader(options.headerNamesOf);
  const turns = new WaitingTurns();
  const noteDrop = dropNoter(options.logger);
  const caught = (error: unknown) =>
    options.logger.error({ err: error }, 'a callback of the HTTP server threw');

  const streams = uwsStreams(options.logger);

  /** `context`: of a request that may become a WebSocket. */
  const receive = (res: HttpResponse, req: HttpRequest, context: us_socket_context_t | null) => {
    const exchange = new Exchange(listener, res);
    // First of all: a throw before it is set ends the process, whatever handlers exist.
    res.onAborted(() => {
      try {
        if (exchange.waitingSinceTurn === turns.current) noteDrop();
        exchange.abort();
      } catch (error) {
        caught(error);
      }
    });
    try {
      readHead(exchange, reader, req);
      exchange.begin(reader, context === null ? null : (to) => streams.upgrade(res, req, context, to));
      if (!exchange.wantsBody) return;
      res.onData((piece, isLast) => {
        try {
          exchange.take(Buffer.from(piece), isLast);
          if (isLast && exchange.isOpen) exchange.waitingSinceTurn = turns.current;
        } catch (error) {
          caught(error);
        }
      });
    } catch (error) {
      caught(error);
    }
  };

  const app = App().any('/*', (res, req) => receive(res, req, null));
  if (options.streamPath === undefined) return app;
  return app.ws(options.streamPath, { ...streams.behavior, upgrade: receive });
}

/**
 * Numbers the turns of the event loop in which a request was left unanswered. One that is aborted in that
 * same turn lost its connection to a request after it in the same read: a client that leaves is noticed by a
 * later read. The addon closes the connection before any code of ours runs
 * (https://github.com/uNetworking/uWebSockets.js/issues/277, wontfix), so nothing can be answered any more.
 */
class WaitingTurns {
  #turn = 0;
  #isEndAwaited = false;
  readonly #end = (): void => {
    this.#turn += 1;
    this.#isEndAwaited = false;
  };

  get current(): number {
    if (!this.#isEndAwaited) {
      this.#isEndAwaited = true;
      setImmediate(this.#end);
    }
    return this.#turn;
  }
}

/**
 * Logs the first drop, and then at most one line a minute with their number: a client that pipelines does so
 * all the time.
 */
function dropNoter(logger: Logger): () => void {
  let dropped = 0;
  let notedAtMs = Number.NEGATIVE_INFINITY;
  return () => {
    dropped += 1;
    const nowMs = performance.now();
    if (nowMs - notedAtMs < minuteMs) return;
    notedAtMs = nowMs;
    logger.warn(
      { dropped },
      'a client pipelined requests behind one that was not answered yet, and uWebSockets.js closed its connection; SIDECAR_HTTP=node answers all of them',
    );
  };
}

/** `req` lives on the server's stack and is gone after the callback: everything is copied here. */
function readHead(exchange: Exchange<HttpResponse>, reader: HeadReader, req: HttpRequest): void {
  exchange.method = req.getCaseSensitiveMethod();
  exchange.path = req.getUrl();
  exchange.query = req.getQuery() ?? '';
  reader.begin(exchange.path);
  req.forEach(reader.see);
}

/**
 * Corking makes one packet of one answer. The callback is made once, because a closure per answer would be
 * garbage.
 */
function uwsWire(): Wire<HttpResponse> {
  let answer: { readonly reply: Reply; readonly isHead: boolean; readonly after: After } | null = null;
  let to: HttpResponse | null = null;

  const writeCorked = () => {
    const res = must(to, 'an answer has a response to write to');
    const { reply, isHead, after } = must(answer, 'a response that is written has an answer');
    if (reply.status !== 200) res.writeStatus(statusLine(reply.status));
    const contentType = contentTypeOf(reply);
    if (contentType !== null) res.writeHeader('content-type', contentType);
    if (reply.requestId !== undefined) res.writeHeader(requestIdHeader, reply.requestId);
    if (reply.headers !== undefined) for (const [name, value] of reply.headers) res.writeHeader(name, value);
    if (isHead) endHead(res, reply, after);
    else res.end(reply.body, after === 'close');
  };

  return {
    write(res, next) {
      to = res;
      answer = next;
      res.cork(writeCorked);
      to = null;
      answer = null;
    },
    cut: (res) => res.close(),
    remoteAddress: (res) => addressText(new Uint8Array(res.getRemoteAddress())),
  };
}

/**
 * `endWithoutBody(length)` leaves the answer pending, so the length goes in by hand; and its closing flag
 * adds a second, absurd length. A HEAD after which the connection must close is therefore answered as if the
 * body were empty, after which `end` can close.
 */
function endHead(res: HttpResponse, reply: Reply, after: After): void {
  if (after === 'close') {
    res.end('', true);
    return;
  }
  res.writeHeader('content-length', String(Buffer.byteLength(reply.body)));
  res.endWithoutBody();
}

/** 4 bytes, or 16: of a socket that takes both families, an IPv4 peer comes as `::ffff:a.b.c.d`. */
function addressText(bytes: Uint8Array): string {
  const isMapped =
    bytes.byteLength === 16 && bytes.every((byte, index) => index >= 12 || byte === (index < 10 ? 0 : 0xff));
  if (bytes.byteLength === 4 || isMapped) return bytes.slice(-4).join('.');
  if (bytes.byteLength !== 16) return '';
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  const groups = Array.from({ length: 8 }, (_, index) => view.getUint16(2 * index).toString(16));
  return new SocketAddress({ address: groups.join(':'), family: 'ipv6' }).address;
}

async function openPort(app: TemplatedApp, options: ListenOptions): Promise<us_listen_socket> {
  const { host, port, exclusive } = options;
  const socket = await new Promise<us_listen_socket | false>((resolve) => {
    app.listen(host, port, exclusive ? listenExclusive : listenShared, resolve);
  });
  if (socket !== false) return socket;
  app.close();
  throw await whyNot(options);
}

/** The addon only says no; `node:net` is asked for the reason. */
function whyNot({ host, port }: ListenOptions): Promise<Error> {
  return new Promise((resolve) => {
    const probe = createServer();
    probe.once('error', resolve);
    probe.listen({ host, port, exclusive: true }, () => {
      probe.close();
      resolve(new Error(`listen on ${host}:${port} failed for an unknown reason`));
    });
  });
}

function listening(
  app: TemplatedApp,
  listener: ListenerState<HttpResponse>,
  socket: us_listen_socket,
): Listening {
  const port = us_socket_local_port(socket);
  let closed: Promise<void> | null = null;

  let isAccepting = true;
  const startDraining = () => {
    listener.isDraining = true;
  };
  const stopAccepting = () => {
    startDraining();
    if (!isAccepting) return;
    isAccepting = false;
    us_listen_socket_close(socket);
  };
  const close = async () => {
    stopAccepting();
    const deadline = setTimeout(() => app.close(), limits.drainMsMax);
    await listener.drained();
    clearTimeout(deadline);
    // The last answer may still lie in the cork buffer, which is flushed when the callback that wrote it
    // returns.
    await new Promise((resolve) => setImmediate(resolve));
    app.close();
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
