import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { pipeline } from 'node:stream/promises';
import { passportsIn } from '../clients/node/src/guard.ts';
import { sha256Hex } from '../shared/crypto/content-hash.ts';
import { isJsonObject, type JsonObject } from '../shared/crypto/json-object.ts';
import type { Logger } from '../shared/runtime/logger.ts';
import { originOf } from '../shared/runtime/settings.ts';
import { StartError } from '../shared/runtime/start-error.ts';
import { filterEvents } from './filter-events.ts';
import { refusedCode, type Shown, withMeta, withoutPassport } from './guard-calls.ts';
import { clientMethods, guardedMethod, subjectOf } from './guarded-methods.ts';
import { AnswerTooLarge, HeldBytes } from './held-bytes.ts';
import { type CallReports, HeldCalls } from './held-calls.ts';
import { answeredHeaders, foreignSite, passedHeaders, repeatedHeader, type Site } from './http-headers.ts';
import { proxyLimits } from './limits.ts';
import type { AnswerContext, AnswerGuard } from './look-at-answers.ts';
import type { ProtectedResource } from './protected-resource.ts';
import {
  type ClientMessages,
  errorMessage,
  invalidRequest,
  isDecided,
  isToolCall,
  isToolList,
  readMessages,
  refusalText,
} from './read-messages.ts';
import type { RequestGuard, RequestRefusal, Sender } from './request-guard.ts';
import {
  eventOf,
  kindOf,
  readAnswer,
  refuseCompressed,
  sendJson,
  sendRest,
  sendText,
  withOwn,
} from './server-answers.ts';
import type { ToolViews } from './tool-views.ts';
import { Upstream, UpstreamError } from './upstream.ts';

export interface HttpProxyOptions {
  readonly upstream: URL;
  /** Until the server's answer begins, in milliseconds. */
  readonly answerMsMax: number;
  readonly host: string;
  /** 0: a free one. */
  readonly port: number;
  readonly site: Site;
  /** As clients reach it, which proofs of possession are for. Null: none is passed on. */
  readonly publicUrl: URL | null;
  /** Null: access tokens are the MCP server's. */
  readonly resource: ProtectedResource | null;
  readonly requests: RequestGuard;
  readonly answers: AnswerGuard;
  readonly reports: CallReports;
  /** The lists of tools of each client. */
  readonly views: ToolViews;
  /** Of one message of the server, in bytes. Default `proxyLimits.answerBytesDefault`. */
  readonly answerBytesMax?: number;
  readonly forwardsPassport: boolean;
  /** Default `proxyLimits.openRequestsMax`. */
  readonly openRequestsMax?: number;
  readonly logger: Logger;
}

export interface HttpProxy {
  /** The address for clients, with the path of the server behind it. */
  readonly url: string;
  startDraining(): void;
  /** Resolves when messages in flight are answered, or after `drainMsMax`. Streams of GET end at once. */
  close(): Promise<void>;
}

/** An answer that is not the server's. */
class Refusal extends Error {
  readonly status: number;
  readonly code: number;
  /** For the ids that the client waits for; null: of the exchange. */
  readonly text: string | null;
  constructor(status: number, message: string, code: number = invalidRequest, text: string | null = null) {
    super(message);
    this.status = status;
    this.code = code;
    this.text = text;
  }
}

const internalError = -32_603;
/** HeaderMismatch of protocol revision 2026-07-28. */
const headerMismatch = -32_020;

/**
 * Listens before an MCP server that speaks Streamable HTTP, at the same path. What a client asks is decided,
 * and what the server sends is looked at; everything else passes as it is. Throws StartError where it cannot
 * listen.
 */
