import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { pipeline } from 'node:stream/promises';
import { LRUCache } from 'lru-cache';
import { passportsIn } from '../clients/node/src/guard.ts';
import { sha256Hex } from '../shared/crypto/content-hash.ts';
import { isJsonObject, type JsonObject } from '../shared/crypto/json-object.ts';
import type { Logger } from '../shared/runtime/logger.ts';
import { originOf } from '../shared/runtime/settings.ts';
import { StartError } from '../shared/runtime/start-error.ts';
import { filterEvents } from './filter-events.ts';
import {
  passportError,
  refusedCode,
  type Shown,
  textWithoutToken,
  withMeta,
  withoutPassport,
} from './guard-calls.ts';
import { clientMethods, guardedMethod, subjectOf } from './guarded-methods.ts';
import { AnswerTooLarge, HeldBytes } from './held-bytes.ts';
import type { CallReports } from './held-calls.ts';
import { answeredHeaders, foreignSite, passedHeaders, repeatedHeader, type Site } from './http-headers.ts';
import { proxyLimits } from './limits.ts';
import type { AnswerContext, AnswerGuard } from './look-at-answers.ts';
import { type OpenRequest, OpenRequests } from './open-requests.ts';
import type { ProtectedResource } from './protected-resource.ts';
import {
  type ClientMessages,
  errorMessage,
  invalidRequest,
  isRequest,
  isToolCall,
  isToolList,
  readMessages,
  refusalText,
} from './read-messages.ts';
import type { AdmittedMessage, RequestGuard, RequestRefusal, Sender } from './request-guard.ts';
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
import type { Standings } from './standings.ts';
import type { ToolViews } from './tool-views.ts';
import { Upstream, UpstreamError } from './upstream.ts';
import { idAtAnEnd, type WrittenIds } from './written-ids.ts';

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
  /** Whether the passports of requests stand. */
  readonly standings: Standings;
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
  /** For each request of the client. */
  readonly error: JsonObject;
  /** What was written in a message that cannot be read. */
  readonly written: WrittenIds | null;
  constructor(
    status: number,
    message: string,
    about: { readonly code?: number; readonly error?: JsonObject; readonly written?: WrittenIds } = {},
  ) {
    super(message);
    this.status = status;
    this.error = about.error ?? { code: about.code ?? invalidRequest, message };
    this.written = about.written ?? null;
  }
}

const internalError = -32_603;
/** HeaderMismatch of protocol revision 2026-07-28. */
const mismatch = { code: -32_020 };

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

/** A session of the MCP server: whoever knows its id is not its owner. */
interface Session {
  /** Of its `initialize`: see Exchange. */
  readonly sender: string;
  readonly open: OpenRequests;
}

/** One request on its way. */
interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly shown: Shown;
  /** Aborted when the client has disconnected. */
  readonly gone: AbortSignal;
  /**
   * Of its message, for an error: null until it is read, and for a batch; undefined where nobody waits.
   */
  id: unknown;
  /** Of its passport, once that stands; '' before, and for a preflight. */
  token: string;
  /** The agent; while that is not known, and calls pass without it, the token alone. */
  sender: string;
  /** Its id is known to be of a session of this agent. */
  isInSession: boolean;
  /** Requests that wait for answers, of the session or here alone. */
  open: OpenRequests;
  begun: readonly OpenRequest[];
  /** The answer is a stream, and may go on in another one. */
  isStream: boolean;
}

