import type { Refusal } from './server.ts';

type FramingProblem = Extract<Refusal, 'transfer_encoding' | 'content_length'>;

const noHeaders: readonly string[] = Object.freeze([]);

/**
 * Reads the headers that matter out of one request after another: `begin`, then `see` for each header line,
 * then the fields. One pass over all lines, because only that shows a header which came twice:
 * uWebSockets.js, asked by name, returns the first only. Kept for the life of the server, so that a request
 * costs no closure; adapters use it synchronously.
 */
export class HeadReader {
  readonly #namesOf: (path: string) => readonly string[];
  #names = noHeaders;
  #authorization: string | null = null;
  #contentLength: string | null = null;
  #problem: FramingProblem | null = null;
  #headers: (string | null)[] | null = null;
  #contentType = false;
  #idempotencyKey = false;
  #host = false;
  #contentEncoding: string | null = null;
  #traceparent: string | null = null;
  #tracestate: string | null = null;
  #repeated: string | null = null;

  /** `namesOf`: the further headers to keep of a request to a path, in lower case. Default none. */
  constructor(namesOf: (path: string) => readonly string[] = () => noHeaders) {
    this.#namesOf = namesOf;
  }

  begin(path: string): void {
    this.#authorization = null;
    this.#contentLength = null;
    this.#problem = null;
    this.#contentType = false;
    this.#idempotencyKey = false;
    this.#host = false;
    this.#contentEncoding = null;
    this.#traceparent = null;
    this.#tracestate = null;
    this.#repeated = null;
    this.#names = this.#namesOf(path);
    this.#headers = this.#names.length === 0 ? null : this.#names.map(() => null);
  }

  /** Bound, to be handed over as it is. `name` is in lower case. */
  readonly see = (name: string, value: string): void => {
    if (name === 'authorization') {
      if (this.#authorization !== null) this.#repeated ??= name;
      this.#authorization = joined(this.#authorization, value);
    } else if (name === 'content-length') {
      if (this.#contentLength !== null || !isDecimal(value)) this.#problem ??= 'content_length';
      this.#contentLength = value;
    } else if (name === 'transfer-encoding') {
      this.#problem = 'transfer_encoding';
    } else if (name === 'content-type') {
      if (this.#contentType) this.#repeated ??= name;
      this.#contentType = true;
    } else if (name === 'idempotency-key') {
      if (this.#idempotencyKey) this.#repeated ??= name;
      this.#idempotencyKey = true;
    } else if (name === 'host') {
      // Named before others: it is refused everywhere.
      if (this.#host) this.#repeated = name;
      this.#host = true;
    } else if (name === 'content-encoding') {
      this.#contentEncoding = joined(this.#contentEncoding, value);
    } else if (name === 'traceparent') {
      this.#traceparent = joined(this.#traceparent, value);
    } else if (name === 'tracestate') {
      this.#tracestate = joined(this.#tracestate, value);
    }
    if (this.#headers !== null) {
      const index = this.#names.indexOf(name);
      if (index !== -1) this.#headers[index] = joined(this.#headers[index] ?? null, value);
    }
  };

  get authorization(): string {
    return this.#authorization ?? '';
  }

  /** See RequestHead. */
  get repeated(): string | null {
    return this.#repeated;
  }

  get contentEncoding(): string {
    return this.#contentEncoding ?? '';
  }

  /** See RequestHead. */
  get traceparent(): string {
    return this.#traceparent ?? '';
  }

  /** See RequestHead. */
  get tracestate(): string {
    return this.#tracestate ?? '';
  }

  /** Bytes that the body will have; 0 without the header. */
  get contentLength(): number {
    return this.#contentLength === null ? 0 : Number(this.#contentLength);
  }

  /**
   * The end of the body is not given in the one way that every server reads alike: to be refused, and the
   * connection closed.
   */
  get problem(): FramingProblem | null {
    return this.#problem;
  }

  get headers(): readonly string[] {
    return this.#headers === null ? noHeaders : this.#headers.map((value) => value ?? '');
  }
}

const joined = (before: string | null, value: string): string =>
  before === null ? value : `${before}, ${value}`;

const isDecimal = (text: string): boolean => /^[0-9]+$/.test(text);
