import type { ByteStream, List } from '../../../clients/node/src/call-options.ts';
import { type AgentTrustError, ConnectionError, errorOf } from '../../../clients/node/src/errors.ts';
import { type Resources, resources } from '../../../clients/node/src/generated/api.ts';

export { AgentTrustError } from '../../../clients/node/src/errors.ts';
export type * from '../../../clients/node/src/generated/api.ts';

export type Mode = 'live' | 'test';

/** In browsers a list is one page and an export is the answer itself; all else is as for Node.js. */
type Answer<R> =
  R extends List<unknown, infer Page> ? Promise<Page> : R extends Promise<ByteStream> ? Promise<Response> : R;
type Browser<T> = {
  readonly [K in keyof T]: T[K] extends (...args: infer A) => infer R ? (...args: A) => Answer<R> : never;
};
export type Api = { readonly [K in keyof Resources]: Browser<Resources[K]> };

export interface CallOptions {
  readonly signal?: AbortSignal;
  readonly ifMatch?: string;
  readonly idempotencyKey?: string;
}

interface Call extends CallOptions {
  readonly method: string;
  readonly path: string;
  readonly body?: unknown;
  readonly query?: Readonly<Record<string, string | number | undefined>> | undefined;
}

/** Longer than the service ever waits, so that a lost answer ends as an error and not as a spinner. */
const deadlineMs = 30_000;

let mode: Mode = 'live';
const sessionEnded = new EventTarget();
const tags = new WeakMap<object, string>();

/** The mode of the calls. */
export const setMode = (next: Mode): void => {
  mode = next;
};

/** Calls `then` when an answer says that the session is over. */
export function onSessionEnd(then: () => void): () => void {
  sessionEnded.addEventListener('end', then);
  return () => sessionEnded.removeEventListener('end', then);
}

/** The `ETag` that came with an answer, for `ifMatch`. */
export const tagOf = (answer: object): string | undefined => tags.get(answer);

/** One request with the session's cookie. Throws an AgentTrustError for anything but success. */
export async function send({ method, path, body, query = {}, ...options }: Call): Promise<Response> {
  const url = new URL(path, location.origin);
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== '') url.searchParams.set(name, String(value));
  }
  const timeout = AbortSignal.timeout(deadlineMs);
  const signal = options.signal === undefined ? timeout : AbortSignal.any([options.signal, timeout]);
  let answer: Response;
  try {
    answer = await fetch(url, {
      method,
      signal,
      credentials: 'same-origin',
      redirect: 'error',
      headers: {
        accept: 'application/json',
        'x-agent-trust-mode': mode,
        ...(method === 'GET' ? {} : { 'x-agent-trust-console': '1' }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...(options.ifMatch === undefined ? {} : { 'if-match': options.ifMatch }),
        ...(options.idempotencyKey === undefined ? {} : { 'idempotency-key': options.idempotencyKey }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
  } catch (cause) {
    options.signal?.throwIfAborted();
    const code = timeout.aborted ? 'timeout' : 'connection_failed';
    throw new ConnectionError(
      timeout.aborted ? 'The service did not answer within 30 seconds.' : 'The service cannot be reached.',
      { code, cause },
    );
  }
  if (answer.ok) return answer;
  const error = await refusalOf(answer);
  if (error.code === 'unauthorized' && path !== '/v1/session') sessionEnded.dispatchEvent(new Event('end'));
  throw error;
}

async function refusalOf(answer: Response): Promise<AgentTrustError> {
  const seconds = Number(answer.headers.get('retry-after') ?? Number.NaN);
  return errorOf({
    status: answer.status,
    text: await answer.text().catch(() => ''),
    requestId: answer.headers.get('x-request-id'),
    retryAfterMs: Number.isNaN(seconds) ? null : seconds * 1_000,
  });
}

/** As `send`, and reads the answer as JSON. */
export async function ask<T>(call: Call): Promise<T> {
  const answer = await send(call);
  if (answer.status === 204) return undefined as T;
  const body = await answer.json();
  const tag = answer.headers.get('etag');
  if (tag !== null && typeof body === 'object' && body !== null) tags.set(body, tag);
  return body as T;
}

type Entry = readonly [method: string, path: string, flags: string];

/** A method of `Api` from its row in the generated table: path parameters, body, query, options. */
const methodOf =
  ([method, path, flagText]: Entry) =>
  (...args: unknown[]) => {
    const flags = new Set(flagText.split(' '));
    const filled = path.replaceAll(/\{\w+\}/g, () => encodeURIComponent(String(args.shift())));
    const body = flags.has('body') ? (args.shift() ?? {}) : undefined;
    const query = flags.has('query') ? (args.shift() as Call['query']) : undefined;
    const options = (args.shift() ?? {}) as CallOptions;
    const key = flags.has('creates') ? { idempotencyKey: crypto.randomUUID() } : {};
    const call = { method, path: filled, body, query, ...key, ...options };
    return flags.has('stream') ? send(call) : ask(call);
  };

/** The operations of the published API. */
export const api = Object.fromEntries(
  Object.entries(resources).map(([name, operations]) => [
    name,
    Object.fromEntries(
      Object.entries(operations).map(([operation, entry]) => [operation, methodOf(entry as Entry)]),
    ),
  ]),
) as unknown as Api;
