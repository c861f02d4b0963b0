import { randomUUID } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import type { ByteStream, CallOptions, List } from './call-options.ts';
import { type AgentTrustError, ConnectionError, errorOf, ServiceError } from './errors.ts';
import { type Resources, resources } from './generated/api.ts';
import {
  type Call,
  deadlineOf,
  type Outcome,
  retryAfterMs,
  segment,
  Transport,
  textSegment,
  traceHeaders,
} from './transport.ts';
import { wholeExport } from './whole-export.ts';

export interface AgentTrustOptions {
  /** Origin of the control plane. Default `http://127.0.0.1:8080`. */
  readonly url?: string;
  readonly apiKey: string;
  /** Of each call with its retries, in milliseconds, 1 to a day. Default 30,000; an export has an hour. */
  readonly deadlineMs?: number;
  /** How often a call is repeated at most where that is safe, 0 to 5. Default 2. */
  readonly retriesMax?: number;
}

/** Status and headers of an answer. */
export interface ResponseInfo {
  readonly status: number;
  readonly request_id: string | null;
  /** Names in lower case: `etag`, `idempotent-replayed`, `x-ratelimit-remaining`, … */
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
}

const responses = new WeakMap<object, ResponseInfo>();

/** Of an object that a method of `AgentTrust` returned, or a page. Throws TypeError for any other object. */
export function responseOf(answer: object): ResponseInfo {
  const info = responses.get(answer);
  if (info === undefined) throw new TypeError('this object was not returned by a call of AgentTrust');
  return info;
}

interface AllOptions extends CallOptions {
  readonly idempotencyKey?: string;
  readonly ifMatch?: string;
  readonly ifNoneMatch?: string;
}
type Query = Readonly<Record<string, string | number | undefined>>;

/** One call, as a method of a resource was called. */
interface Asked {
  readonly method: string;
  readonly path: string;
  readonly flags: ReadonlySet<string>;
  readonly body: unknown;
  readonly query: Query;
  readonly options: AllOptions;
}

const deadlineMsDefault = 30_000;
const exportMsDefault = 60 * 60 * 1_000;
const retriesMaxMost = 5;
const pauseMs = 250;

/**
 * The control plane: every operation of the API is a method of a resource. A refusal is thrown as an
 * `AgentTrustError` of the class of its status, a missing answer as a `ConnectionError`.
 *
 * A call is repeated, after `Retry-After` or a growing pause, if it never reached the service, after 429, and
 * after a lost connection or 503 if it reads, creates under an idempotency key, or asks for a decision under
 * one. Creating calls get a random idempotency key each. Nothing else is repeated: the service may have done
 * it.
 */
export class AgentTrust implements Resources {
  readonly passports: Resources['passports'];
  readonly owners: Resources['owners'];
  readonly gates: Resources['gates'];
  readonly catalogs: Resources['catalogs'];
  readonly decisions: Resources['decisions'];
  readonly authzen: Resources['authzen'];
  readonly approvals: Resources['approvals'];
  readonly mcpPins: Resources['mcpPins'];
  readonly standingApprovals: Resources['standingApprovals'];
  readonly outcomes: Resources['outcomes'];
  readonly holds: Resources['holds'];
  readonly wallets: Resources['wallets'];
  readonly attestations: Resources['attestations'];
  readonly audit: Resources['audit'];
  readonly issuers: Resources['issuers'];
  readonly templates: Resources['templates'];
  readonly apiKeys: Resources['apiKeys'];
  readonly accounts: Resources['accounts'];
  readonly channels: Resources['channels'];
  readonly webhooks: Resources['webhooks'];
  readonly signingKeys: Resources['signingKeys'];
  readonly service: Resources['service'];
  readonly #transport: Transport;
  readonly #deadlineMs: number | null;
  readonly #retriesMax: number;

