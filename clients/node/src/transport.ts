import {
  Agent,
  type ClientRequest,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type RequestOptions,
  request,
} from 'node:http';
import { Agent as TlsAgent, request as tlsRequest } from 'node:https';
import type { CallOptions } from './call-options.ts';

/** Of one answer: 500 attestations, or 200 deliveries of 64 KiB each with their attempts. */
const answerBytesMax = 32 * 1024 * 1024;
/**
 * An idle connection is closed on our side first, so that no request meets a connection that the server is
 * just closing: the sidecar does so after 10 s, node:http after 5 s.
 */
const idleMsMax = 4_000;
/** Beyond it, requests wait for a connection within their deadline. */
const connectionsMax = 128;

export interface Call {
  readonly method: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** JSON. */
  readonly body?: string;
  /** By `performance.now()`. */
  readonly deadlineAt: number;
  readonly signal?: AbortSignal | undefined;
  /** At most this many further attempts. */
  readonly retriesMax: number;
  /**
   * Of the first pause in milliseconds; each further one is twice as long, and up to half of it is random.
   */
  readonly pauseMs: number;
  /** Whether it may be sent again although its first copy may have had an effect. */
  readonly isIdempotent: boolean;
  /** Whether a 503 says that nothing happened, as it does for a decision (contract §5). */
  readonly isVoidAt503?: boolean;
}

interface Answer {
  readonly kind: 'answer';
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
}

interface Failure {
  readonly kind: 'failed';
  readonly code: 'timeout' | 'connection_failed' | 'bad_answer';
  /** True where no byte of the request can have reached the server. */
  readonly isUnsent: boolean;
  readonly cause: unknown;
}

export type Outcome = Answer | Failure;

/** One service, reached over connections that are kept open. Holds the API key and never exposes it. */
export class Transport {
  readonly #origin: URL;
  readonly #authorization: string;
  readonly #agent: Agent;
  readonly #request: typeof request;

  /** Throws TypeError, which does not contain the key, for an address or a key that cannot be used. */
  constructor(url: string, apiKey: string, maxSockets = connectionsMax) {
    this.#origin = originOf(url);
    if (!/^[\x21-\x7e]+$/.test(apiKey)) throw new TypeError('apiKey must be a key of agent-trust (at_…)');
    this.#authorization = `Bearer ${apiKey}`;
    const isTls = this.#origin.protocol === 'https:';
    const options = {
      keepAlive: true,
      timeout: idleMsMax,
      maxSockets,
      scheduling: 'lifo',
    } as const;
    this.#agent = isTls ? new TlsAgent(options) : new Agent(options);
    this.#request = isTls ? tlsRequest : request;
  }

  get origin(): string {
    return this.#origin.origin;
  }

  /** Closes every connection; calls in flight fail. */
  close(): void {
    this.#agent.destroy();
  }

  /** Resolves to the outcome, after safe retries. Rejects only for an abort. */
  async exchange(
    call: Call,
    ask: (call: Call) => Promise<Outcome> = (each) => this.#attempt(each),
  ): Promise<Outcome> {
    for (let attempt = 0; ; attempt++) {
      const outcome = inTime(call, await ask(call));
      if (attempt >= call.retriesMax || !mayRepeat(call, outcome)) return outcome;
      const backoffMs = call.pauseMs * 2 ** attempt * (1 - Math.random() / 2);
      const waitMs = (outcome.kind === 'answer' ? retryAfterMs(outcome.headers) : null) ?? backoffMs;
      if (performance.now() + waitMs >= call.deadlineAt) return outcome;
      await pause(waitMs, call.signal);
    }
  }

  async #attempt(call: Call): Promise<Outcome> {
    const opened = await this.open(call);
    if (opened.kind === 'failed') return opened;
    try {
      const outcome = await readAnswer(opened.message);
      if (outcome.kind === 'failed') call.signal?.throwIfAborted();
      return outcome;
    } finally {
      opened.release();
    }
  }

  /** The request for a WebSocket at this path, not ended. Its connection is its own. */
  handshake(path: string, headers: Readonly<Record<string, string>>): ClientRequest {
    const upgrade = { connection: 'Upgrade', upgrade: 'websocket' };
    return this.#start({ method: 'GET', path, headers: { ...upgrade, ...headers } }, false);
  }

  /**
   * One attempt, up to the headers of the answer. The deadline and the signal go on to bind the body until
   * `release` is called, which the caller does when it has read enough.
   */
  open(
    call: Pick<Call, 'method' | 'path' | 'headers' | 'body' | 'deadlineAt' | 'signal'>,
  ): Promise<Failure | { readonly kind: 'open'; readonly message: IncomingMessage; release(): void }> {
    const { signal } = call;
    signal?.throwIfAborted();
    return new Promise((resolve, reject) => {
      const sent = this.#send(call);
      let answer: IncomingMessage | null = null;
      const end = (error: Error) => (answer ?? sent).destroy(error);
      const abort = () => end(new Error('aborted'));
      const expire = () => end(new DeadlineError('no answer within the deadline'));
      const timer = setTimeout(expire, Math.max(0, call.deadlineAt - performance.now()));
      signal?.addEventListener('abort', abort, { once: true });
      const release = () => {
        clearTimeout(timer);
        signal?.removeEventListener('abort', abort);
      };
      sent.once('response', (message: IncomingMessage) => {
        answer = message;
        resolve({ kind: 'open', message, release });
      });
      // Stays on: a connection that breaks while the body is read may emit its error here as well.
      sent.on('error', (cause) => {
        release();
        if (signal?.aborted === true) reject(signal.reason);
        else resolve(failureOf(cause));
      });
    });
  }

  #send({
    method,
    path,
    headers = {},
    body,
  }: Pick<Call, 'method' | 'path' | 'headers' | 'body'>): ClientRequest {
    const content =
      body === undefined
        ? // A POST without a body says so: the sidecar takes exactly one Content-Length.
          { ...(method === 'POST' ? { 'content-length': 0 } : {}) }
        : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) };
    return this.#start({ method, path, headers: { ...content, ...headers } }, this.#agent).end(body);
  }

  #start({ headers, ...options }: RequestOptions, agent: Agent | false): ClientRequest {
    return this.#request({
      protocol: this.#origin.protocol,
      hostname: this.#origin.hostname.replace(/^\[(.*)\]$/, '$1'),
      port: this.#origin.port,
      agent,
      ...options,
      headers: { accept: 'application/json', authorization: this.#authorization, ...headers },
    });
  }
}