export async function startHttpProxy(options: HttpProxyOptions): Promise<HttpProxy> {
  const proxy = new GuardingProxy(options);
  const server = createServer({
    maxHeaderSize: proxyLimits.headerBytesMax,
    requestTimeout: proxyLimits.requestMsMax,
  });
  // Beyond these, connections are closed unanswered: each open request has one.
  server.maxConnections = 2 * proxyLimits.openRequestsMax;
  server.on('request', (request, response) => void proxy.serve(request, response));
  const { host, port } = options;
  server.listen({ host, port });
  await once(server, 'listening').catch((cause: NodeJS.ErrnoException) => {
    const why = cause.code === 'EADDRINUSE' ? 'another program listens there' : cause.message;
    throw new StartError(`cannot listen on ${host}:${port}: ${why}. --port chooses another port.`, { cause });
  });
  const listener = { host, port: (server.address() as AddressInfo).port };
  return {
    url: `${originOf(listener)}${options.upstream.pathname}`,
    startDraining: () => proxy.startDraining(),
    close: () => close(server, proxy),
  };
}

async function close(server: Server, proxy: GuardingProxy): Promise<void> {
  proxy.startDraining();
  const closed = once(server, 'close');
  server.close();
  proxy.endStreams();
  await proxy.drained(proxyLimits.drainMsMax);
  // Some were opened and never used: node:http does not count them among the idle ones.
  server.closeAllConnections();
  await closed;
  proxy.close();
}

/** One request on its way. */
interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly shown: Shown;
  /** Aborted when the client has disconnected. */
  readonly gone: AbortSignal;
  /** Of its message, for an error; null until it is read, and for a batch. */
  id: unknown;
  /** The requests of the client that wait for answers here: their methods by their ids. */
  methods: ReadonlyMap<unknown, unknown>;
  /** Calls that wait for answers here, with a held amount. */
  readonly held: HeldCalls;
}

class GuardingProxy {
  readonly #options: HttpProxyOptions;
  readonly #upstream: Upstream;
  readonly #held: HeldBytes;
  readonly #open = new Set<ServerResponse>();
  /** Answers to GET: streams that end when the proxy does, and are resumed elsewhere. */
  readonly #streams = new Set<ServerResponse>();
  #onDrained: () => void = () => undefined;
  #bufferedBytes = 0;
  #isDraining = false;

  constructor(options: HttpProxyOptions) {
    this.#options = options;
    this.#upstream = new Upstream(options.upstream, options);
    this.#held = new HeldBytes(options.answerBytesMax ?? proxyLimits.answerBytesDefault);
  }

