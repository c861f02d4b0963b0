import { Agent, type ClientRequest, type IncomingMessage, request } from 'node:http';
import { Agent as TlsAgent, request as tlsRequest } from 'node:https';
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

  /** `answerMsMax`: until its answer begins. A stream that has begun may go on for ever. */
  constructor(url: URL, options: { readonly answerMsMax: number }) {
    this.#url = url;
    this.#answerMsMax = options.answerMsMax;
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
   * Resolves when the answer begins; rejects with UpstreamError where none does. The signal ends the request,
   * also in its answer. The query is that of the server's own address, else that of the client.
   */
  send(options: {
    readonly method: string;
    readonly search: string;
    /** Names and values in turn, `Host` and lengths included. */
    readonly headers: readonly string[];
    readonly body: Buffer | null;
    readonly signal: AbortSignal;
  }): Promise<IncomingMessage> {
    const { method, search, headers, body, signal } = options;
    return new Promise((resolve, reject) => {
      const sent: ClientRequest = this.#request({
        protocol: this.#url.protocol,
        hostname: this.#url.hostname.replace(/^\[(.*)\]$/, '$1'),
        port: this.#url.port,
        path: this.#url.pathname + (this.#url.search || search),
        agent: this.#agent,
        method,
        headers,
      });
      const late = new UpstreamError(
        504,
        `The MCP server has not answered within ${this.#answerMsMax / 1_000} s.`,
      );
      const deadline = setTimeout(() => sent.destroy(late), this.#answerMsMax);
      const abort = () => sent.destroy(new Error('the client has disconnected'));
      signal.addEventListener('abort', abort, { once: true });
      sent.once('close', () => signal.removeEventListener('abort', abort));
      sent.once('response', (answer) => {
        clearTimeout(deadline);
        resolve(answer);
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
