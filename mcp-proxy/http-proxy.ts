import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { pipeline } from 'node:stream/promises';
import type { JsonObject } from '../shared/crypto/json-object.ts';
import type { Logger } from '../shared/runtime/logger.ts';
import { originOf } from '../shared/runtime/settings.ts';
import { StartError } from '../shared/runtime/start-error.ts';
import { filterEvents } from './filter-events.ts';
import { type CallGuard, type Shown, withMeta, withoutPassport } from './guard-calls.ts';
import { type HideTools, toolHider } from './hide-tools.ts';
import { answeredHeaders, foreignSite, passedHeaders, repeatedHeader, type Site } from './http-headers.ts';
import { proxyLimits } from './limits.ts';
import type { ShownTools } from './permitted-tools.ts';
import {
  type ClientMessages,
  errorMessage,
  invalidRequest,
  isToolCall,
  isToolList,
  readMessages,
  refusalText,
} from './read-messages.ts';
import { Upstream, UpstreamError } from './upstream.ts';

export interface HttpProxyOptions {
  readonly upstream: URL;
  /** Until the server's answer begins, in milliseconds. */
  readonly answerMsMax: number;
  readonly host: string;
  /** 0: a free one. */
  readonly port: number;
  readonly site: Site;
  readonly guard: CallGuard;
  /** Null: every list is shown whole. */
  readonly shownTools: ((shown: Shown) => Promise<ShownTools>) | null;
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
 * Listens before an MCP server that speaks Streamable HTTP, at the same path. Calls of tools are decided, and
 * lists of tools are shortened; everything else passes as it is. Throws StartError where it cannot listen.
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
}

class GuardingProxy {
  readonly #options: HttpProxyOptions;
  readonly #upstream: Upstream;
  readonly #open = new Set<ServerResponse>();
  /** Answers to GET: streams that end when the proxy does, and are resumed elsewhere. */
  readonly #streams = new Set<ServerResponse>();
  #onDrained: () => void = () => undefined;
  #bufferedBytes = 0;
  #isDraining = false;

  constructor(options: HttpProxyOptions) {
    this.#options = options;
    this.#upstream = new Upstream(options.upstream, options);
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
    const shown: Shown = (name) => {
      const value = request.headers[name];
      return typeof value === 'string' ? value : undefined;
    };
    const exchange = { request, response, shown, gone: gone.signal, id: null };
    try {
      this.#admit(request);
      if (request.method === 'POST') await this.#post(exchange);
      else await this.#pass(exchange);
    } catch (error) {
      this.#answerError(exchange, error);
    }
  }

  #admit(request: IncomingMessage): void {
    const foreign = foreignSite(request, this.#options.site);
    if (foreign !== null) throw new Refusal(403, foreign);
    if (request.url?.split('?', 1)[0] !== this.#upstream.path) {
      throw new Refusal(404, `The MCP server is at ${this.#upstream.path}.`);
    }
    const repeated = repeatedHeader(request);
    if (repeated !== null) throw new Refusal(400, `There are two headers ${repeated}.`);
    if (this.#open.size > (this.#options.openRequestsMax ?? proxyLimits.openRequestsMax)) {
      throw new Refusal(503, 'Too many requests are open. Try again later.', internalError);
    }
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
    // A stream that is resumed may bring a list of tools that was asked for before.
    const answer = await this.#send(exchange, null, { isRead: method === 'GET' });
    this.#streams.add(exchange.response);
    if (method !== 'GET' || !isEventStream(answer)) return this.#copy(exchange, answer);
    await this.#stream(exchange, answer, this.#hider(exchange), []);
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
    const answered = await this.#decide(read, exchange.shown);
    if (exchange.gone.aborted) return;
    const own = [...answered.values()];
    const left = read.messages.filter((message) => !answered.has(message));
    if (left.length === 0) return sendJson(exchange.response, 200, read.isBatch ? own : own[0]);
    const sent = this.#options.forwardsPassport ? left : left.map(withoutPassport);
    const isChanged = own.length > 0 || sent.some((message, index) => message !== left[index]);
    const bytes = isChanged ? Buffer.from(JSON.stringify(read.isBatch ? sent : sent[0])) : body;
    const list = left.find(isToolList);
    if (list === undefined && own.length === 0) {
      return this.#copy(exchange, await this.#send(exchange, bytes, { isRead: false }));
    }
    const hide = this.#hider(exchange, list?.['params']);
    await this.#merge(exchange, await this.#send(exchange, bytes, { isRead: true }), hide, own);
  }