  startDraining(): void {
    this.#isDraining = true;
    for (const response of this.#open) response.shouldKeepAlive = false;
  }

  /** Resolves when no request is open any more, or after so long. */
  drained(msMax: number): Promise<void> {
    return new Promise((resolve) => {
      const deadline = setTimeout(resolve, msMax);
      this.#onDrained = () => {
        clearTimeout(deadline);
        resolve();
      };
      if (this.#open.size === 0) this.#onDrained();
    });
  }

  endStreams(): void {
    for (const response of this.#streams) response.destroy();
  }

  close(): void {
    this.#upstream.close();
  }

  /** Never rejects. */
  async serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    this.#open.add(response);
    const gone = new AbortController();
    response.once('close', () => {
      this.#open.delete(response);
      if (this.#open.size === 0) this.#onDrained();
      this.#streams.delete(response);
      gone.abort();
    });
    // A client that breaks off is no fault of this program.
    for (const stream of [request, response]) stream.on('error', () => gone.abort());
    if (this.#isDraining) response.shouldKeepAlive = false;
    const headers: Shown = (name) => {
      const value = request.headers[name];
      return typeof value === 'string' ? value : undefined;
    };
    const { resource, reports } = this.#options;
    const shown = resource === null ? headers : resource.shown(headers);
    const held = new HeldCalls(reports);
    const exchange = { request, response, shown, gone: gone.signal, id: null, methods: new Map(), held };
    try {
      this.#admitSite(request);
      if (resource?.isAskedFor(request)) return sendText(response, 200, resource.metadata);
      this.#admit(exchange);
      if (request.method === 'POST') await this.#post(exchange);
      else await this.#pass(exchange);
      // An answer may still come in another stream, for which no call is known: its hold ends by itself.
      if (response.statusCode >= 400) held.end('failed');
    } catch (error) {
      held.end(gone.signal.aborted ? 'left' : 'failed');
      this.#answerError(exchange, error);
    }
  }

  #admitSite(request: IncomingMessage): void {
    const foreign = foreignSite(request, this.#options.site);
    if (foreign !== null) throw new Refusal(403, foreign);
  }

  #admit({ request, response, shown }: Exchange): void {
    if (request.url?.split('?', 1)[0] !== this.#upstream.path) {
      throw new Refusal(404, `The MCP server is at ${this.#upstream.path}.`);
    }
    const repeated = repeatedHeader(request);
    if (repeated !== null) throw new Refusal(400, `There are two headers ${repeated}.`);
    if (this.#open.size > (this.#options.openRequestsMax ?? proxyLimits.openRequestsMax)) {
      throw new Refusal(503, 'Too many requests are open. Try again later.', internalError);
    }
    const { resource } = this.#options;
    // A preflight of a browser shows nothing.
    if (resource === null || request.method === 'OPTIONS' || passportsIn(shown).length > 0) return;
    response.setHeader('www-authenticate', resource.challenge(null));
    throw new Refusal(401, 'Show an access token.');
  }

  /** A request without a message. */
  async #pass(exchange: Exchange): Promise<void> {
    const { method = '', headers } = exchange.request;
    if (!['GET', 'DELETE', 'OPTIONS', 'HEAD'].includes(method)) {
      throw new Refusal(405, 'Messages are sent by POST.');
    }
    if ((headers['content-length'] ?? '0') !== '0' || headers['transfer-encoding'] !== undefined) {
      throw new Refusal(400, `A ${method} has no body here.`);
    }
    // A stream that is resumed may bring answers to what was asked for before.
    const answer = await this.#send(exchange, null);
    this.#streams.add(exchange.response);
    await this.#answer(exchange, answer, this.#contextOf(exchange), []);
  }

  async #post(exchange: Exchange): Promise<void> {
    refuseEncoded(exchange.request);
    const body = await this.#readBody(exchange.request);
    try {
      await this.#postMessages(exchange, body);
    } finally {
      this.#bufferedBytes -= body.length;
    }
  }