  /** Throws TypeError for options that cannot be used. */
  constructor(options: AgentTrustOptions) {
    const { url = 'http://127.0.0.1:8080', apiKey, deadlineMs, retriesMax = 2 } = options;
    this.#transport = new Transport(url, apiKey);
    this.#deadlineMs = deadlineMs === undefined ? null : deadlineOf(deadlineMs);
    if (!Number.isInteger(retriesMax) || retriesMax < 0 || retriesMax > retriesMaxMost) {
      throw new TypeError(`retriesMax must be 0 to ${retriesMaxMost}`);
    }
    this.#retriesMax = retriesMax;
    this.passports = this.#resource('passports');
    this.owners = this.#resource('owners');
    this.gates = this.#resource('gates');
    this.catalogs = this.#resource('catalogs');
    this.decisions = this.#resource('decisions');
    this.authzen = this.#resource('authzen');
    this.approvals = this.#resource('approvals');
    this.mcpPins = this.#resource('mcpPins');
    this.standingApprovals = this.#resource('standingApprovals');
    this.outcomes = this.#resource('outcomes');
    this.holds = this.#resource('holds');
    this.wallets = this.#resource('wallets');
    this.attestations = this.#resource('attestations');
    this.audit = this.#resource('audit');
    this.issuers = this.#resource('issuers');
    this.templates = this.#resource('templates');
    this.apiKeys = this.#resource('apiKeys');
    this.accounts = this.#resource('accounts');
    this.channels = this.#resource('channels');
    this.webhooks = this.#resource('webhooks');
    this.signingKeys = this.#resource('signingKeys');
    this.service = this.#resource('service');
  }

  /** Closes its connections. Calls in flight fail. */
  close(): void {
    this.#transport.close();
  }

  #resource<Name extends keyof Resources>(name: Name): Resources[Name] {
    const methods = Object.entries<readonly [string, string, string]>(resources[name]).map(
      ([method, operation]) =>
        [method, (...args: unknown[]) => this.#call(askedOf(operation, args))] as const,
    );
    // The table and the types are written by the same generator, which a test holds against the document.
    return Object.fromEntries(methods) as unknown as Resources[Name];
  }

  #call(asked: Asked): unknown {
    if (asked.flags.has('list'))
      return new PagedList((query) => this.#json({ ...asked, query }), asked.query);
    return asked.flags.has('stream') ? this.#stream(asked) : this.#json(asked);
  }

  async #json(asked: Asked): Promise<unknown> {
    const outcome = await this.#transport.exchange(this.#callOf(asked, deadlineMsDefault));
    if (outcome.kind === 'failed') throw lost(asked, outcome);
    const { status, headers, text } = outcome;
    if (status === 304) return null;
    const isReport = asked.flags.has('status') && status === 503;
    if (![200, 201, 202].includes(status) && !isReport) throw refusal(status, headers, text);
    if (asked.flags.has('text')) return text;
    const value = parse(text);
    if (value === null) throw refusal(status, headers, text);
    responses.set(value, { status, request_id: requestIdOf(headers), headers });
    return value;
  }

  async #stream(asked: Asked): Promise<ByteStream> {
    const opened = await this.#transport.open(this.#callOf(asked, exportMsDefault));
    if (opened.kind === 'failed') throw lost(asked, opened);
    const { message, release } = opened;
    const { statusCode: status = 0, headers } = message;
    if (status === 200) return wholeExport(bytesOf(message, release), asked.query['format']);
    // A refusal is short. A longer body is cut off and then counts as no answer of this service.
    const chunks: Buffer[] = [];
    for await (const chunk of message) if (chunks.push(chunk) > 16) break;
    release();
    throw refusal(status, headers, Buffer.concat(chunks).toString());
  }

  #callOf({ method, path, flags, body, query, options }: Asked, deadlineMs: number): Call {
    const search = new URLSearchParams(
      Object.entries(query).flatMap(([name, value]): [string, string][] =>
        value === undefined ? [] : [[name, String(value)]],
      ),
    ).toString();
    const creates = flags.has('creates');
    return {
      method,
      path: search === '' ? path : `${path}?${search}`,
      headers: {
        ...traceHeaders(options),
        ...(creates ? { 'idempotency-key': options.idempotencyKey ?? randomUUID() } : {}),
        ...(options.ifMatch === undefined ? {} : { 'if-match': options.ifMatch }),
        ...(options.ifNoneMatch === undefined ? {} : { 'if-none-match': options.ifNoneMatch }),
      },
      // A POST without a body needs one where the operation has an optional one.
      ...(flags.has('body') ? { body: JSON.stringify(body ?? {}) } : {}),
      deadlineAt: performance.now() + deadlineOf(options.deadlineMs ?? this.#deadlineMs ?? deadlineMs),
      signal: options.signal,
      retriesMax: flags.has('status') ? 0 : this.#retriesMax,
      pauseMs,
      isIdempotent: method === 'GET' || creates || isKeyedDecision(body),
    };
  }
}