  /** The refused calls, each with the client's answer. */
  async #decide({ messages }: ClientMessages, shown: Shown): Promise<ReadonlyMap<JsonObject, JsonObject>> {
    const answered = new Map<JsonObject, JsonObject>();
    await Promise.all(
      messages.filter(isToolCall).map(async (message) => {
        const result = await this.#options.guard(message, shown);
        if (result !== null) answered.set(message, { jsonrpc: '2.0', id: message.id, result });
      }),
    );
    return answered;
  }

  #hider({ shown }: Exchange, params: unknown = null): HideTools {
    const { shownTools } = this.#options;
    if (shownTools === null) return async (message) => message;
    return toolHider(() => shownTools(withMeta(params, shown)));
  }

  #send(
    { request, gone }: Exchange,
    body: Buffer | null,
    { isRead }: { readonly isRead: boolean },
  ): Promise<IncomingMessage> {
    const { forwardsPassport } = this.#options;
    const isDropped = (name: string, value: string): boolean =>
      name === 'host' ||
      name === 'content-length' ||
      name === 'expect' ||
      (isRead && name === 'accept-encoding') ||
      (!forwardsPassport &&
        (name === 'x-agent-passport' || (name === 'authorization' && /^passport(?:\s|$)/i.test(value))));
    const headers = passedHeaders(request, isDropped);
    headers.push('Host', this.#upstream.host);
    if (isRead) headers.push('Accept-Encoding', 'identity');
    if (body !== null) headers.push('Content-Length', String(body.length));
    const { method = '', url = '' } = request;
    const search = url.includes('?') ? url.slice(url.indexOf('?')) : '';
    return this.#upstream.send({ method, search, headers, body, signal: gone });
  }

  /** The answer of the server, as it is. */
  async #copy({ response }: Exchange, answer: IncomingMessage): Promise<void> {
    response.writeHead(answer.statusCode ?? 502, answer.statusMessage, answeredHeaders(answer));
    response.flushHeaders();
    await pipeline(answer, response);
  }

  async #stream(
    { response }: Exchange,
    answer: IncomingMessage,
    hide: HideTools,
    own: readonly JsonObject[],
  ): Promise<void> {
    refuseCompressed(answer);
    const headers = answeredHeaders(answer, (name) => name === 'content-length');
    response.writeHead(answer.statusCode ?? 502, answer.statusMessage, headers);
    response.flushHeaders();
    for (const message of own) response.write(`event: message\ndata: ${JSON.stringify(message)}\n\n`);
    await pipeline(answer, (source) => filterEvents(source, hide), response);
  }

  /** The answer with tools hidden, and with the answers to the calls that were taken out of a batch. */
  async #merge(
    exchange: Exchange,
    answer: IncomingMessage,
    hide: HideTools,
    own: readonly JsonObject[],
  ): Promise<void> {
    const status = answer.statusCode ?? 502;
    if (isEventStream(answer)) return this.#stream(exchange, answer, hide, own);
    if (status === 202 && own.length > 0) {
      answer.resume();
      return sendJson(exchange.response, 200, own);
    }
    if (!/^application\/json\b/i.test(answer.headers['content-type'] ?? ''))
      return this.#copy(exchange, answer);
    refuseCompressed(answer);
    const bytes = await readAnswer(answer);
    const parsed = parseAnswer(bytes);
    const messages: readonly unknown[] = Array.isArray(parsed) ? parsed : [parsed];
    const shown = await Promise.all(messages.map(hide));
    const isSame = own.length === 0 && shown.every((message, index) => message === messages[index]);
    const isArray = Array.isArray(parsed) || own.length > 0;
    const isFailure = status >= 300;
    const merged = isFailure ? shown : [...shown, ...own];
    const body = isSame ? bytes : Buffer.from(JSON.stringify(isArray ? merged : merged[0]));
    const headers = answeredHeaders(answer, (name) => name === 'content-length');
    exchange.response.writeHead(status, answer.statusMessage, [
      ...headers,
      'Content-Length',
      String(body.length),
    ]);
    exchange.response.end(body);
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

const isEventStream = ({ headers }: IncomingMessage): boolean =>
  /^text\/event-stream\b/i.test(headers['content-type'] ?? '');

/** A body that is not read here as the server reads it. */
function refuseEncoded({ headers }: IncomingMessage): void {
  const { 'content-type': type = '', 'content-encoding': encoding = 'identity' } = headers;
  if (!/^application\/json\s*(?:;\s*charset="?utf-8"?\s*)?$/i.test(type)) {
    throw new Refusal(415, 'The Content-Type is application/json in UTF-8.');
  }
  if (encoding.toLowerCase() !== 'identity') throw new Refusal(415, 'The body is not compressed.');
}

function refuseCompressed({ headers }: IncomingMessage): void {
  const encoding = headers['content-encoding'] ?? 'identity';
  if (encoding.toLowerCase() === 'identity') return;
  throw new UpstreamError(502, 'The MCP server compresses a list of tools, although it was asked not to.');
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
  if (name !== undefined && isToolCall(message) && decodeHeader(String(name)) !== message.params.name) {
    throw new Refusal(400, 'The header Mcp-Name is not the tool of the message.', headerMismatch);
  }
}

function decodeHeader(value: string): string {
  const [, base64] = /^=\?base64\?(.*)\?=$/.exec(value) ?? [];
  return base64 === undefined ? value : Buffer.from(base64, 'base64').toString('utf8');
}

async function readAnswer(answer: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of answer) {
    bytes += chunk.length;
    chunks.push(chunk);
    if (bytes > proxyLimits.heldAnswerBytesMax) {
      throw new UpstreamError(502, 'The MCP server answers with a list of tools that is too large.');
    }
  }
  return Buffer.concat(chunks);
}

function parseAnswer(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString('utf8'));
  } catch (cause) {
    throw new UpstreamError(502, 'The MCP server answers with what is not JSON.', cause);
  }
}

const sendJson = (response: ServerResponse, status: number, message: unknown): void =>
  sendText(response, status, JSON.stringify(message));

function sendText(response: ServerResponse, status: number, body: string): void {
  response.writeHead(status, {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(body),
  });
  response.end(body);
}