  async #postMessages(exchange: Exchange, body: Buffer): Promise<void> {
    const read = readMessages(body);
    if (read.kind === 'unreadable') throw new Refusal(400, read.message, read.code, refusalText(read));
    exchange.id = read.isBatch ? null : read.messages[0]?.['id'];
    refuseMismatch(exchange.request, read);
    exchange.methods = new Map(read.messages.map(({ id, method }) => [id, method]));
    const answered = await this.#decide(read, exchange, body);
    if (exchange.gone.aborted) {
      // The server has not seen them.
      exchange.held.end('failed');
      return;
    }
    const own = [...answered.values()].map(({ message }) => message);
    const left = read.messages.filter((message) => !answered.has(message));
    if (left.length === 0) {
      if (read.isBatch) return sendJson(exchange.response, 200, own);
      return this.#refuse(exchange, [...answered.values()][0] as RequestRefusal);
    }
    const context = this.#contextOf(exchange, (left.find(isToolList) ?? left[0])?.['params']);
    for (const each of left) if (isToolList(each)) this.#options.views.ask(context.view, cursorOf(each));
    const sent = this.#options.forwardsPassport ? left : left.map(withoutPassport);
    const isChanged = own.length > 0 || sent.some((message, index) => message !== left[index]);
    const bytes = isChanged ? Buffer.from(JSON.stringify(read.isBatch ? sent : sent[0])) : body;
    await this.#answer(exchange, await this.#send(exchange, bytes), context, own);
  }

  /** A client that may get another token learns that from the status. */
  #refuse({ response }: Exchange, { message, invalidToken }: RequestRefusal): void {
    const { resource } = this.#options;
    const isLed = resource !== null && invalidToken !== null;
    if (isLed) response.setHeader('www-authenticate', resource.challenge(invalidToken));
    sendJson(response, isLed ? 401 : 200, message);
  }

  /** The refused requests, each with the client's answer. */
  async #decide(
    { messages }: ClientMessages,
    exchange: Exchange,
    body: Buffer,
  ): Promise<ReadonlyMap<JsonObject, RequestRefusal>> {
    const answered = new Map<JsonObject, RequestRefusal>();
    const sender = {
      shown: exchange.shown,
      view: this.#viewOf(exchange),
      carrier: this.#carrierOf(exchange, body),
      held: exchange.held,
    };
    await Promise.all(
      messages.filter(isDecided).map(async (message) => {
        const refused = await this.#options.requests.answerTo(message, sender);
        if (refused !== null) answered.set(message, refused);
      }),
    );
    return answered;
  }

  #carrierOf({ request }: Exchange, body: Buffer): Sender['carrier'] {
    const { publicUrl } = this.#options;
    if (publicUrl === null) return undefined;
    const path = publicUrl.pathname + searchOf(request);
    return { method: 'POST', path, body: { kind: 'read', value: body } };
  }

  #contextOf(exchange: Exchange, params: unknown = null): AnswerContext {
    return {
      shown: withMeta(params, exchange.shown),
      view: this.#viewOf(exchange),
      methodOf: (id) => exchange.methods.get(id) as string | undefined,
      held: exchange.held,
    };
  }

  /** Whether this `Authorization` is for the gate, and not for the server. */
  #isPassport(authorization: string): boolean {
    return (
      /^passport(?:\s|$)/i.test(authorization) || this.#options.resource?.isToken(authorization) === true
    );
  }

  /** The client as its server tells it from others: by its session, and its credential there. */
  #viewOf({ request }: Exchange): string {
    const { 'mcp-session-id': session = '', authorization = '' } = request.headers;
    return sha256Hex(JSON.stringify([session, this.#isPassport(authorization) ? '' : authorization]));
  }

  #send({ request, gone }: Exchange, body: Buffer | null, own?: SentByProxy): Promise<IncomingMessage> {
    const { forwardsPassport } = this.#options;
    const isDropped = (name: string, value: string): boolean =>
      name === 'host' ||
      name === 'content-length' ||
      name === 'expect' ||
      name === 'accept-encoding' ||
      (own !== undefined && ownNames.has(name)) ||
      (!forwardsPassport &&
        (name === 'x-agent-passport' || (name === 'authorization' && this.#isPassport(value))));
    const headers = passedHeaders(request, isDropped);
    headers.push('Host', this.#upstream.host);
    // Whatever it is, it is looked at.
    headers.push('Accept-Encoding', 'identity');
    if (own !== undefined) headers.push(...own.headers);
    if (body !== null) headers.push('Content-Length', String(body.length));
    const method = own?.method ?? request.method ?? '';
    return this.#upstream.send({
      method,
      search: searchOf(request),
      headers,
      body,
      signal: own?.signal ?? gone,
    });
  }

  /** Neither JSON nor a stream, so that no client finds a message in it. */
  async #copy({ response }: Exchange, answer: IncomingMessage): Promise<void> {
    response.writeHead(answer.statusCode ?? 502, answer.statusMessage, answeredHeaders(answer));
    response.flushHeaders();
    let left = this.#held.messageBytesMax;
    await pipeline(
      answer,
      async function* (source) {
        for await (const chunk of source) {
          left -= chunk.length;
          if (left < 0) throw new AnswerTooLarge('an answer is too large');
          yield chunk;
        }
      },
      response,
    );
  }

  /** `own`: the answers to the requests that were refused in a batch. */
  async #answer(
    exchange: Exchange,
    answer: IncomingMessage,
    context: AnswerContext,
    own: readonly JsonObject[],
  ): Promise<void> {
    const status = answer.statusCode ?? 502;
    const kind = kindOf(answer);
    if (kind === 'stream') return this.#stream(exchange, answer, context, own);
    if (status === 202 && own.length > 0) {
      answer.resume();
      return sendJson(exchange.response, 200, own);
    }
    if (kind === 'other' || exchange.request.method === 'HEAD') return this.#copy(exchange, answer);
    refuseCompressed(answer);
    const room = this.#held.open();
    try {
      const text = await readAnswer(answer, room.take);
      if (text === '' && own.length === 0) return sendRest(exchange.response, answer, '');
      const { toClient, toServer } = await this.#look(text, context);
      for (const message of toServer) this.#tellServer(exchange, message);
      sendRest(exchange.response, answer, withOwn(toClient, status >= 300 ? [] : own));
    } catch (error) {
      if (!(error instanceof AnswerTooLarge)) throw error;
      answer.destroy();
      const { id } = exchange;
      if (id === null || id === undefined) throw new UpstreamError(502, error.message);
      sendJson(exchange.response, 200, errorMessage(id, refusedCode, error.message));
    } finally {
      room.free();
    }
  }

  async #stream(
    exchange: Exchange,
    answer: IncomingMessage,
    context: AnswerContext,
    own: readonly JsonObject[],
  ): Promise<void> {
    refuseCompressed(answer);
    const { response, id } = exchange;
    const headers = answeredHeaders(answer, (name) => name === 'content-length');
    response.writeHead(answer.statusCode ?? 502, answer.statusMessage, headers);
    response.flushHeaders();
    for (const message of own) response.write(eventOf(message));
    const look = async (text: string): Promise<string | null> => {
      const { toClient, toServer } = await this.#look(text, context).catch((error: unknown) => {
        // No client reads it either.
        if (error instanceof UpstreamError) return { toClient: null, toServer: [] };
        throw error;
      });
      for (const message of toServer) this.#tellServer(exchange, message);
      return toClient;
    };
    const events = filterEvents(answer, { look, held: this.#held });
    const { logger } = this.#options;
    await pipeline(async function* () {
      try {
        yield* events;
      } catch (error) {
        if (!(error instanceof AnswerTooLarge) || id === null || id === undefined) throw error;
        logger.warn({ err: error }, 'an answer of the MCP server was cut off');
        yield Buffer.from(eventOf(errorMessage(id, refusedCode, error.message)));
      }
    }, response);
  }

  #look(text: string, context: AnswerContext) {
    return this.#options.answers.look(text, context).catch((cause: unknown) => {
      if (!(cause instanceof SyntaxError)) throw cause;
      throw new UpstreamError(502, 'The MCP server answers with what is not JSON.', cause);
    });
  }

  /** The refusal of what the server has asked of the client. */
  #tellServer(exchange: Exchange, message: JsonObject): void {
    const bytes = Buffer.from(JSON.stringify(message));
    const headers = ['Content-Type', 'application/json', 'Accept', 'application/json, text/event-stream'];
    const signal = AbortSignal.timeout(this.#options.answerMsMax);
    this.#send(exchange, bytes, { method: 'POST', headers, signal })
      .then((answer) => answer.destroy())
      .catch((error: unknown) => {
        this.#options.logger.warn({ err: error }, 'the MCP server was not told of a refusal');
      });
  }

  async #readBody(request: IncomingMessage): Promise<Buffer> {
    const chunks: Buffer[] = [];
    let bytes = 0;
    try {
      // Not destroyed with the loop: its sender is still to be answered.
      for await (const chunk of request.iterator({ destroyOnReturn: false })) {
        bytes += chunk.length;
        this.#bufferedBytes += chunk.length;
        chunks.push(chunk);
        if (bytes > proxyLimits.messageBytesMax) {
          throw new Refusal(413, `A message has at most ${proxyLimits.messageBytesMax} bytes.`);
        }
        if (this.#bufferedBytes > proxyLimits.bufferedBytesMax) {
          throw new Refusal(503, 'Too many messages at once. Try again later.', internalError);
        }
      }
      return Buffer.concat(chunks);
    } catch (error) {
      this.#bufferedBytes -= bytes;
      throw error;
    }
  }

  #answerError({ request, response, gone, id }: Exchange, error: unknown): void {
    const isGone = gone.aborted || (request.destroyed && !request.complete);
    if (isGone || response.headersSent) {
      // Cut off, so that the client does not take what it has for the whole.
      if (!isGone) this.#options.logger.warn({ err: error }, 'an answer of the MCP server broke off');
      response.destroy();
      return;
    }
    const isKnown = error instanceof Refusal || error instanceof UpstreamError;
    if (!isKnown || error instanceof UpstreamError) {
      this.#options.logger.error({ err: error }, 'a request could not be passed on');
    }
    const status = isKnown ? error.status : 500;
    const code = error instanceof Refusal ? error.code : internalError;
    const message = isKnown ? error.message : 'The proxy has failed.';
    // What is not read of the request any more must not be read as the next one.
    if (!request.complete) response.shouldKeepAlive = false;
    if (status === 503) response.setHeader('retry-after', '1');
    if (status === 405) response.setHeader('allow', 'POST, GET, DELETE, OPTIONS, HEAD');
    const text = error instanceof Refusal ? error.text : null;
    sendText(response, status, text ?? JSON.stringify(errorMessage(id, code, message)));
  }
}