class GuardingProxy {
  readonly #options: HttpProxyOptions;
  readonly #upstream: Upstream;
  readonly #held: HeldBytes;
  readonly #open = new Set<ServerResponse>();
  /** Answers to GET: streams that end when the proxy does, and are resumed elsewhere. */
  readonly #streams = new Set<ServerResponse>();
  /** By id. One that is forgotten, or that another proxy has seen begin, has to be begun anew. */
  readonly #sessions = new LRUCache<string, Session>({ max: proxyLimits.sessionsMax });
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
    const exchange: Exchange = {
      ...{ request, response, gone: gone.signal, id: null, token: '', sender: '' },
      ...{ shown: resource === null ? headers : resource.shown(headers), isInSession: false },
      ...{ open: new OpenRequests(reports), begun: [], isStream: false },
    };
    try {
      this.#admitSite(request);
      if (resource?.isAskedFor(request)) return sendText(response, 200, resource.metadata);
      this.#admit(request);
      if (request.method === 'POST') await this.#post(exchange);
      else await this.#pass(exchange);
      // An answer may still come in another stream. Where none is known, its hold ends by itself.
      leave(exchange, response.statusCode >= 400 ? 'failed' : null);
    } catch (error) {
      leave(exchange, gone.signal.aborted ? 'left' : 'failed');
      this.#answerError(exchange, error);
    }
  }

  #admitSite(request: IncomingMessage): void {
    const foreign = foreignSite(request, this.#options.site);
    if (foreign !== null) throw new Refusal(403, foreign);
  }

  #admit(request: IncomingMessage): void {
    if (request.url?.split('?', 1)[0] !== this.#upstream.path) {
      throw new Refusal(404, `The MCP server is at ${this.#upstream.path}.`);
    }
    const repeated = repeatedHeader(request);
    if (repeated !== null) throw new Refusal(400, `There are two headers ${repeated}.`);
    if (this.#open.size > (this.#options.openRequestsMax ?? proxyLimits.openRequestsMax)) {
      throw new Refusal(503, 'Too many requests are open. Try again later.', { code: internalError });
    }
  }

  /**
   * Each message shows the same passport, which stands, and a session is one of its agent. `shown`: the
   * passports of each.
   */
  async #admitAgent(exchange: Exchange, shown: readonly (readonly string[])[]): Promise<void> {
    const tokens = [...new Set(shown.flat())];
    const [token] = tokens;
    if (token === undefined || shown.some((each) => each.length === 0)) {
      throw this.#unauthorized(exchange, 'passport_missing', 'Show a passport.');
    }
    if (tokens.length > 1) {
      throw this.#unauthorized(exchange, 'passport_ambiguous', 'Show one passport, not two.');
    }
    const standing = await this.#options.standings.ask(token);
    if (standing.kind === 'ended') throw this.#unauthorized(exchange, standing.reason, standing.detail);
    if (standing.kind === 'unknown') {
      const { code, detail } = standing;
      this.#options.logger.warn({ code, detail }, 'whether a passport stands is not known');
      if (!this.#options.standings.servesUnknown) {
        throw new Refusal(503, detail, { error: passportError(503, code, detail) });
      }
    }
    exchange.token = token;
    const bearer = bearerOf(token);
    exchange.sender = standing.agent ?? bearer;
    const id = sessionOf(exchange.request);
    // What began while its agent was not known is that agent's from here on.
    if (standing.agent !== null) this.#adopt(exchange, bearer);
    if (id === undefined) return;
    const session = this.#sessions.get(id);
    if (session?.sender !== exchange.sender) {
      throw new Refusal(404, 'There is no such session. Begin one by initialize, without Mcp-Session-Id.');
    }
    exchange.isInSession = true;
    exchange.open = session.open;
  }

  #adopt({ request, sender }: Exchange, bearer: string): void {
    const id = sessionOf(request);
    if (id === undefined) {
      this.#options.views.join(this.#viewOfSender(request, bearer), this.#viewOfSender(request, sender));
      return;
    }
    const session = this.#sessions.get(id);
    if (session?.sender === bearer) this.#sessions.set(id, { ...session, sender });
  }

  /** A client that may get another token learns from the header where. */
  #unauthorized({ response }: Exchange, reason: string, detail: string): Refusal {
    this.#challenge(response, reason === 'passport_missing' ? null : reason);
    return new Refusal(401, detail, { error: passportError(401, reason, detail) });
  }

  #challenge(response: ServerResponse, reason: string | null): void {
    const { resource } = this.#options;
    response.setHeader('www-authenticate', resource === null ? 'Passport' : resource.challenge(reason));
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
    // A preflight of a browser shows nothing, and reaches nothing.
    const isPreflight = method === 'OPTIONS' && headers['access-control-request-method'] !== undefined;
    const session = sessionOf(exchange.request);
    if (!isPreflight || session !== undefined) {
      await this.#admitAgent(exchange, [passportsIn(exchange.shown)]);
    }
    // A stream that is resumed may bring answers to what was asked for before.
    const answer = await this.#send(exchange, null);
    this.#streams.add(exchange.response);
    if (method === 'DELETE' && session !== undefined && isSuccess(answer)) this.#sessions.delete(session);
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
    if (read.kind === 'unreadable') throw new Refusal(400, read.message, read);
    const { messages, isBatch } = read;
    const waiting = messages.find(isRequest);
    exchange.id = isBatch && waiting !== undefined ? null : waiting?.['id'];
    refuseMismatch(exchange.request, read);
    const shown = messages.map(({ params }) => passportsIn(withMeta(params, exchange.shown)));
    await this.#admitAgent(exchange, shown);
    const admitted = await this.#decide(read, exchange, body);
    exchange.begun = admitted.flatMap(({ open, refused }) =>
      open === null || refused !== null ? [] : [open],
    );
    // The server has not seen them.
    if (exchange.gone.aborted) return leave(exchange, 'failed');
    const refusals = admitted.flatMap(({ refused }) => (refused === null ? [] : [refused]));
    const own = refusals.map(({ message }) => message);
    const left = admitted.flatMap(({ message, refused }) => (refused === null ? [message] : []));
    if (left.length === 0) {
      if (isBatch) return sendJson(exchange.response, 200, own);
      return this.#refuse(exchange, refusals[0] as RequestRefusal);
    }
    const context = this.#contextOf(exchange, (left.find(isToolList) ?? left[0])?.['params']);
    for (const each of left) if (isToolList(each)) this.#options.views.ask(context.view, cursorOf(each));
    const { forwardsPassport } = this.#options;
    const sent = forwardsPassport ? left : left.map((each) => withoutPassport(each, exchange.token));
    const isChanged = own.length > 0 || sent.some((message, index) => message !== left[index]);
    const bytes = isChanged ? Buffer.from(JSON.stringify(isBatch ? sent : sent[0])) : body;
    const answer = await this.#send(exchange, bytes);
    if (left.some(({ method }) => method === 'initialize')) this.#beginSession(exchange, answer);
    await this.#answer(exchange, answer, context, own);
  }

  /** The server has answered `initialize`. */
  #beginSession({ sender, isInSession }: Exchange, answer: IncomingMessage): void {
    const id = sessionOf(answer);
    if (id === undefined || isInSession || !isSuccess(answer)) return;
    this.#sessions.set(id, { sender, open: new OpenRequests(this.#options.reports) });
    this.#options.views.begin(viewOfSession(id));
  }

  #refuse({ response }: Exchange, { message, invalidToken }: RequestRefusal): void {
    if (invalidToken !== null) this.#challenge(response, invalidToken);
    sendJson(response, invalidToken === null ? 200 : 401, message);
  }

  #decide(
    { messages }: ClientMessages,
    exchange: Exchange,
    body: Buffer,
  ): Promise<readonly AdmittedMessage[]> {
    const { shown, open } = exchange;
    const sender = { shown, open, view: this.#viewOf(exchange), carrier: this.#carrierOf(exchange, body) };
    return Promise.all(messages.map((message) => this.#options.requests.admit(message, sender)));
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
      open: exchange.open,
    };
  }

  /** Whether this `Authorization` is for the gate, and not for the server. */
  #isPassport(authorization: string): boolean {
    return (
      /^passport(?:\s|$)/i.test(authorization) || this.#options.resource?.isToken(authorization) === true
    );
  }

  /** The client as its server tells it from others: by its session, else by who it is here and there. */
  #viewOf({ request, sender }: Exchange): string {
    const id = sessionOf(request);
    return id === undefined ? this.#viewOfSender(request, sender) : viewOfSession(id);
  }

  #viewOfSender(request: IncomingMessage, sender: string): string {
    const { authorization = '' } = request.headers;
    const credential = this.#isPassport(authorization) ? '' : authorization;
    return sha256Hex(JSON.stringify([sender, credential]));
  }

  #send(
    { request, gone, token }: Exchange,
    body: Buffer | null,
    own?: SentByProxy,
  ): Promise<IncomingMessage> {
    const { forwardsPassport } = this.#options;
    const bare = (text: string) => (forwardsPassport ? text : textWithoutToken(text, token));
    const isDropped = (name: string, value: string): boolean =>
      name === 'host' ||
      name === 'content-length' ||
      name === 'expect' ||
      name === 'accept-encoding' ||
      (own !== undefined && ownNames.has(name)) ||
      (!forwardsPassport &&
        (name === 'x-agent-passport' || (name === 'authorization' && this.#isPassport(value))));
    const headers = passedHeaders(request, isDropped).map(bare);
    headers.push('Host', this.#upstream.host);
    // Whatever it is, it is looked at.
    headers.push('Accept-Encoding', 'identity');
    if (own !== undefined) headers.push(...own.headers);
    if (body !== null) headers.push('Content-Length', String(body.length));
    const method = own?.method ?? request.method ?? '';
    return this.#upstream.send({
      method,
      search: bare(searchOf(request)),
      headers,
      body,
      signal: own?.signal ?? gone,
    });
  }

  /** `own`: the answers to the requests that were refused in a batch. */
  async #answer(
    exchange: Exchange,
    answer: IncomingMessage,
    context: AnswerContext,
    own: readonly JsonObject[],
  ): Promise<void> {
    const status = answer.statusCode ?? 502;
    const kind = exchange.request.method === 'HEAD' ? 'other' : kindOf(answer);
    if (kind === 'stream') return this.#stream(exchange, answer, context, own);
    const room = this.#held.open();
    try {
      const text = await readAnswer(answer, room.take);
      const isEmpty = text === '';
      if (isEmpty && own.length > 0 && status < 300) return sendJson(exchange.response, 200, own);
      if (isEmpty) return sendRest(exchange.response, answer, '');
      if (kind === 'json') refuseCompressed(answer);
      const { toClient, toServer } = kind === 'json' ? await this.#look(text, context, status) : noMessage;
      for (const message of toServer) this.#tellServer(exchange, message);
      const isAnswered = toClient !== null || toServer.length > 0 || own.length > 0;
      if (!isAnswered && status < 300 && exchange.begun.length > 0) throw new UpstreamError(502, noProtocol);
      // What else it says is not for the client; the status is.
      const rest =
        toClient ??
        (status < 300 ? null : this.#errorText(exchange, { code: internalError, message: noProtocol }));
      sendRest(exchange.response, answer, withOwn(rest, status >= 300 ? [] : own));
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
    const { response, id, token } = exchange;
    exchange.isStream = true;
    const headers = answeredHeaders(answer, (name) => name === 'content-length');
    response.writeHead(answer.statusCode ?? 502, headers);
    response.flushHeaders();
    // Its client connects again, and is told why it may not.
    const unwatch = token === '' ? null : this.#options.standings.watch(token, () => response.destroy());
    response.once('close', () => unwatch?.());
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
        exchange.open.take(id);
        yield Buffer.from(eventOf(errorMessage(id, refusedCode, error.message)));
      }
    }, response);
  }

  #look(text: string, context: AnswerContext, status = 200) {
    return this.#options.answers.look(text, context).catch((cause: unknown) => {
      if (!(cause instanceof SyntaxError)) throw cause;
      if (status >= 300) return noMessage;
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
          const written = idAtAnEnd(Buffer.concat(chunks.slice(0, 1)), Buffer.alloc(0));
          throw new Refusal(413, `A message has at most ${proxyLimits.messageBytesMax} bytes.`, { written });
        }
        if (this.#bufferedBytes > proxyLimits.bufferedBytesMax) {
          throw new Refusal(503, 'Too many messages at once. Try again later.', { code: internalError });
        }
      }
      return Buffer.concat(chunks);
    } catch (error) {
      this.#bufferedBytes -= bytes;
      throw error;
    }
  }

  #answerError(exchange: Exchange, error: unknown): void {
    const { request, response, gone } = exchange;
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
    const message = isKnown ? error.message : 'The proxy has failed.';
    const refused = error instanceof Refusal ? error : null;
    // What is not read of the request any more must not be read as the next one.
    if (!request.complete) response.shouldKeepAlive = false;
    if (status === 503) response.setHeader('retry-after', '1');
    if (status === 405) response.setHeader('allow', 'POST, GET, DELETE, OPTIONS, HEAD');
    const about = refused?.error ?? { code: internalError, message };
    sendText(response, status, this.#errorText(exchange, about, refused?.written ?? null));
  }

  /**
   * What nobody waits for is told the sentence under no id: the protocol has such a body beside a status, and
   * no client takes it for an answer.
   */
  #errorText({ id }: Exchange, error: JsonObject, written: WrittenIds | null = null): string {
    const { code, message } = error as { readonly code: number; readonly message: string };
    const answers = written === null ? null : refusalText({ code, message, written });
    const isAwaited = written === null && id !== undefined;
    return answers ?? JSON.stringify({ jsonrpc: '2.0', ...(isAwaited && { id }), error });
  }
}