const traceForm = /^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(?:-[\x21-\x7e]{0,72})?$/;

/** What a header can hold, of the length that every party passes on (W3C Trace Context §3.3.1.5). */
const stateForm = /^[\x20-\x7e]{1,512}$/;

/** The headers of a trace. One that is not valid is left out, because it must not fail the call. */
export const traceHeaders = ({ traceparent, tracestate }: CallOptions): Readonly<Record<string, string>> =>
  traceparent === undefined || !traceForm.test(traceparent)
    ? {}
    : { traceparent, ...(tracestate !== undefined && stateForm.test(tracestate) && { tracestate }) };

/** An id as a part of a path. Throws TypeError for text that is no id and could change the path. */
export function segment(id: string): string {
  if (/^[\w-]{1,128}$/.test(id)) return id;
  throw new TypeError('an id is 1 to 128 letters, digits, "_" and "-"');
}

/** A name or a hash as a part of a path. Throws TypeError for text that could change the path. */
export function textSegment(text: string): string {
  if (text.length >= 1 && text.length <= 256 && !/^\.{1,2}$/.test(text)) return encodeURIComponent(text);
  throw new TypeError('a name in an address is 1 to 256 characters, and neither "." nor ".."');
}

const dayMs = 24 * 60 * 60 * 1_000;

/** The deadline as given. Throws TypeError for what no timer takes. */
export function deadlineOf(deadlineMs: number): number {
  if (deadlineMs >= 1 && deadlineMs <= dayMs) return deadlineMs;
  throw new TypeError(`deadlineMs must be 1 to ${dayMs}`);
}

class DeadlineError extends Error {}
class TooLargeError extends Error {}

/** `url` with or without a closing `/v1`, as `{base_url}` of the documents has it. */
function originOf(url: string): URL {
  const address = URL.canParse(url) ? new URL(url) : null;
  const isOrigin = address !== null && /^\/(?:v1\/?)?$/.test(address.pathname) && address.search === '';
  if (
    !isOrigin ||
    !/^https?:$/.test(address.protocol) ||
    address.username !== '' ||
    address.password !== ''
  ) {
    throw new TypeError('url must be an http or https origin, such as http://127.0.0.1:8090');
  }
  return address;
}

/** A process that was stopped finds an answer in its socket after the deadline, before its timers run. */
function inTime({ deadlineAt }: Call, outcome: Outcome): Outcome {
  if (outcome.kind === 'failed' || performance.now() < deadlineAt) return outcome;
  return failureOf(new DeadlineError('no answer within the deadline'));
}

function mayRepeat(call: Call, outcome: Outcome): boolean {
  if (outcome.kind === 'failed') {
    return outcome.isUnsent || (outcome.code === 'connection_failed' && call.isIdempotent);
  }
  // A refusal by a plan limit takes nothing.
  if (outcome.status === 429) return true;
  return outcome.status === 503 && (call.isIdempotent || call.isVoidAt503 === true);
}

export function failureOf(cause: unknown): Failure {
  if (cause instanceof DeadlineError) return { kind: 'failed', code: 'timeout', isUnsent: false, cause };
  if (cause instanceof TooLargeError) return { kind: 'failed', code: 'bad_answer', isUnsent: false, cause };
  return { kind: 'failed', code: 'connection_failed', isUnsent: isConnectFailure(cause), cause };
}

/** A name with several addresses fails with all of their errors in one. */
function isConnectFailure(cause: unknown): boolean {
  if (cause instanceof AggregateError) return cause.errors.every(isConnectFailure);
  const syscall = (cause as NodeJS.ErrnoException | null)?.syscall;
  return syscall === 'connect' || syscall === 'getaddrinfo';
}

/** The whole answer, or why it is incomplete. */
export async function readAnswer(message: IncomingMessage): Promise<Outcome> {
  try {
    const text = await readAll(message);
    return { kind: 'answer', status: message.statusCode ?? 0, headers: message.headers, text };
  } catch (cause) {
    return failureOf(cause);
  }
}

async function readAll(message: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of message) {
    bytes += chunk.length;
    if (bytes > answerBytesMax) throw new TooLargeError(`the answer is larger than ${answerBytesMax} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}

/** Seconds or an HTTP date; null: the header is missing or says nothing of use. */
export function retryAfterMs(headers: IncomingHttpHeaders): number | null {
  const value = headers['retry-after'];
  if (value === undefined) return null;
  const ms = /^\d{1,6}$/.test(value) ? Number(value) * 1_000 : Date.parse(value) - Date.now();
  return Number.isNaN(ms) ? null : Math.max(0, ms);
}

function pause(durationMs: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const abort = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', abort);
      resolve();
    }, durationMs);
    if (signal?.aborted === true) abort();
    else signal?.addEventListener('abort', abort, { once: true });
  });
}