/** `request.idempotency_key` of a decision, or of all of a batch (contract §5). */
function isKeyedDecision(body: unknown): boolean {
  const { request, checks } = (body ?? {}) as { readonly request?: unknown; readonly checks?: unknown };
  const requests = Array.isArray(checks) ? checks.map((check) => check?.request) : [request];
  return requests.every((each) => typeof each?.idempotency_key === 'string');
}

/** Arguments in order: the ids of the path, body and query if the operation has one, options. */
function askedOf([method, template, words]: readonly [string, string, string], args: unknown[]): Asked {
  const flags = new Set(words.split(' '));
  const path = template.replaceAll(/\{(\w+)\}/g, (_whole, name: string) => {
    const text = String(args.shift());
    return name === 'owner' || name === 'hash' ? textSegment(text) : segment(text);
  });
  const body = flags.has('body') ? args.shift() : undefined;
  const query = (flags.has('query') ? args.shift() : undefined) as Query | undefined;
  const options = args.shift() as AllOptions | undefined;
  return { method, path, flags, body, query: query ?? {}, options: options ?? {} };
}

interface Page {
  readonly next_cursor?: string | null;
  readonly total?: number;
  readonly offset?: number;
}

class PagedList implements List<unknown, unknown> {
  readonly #fetch: (query: Query) => Promise<unknown>;
  readonly #query: Query;

  constructor(fetch: (query: Query) => Promise<unknown>, query: Query) {
    this.#fetch = fetch;
    this.#query = query;
  }

  // biome-ignore lint/suspicious/noThenProperty: awaiting a list is its first page, as its interface says
  then<Result1, Result2>(
    resolved?: ((page: unknown) => Result1 | PromiseLike<Result1>) | null,
    rejected?: ((reason: unknown) => Result2 | PromiseLike<Result2>) | null,
  ): Promise<Result1 | Result2> {
    return this.#fetch(this.#query).then(resolved, rejected);
  }

  async *pages(): AsyncGenerator<unknown> {
    for (let query: Query | null = this.#query; query !== null; ) {
      const page = (await this.#fetch(query)) as Page;
      yield page;
      query = nextQuery(query, page);
    }
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<unknown> {
    for await (const page of this.pages()) yield* itemsOf(page as Page);
  }
}

/** A page has one array of items, under the name of its kind. */
const itemsOf = (page: Page): readonly unknown[] => Object.values(page).find(Array.isArray) ?? [];

function nextQuery(query: Query, page: Page): Query | null {
  if (page.next_cursor !== undefined) {
    const { offset: _, ...rest } = query;
    return page.next_cursor === null ? null : { ...rest, cursor: page.next_cursor };
  }
  const count = itemsOf(page).length;
  const offset = (page.offset ?? 0) + count;
  return count === 0 || offset >= (page.total ?? 0) ? null : { ...query, offset };
}

async function* bytesOf(message: AsyncIterable<Uint8Array>, release: () => void): AsyncGenerator<Uint8Array> {
  try {
    yield* message;
  } finally {
    release();
  }
}

/** The JSON object of a success; null for anything else. */
function parse(text: string): object | null {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' ? value : null;
  } catch {
    // Not JSON.
    return null;
  }
}

const requestIdOf = (headers: IncomingHttpHeaders): string | null => {
  const id = headers['x-request-id'];
  return typeof id === 'string' ? id : null;
};

const refusal = (status: number, headers: IncomingHttpHeaders, text: string): AgentTrustError =>
  errorOf({ status, text, requestId: requestIdOf(headers), retryAfterMs: retryAfterMs(headers) });

function lost(
  { method, path }: Asked,
  { code, cause }: Extract<Outcome, { kind: 'failed' }>,
): AgentTrustError {
  const ErrorClass = code === 'bad_answer' ? ServiceError : ConnectionError;
  return new ErrorClass(`${method} ${path}: ${cause instanceof Error ? cause.message : code}`, {
    code,
    cause,
  });
}