/** The exchange is over. `ended`: what is reported of calls without an answer; null: their holds go on. */
function leave({ begun, open, isInSession, isStream }: Exchange, ended: 'failed' | 'left' | null): void {
  for (const request of begun) open.end(request, ended, isInSession && isStream);
}

const noMessage = { toClient: null, toServer: [] };
const noProtocol = 'The MCP server answers with what is no message of the protocol.';

const isSuccess = ({ statusCode = 0 }: IncomingMessage): boolean => statusCode >= 200 && statusCode < 300;

const sessionOf = ({ headers }: IncomingMessage): string | undefined => {
  const { 'mcp-session-id': id } = headers;
  return typeof id === 'string' ? id : undefined;
};

/** No name of an agent, which begins with an id. */
const bearerOf = (token: string): string => `token ${sha256Hex(token)}`;

const viewOfSession = (id: string): string => sha256Hex(JSON.stringify(['session', id]));

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
    throw new Refusal(400, 'A batch has no header Mcp-Method.', mismatch);
  }
  if (method !== undefined && method !== message['method']) {
    throw new Refusal(400, 'The header Mcp-Method is not the method of the message.', mismatch);
  }
  const meant = nameIn(message);
  if (name !== undefined && meant !== null && decodeHeader(String(name)) !== meant) {
    throw new Refusal(400, 'The header Mcp-Name is not the name in the message.', mismatch);
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
