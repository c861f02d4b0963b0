import { Agent, type ClientRequest, type IncomingMessage, request } from 'node:http';
import { Agent as TlsAgent, request as tlsRequest } from 'node:https';
import type { Logger } from '../shared/runtime/logger.ts';
import { proxyLimits } from './limits.ts';

/** Why the server has not answered. */
export class UpstreamError extends Error {
  override readonly name = 'UpstreamError';
  readonly status: 502 | 504;
  constructor(status: 502 | 504, message: string, cause?: unknown) {
    super(message, { cause });
    this.status = status;
  }
}

/** The MCP server behind the proxy. */
export class Upstream {
  readonly #url: URL;
  readonly #agent: Agent;
  readonly #request: typeof request;
  readonly #answerMsMax: number;
  readonly #logger: Logger;
  readonly #noted = new Set<string>();

  /** `answerMsMax`: until its answer begins. A stream that has begun may go on for ever. */
  constructor(url: URL, options: { readonly answerMsMax: number; readonly logger: Logger }) {
    this.#url = url;
    this.#answerMsMax = options.answerMsMax;
    this.#logger = options.logger;
    const isTls = url.protocol === 'https:';
    const agentOptions = {
      keepAlive: true,
      timeout: proxyLimits.upstreamIdleMsMax,
      maxSockets: proxyLimits.openRequestsMax,
      scheduling: 'lifo',
    } as const;
    this.#agent = isTls ? new TlsAgent(agentOptions) : new Agent(agentOptions);
    this.#request = isTls ? tlsRequest : request;
  }

  get path(): string {
    return this.#url.pathname;
  }

  get host(): string {
    return this.#url.host;
  }

  close(): void {
    this.#agent.destroy();
  }

  /**
   * Resolves when the answer begins; rejects with UpstreamError where none does, or where it leads elsewhere.
   * The signal ends the request, also in its answer. The query is that of the server's own address, else that
   * of the client. Redirects within the origin are followed with the same method and body: a client that
   * followed them would go past the proxy.
   */
  async send(options: UpstreamRequest & { readonly search: string }): Promise<IncomingMessage> {
    const deadlineAt = performance.now() + this.#answerMsMax;
    let path = this.#url.pathname + (this.#url.search || options.search);
    for (let hops = 0; ; hops += 1) {
      const answer = await this.#ask(path, options, deadlineAt);
      const target = redirectOf(answer, options.method, new URL(path, this.#url));
      if (target === null) return answer;
      discard(answer);
      if (target === 'nowhere') {
        const message = `The MCP server redirects to no address (HTTP ${answer.statusCode}).`;
        throw new UpstreamError(502, message);
      }
      if (target.origin !== this.#url.origin) {
        throw new UpstreamError(502, `The MCP server redirects elsewhere: ${startWith(target)}`);
      }
      if (hops === proxyLimits.upstreamRedirectsMax) {
        throw new UpstreamError(502, `The MCP server redirects again and again: ${startWith(target)}`);
      }
      path = target.pathname + target.search;
      this.#noteRedirect(target);
    }
  }

  /** Once for each place: it costs a journey each time. */
  #noteRedirect(target: URL): void {
    if (this.#noted.has(target.pathname) || this.#noted.size === proxyLimits.upstreamRedirectsMax) return;
    this.#noted.add(target.pathname);
    this.#logger.warn({}, `the MCP server redirects. ${startWith(target)} saves a request each time`);
  }

  #ask(path: string, asked: UpstreamRequest, deadlineAt: number): Promise<IncomingMessage> {
    const { method, headers, body, signal } = asked;
    return new Promise((resolve, reject) => {
      const sent: ClientRequest = this.#request({
        protocol: this.#url.protocol,
        hostname: this.#url.hostname.replace(/^\[(.*)\]$/, '$1'),
        port: this.#url.port,
        path,
        agent: this.#agent,
        method,
        headers,
      });
      const late = new UpstreamError(
        504,
        `The MCP server has not answered within ${this.#answerMsMax / 1_000} s.`,
      );
      const deadline = setTimeout(() => sent.destroy(late), deadlineAt - performance.now());
      const abort = () => sent.destroy(new Error('the client has disconnected'));
      signal.addEventListener('abort', abort, { once: true });
      sent.once('close', () => signal.removeEventListener('abort', abort));
      const refuse = ({ statusCode }: IncomingMessage, connection: { destroy(): unknown }) => {
        connection.destroy();
        reject(new UpstreamError(502, `The MCP server answers ${statusCode}, for which nobody has asked.`));
      };
      // Without a listener the request would wait for its deadline.
      sent.once('upgrade', (answer, socket) => {
        clearTimeout(deadline);
        refuse(answer, socket);
      });
      sent.once('response', (answer) => {
        clearTimeout(deadline);
        const { statusCode = 0 } = answer;
        if (statusCode < 200 || statusCode > 599) refuse(answer, answer);
        else resolve(answer);
      });
      // Stays on: a connection that breaks later emits its error here as well.
      sent.on('error', (cause) => {
        clearTimeout(deadline);
        reject(cause === late ? late : new UpstreamError(502, 'The MCP server cannot be reached.', cause));
      });
      if (signal.aborted) abort();
      sent.end(body ?? undefined);
    });
  }
}

interface UpstreamRequest {
  readonly method: string;
  /** Names and values in turn, `Host` and lengths included. */
  readonly headers: readonly string[];
  readonly body: Buffer | null;
  readonly signal: AbortSignal;
}

const startWith = ({ origin, pathname }: URL): string => `--upstream ${origin}${pathname}`;

/**
 * Where a client would go with this answer; null: nowhere, it is one. 303 is a GET, and no call is one. The
 * choice of 300, the proxy of 305 and what 306 once was are no address of the server.
 */
function redirectOf(answer: IncomingMessage, method: string, base: URL): URL | 'nowhere' | null {
  const { statusCode = 0, headers } = answer;
  if (statusCode < 300 || statusCode > 399 || statusCode === 304) return null;
  const { location = '' } = headers;
  const isFollowed = [301, 302, 303, 307, 308].includes(statusCode);
  const isReadable = isFollowed && location !== '' && URL.canParse(location, base.href);
  if (!isReadable || (statusCode === 303 && !['GET', 'HEAD'].includes(method))) return 'nowhere';
  return new URL(location, base.href);
}

/** Its connection is used again where little is left to read. */
function discard(answer: IncomingMessage): void {
  answer.on('error', () => undefined);
  const isShort = Number(answer.headers['content-length'] ?? Number.NaN) <= proxyLimits.discardedBytesMax;
  if (isShort) answer.resume();
  else answer.destroy();
}