/** A body that is not read here as the server reads it. */
function refuseEncoded({ headers }: IncomingMessage): void {
  const { 'content-type': type = '', 'content-encoding': encoding = 'identity' } = headers;
  if (!/^application\/json\s*(?:;\s*charset="?utf-8"?\s*)?$/i.test(type)) {
    throw new Refusal(415, 'The Content-Type is application/json in UTF-8.');
  }
  if (encoding.toLowerCase() !== 'identity') throw new Refusal(415, 'The body is not compressed.');
}

/** Headers that repeat the message (protocol revision 2026-07-28) say the same as it. */
function refuseMismatch({ headers }: IncomingMessage, { messages, isBatch }: ClientMessages): void {
  const { 'mcp-method': method, 'mcp-name': name } = headers;
  const [message] = messages;
  if (isBatch || message === undefined) {
    if (method === undefined && name === undefined) return;
    throw new Refusal(400, 'A batch has no header Mcp-Method.', headerMismatch);
  }
  if (method !== undefined && method !== message['method']) {
    throw new Refusal(400, 'The header Mcp-Method is not the method of the message.', headerMismatch);
  }
  const meant = nameIn(message);
  if (name !== undefined && meant !== null && decodeHeader(String(name)) !== meant) {
    throw new Refusal(400, 'The header Mcp-Name is not the name in the message.', headerMismatch);
  }
}

/** The tool, resource or prompt. Null: none, or not of a method that is decided. */
function nameIn(message: JsonObject): string | null {
  if (isToolCall(message)) return message.params.name;
  const as = guardedMethod(clientMethods, message);
  return as === null || as.subject === null ? null : subjectOf(as, message['params']);
}

function decodeHeader(value: string): string {
  const [, base64] = /^=\?base64\?(.*)\?=$/.exec(value) ?? [];
  return base64 === undefined ? value : Buffer.from(base64, 'base64').toString('utf8');
}

/** A request of the proxy to the server, with the credentials of the exchange. */
interface SentByProxy {
  readonly method: 'POST';
  readonly headers: readonly string[];
  readonly signal: AbortSignal;
}

/** Headers of a message, which are those of the proxy's own. */
const ownNames: ReadonlySet<string> = new Set([
  'accept',
  'content-type',
  'last-event-id',
  'mcp-method',
  'mcp-name',
]);

const searchOf = ({ url = '' }: IncomingMessage): string =>
  url.includes('?') ? url.slice(url.indexOf('?')) : '';

const cursorOf = ({ params }: JsonObject): unknown => (isJsonObject(params) ? params['cursor'] : undefined);
