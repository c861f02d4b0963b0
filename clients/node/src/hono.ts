import type { Context, MiddlewareHandler } from 'hono';
import { decide, type GuardOptions, type GuardSetup, type PassedDecision, type Refusal } from './guard.ts';
import { reportEnd } from './settle.ts';

export { GuardError, type GuardOptions, type GuardSetup, type PassedDecision } from './guard.ts';

declare module 'hono' {
  interface ContextVariableMap {
    /** The decision of the guard of this route. */
    agentTrust: PassedDecision;
  }
}

/** The argument of a guard's functions. The body is already read, so they can be synchronous. */
export interface HonoRequest {
  readonly context: Context;
  /** The body as JSON; undefined: there is none, or it is not JSON. */
  // biome-ignore lint/suspicious/noExplicitAny: as `c.req.json()` of Hono has it
  readonly body: any;
}

export interface HonoGuardSetup extends GuardSetup {
  /** The guard holds the whole body; a longer one is answered 413. Default 1 MiB. */
  readonly bodyBytesMax?: number;
}

/**
 * Makes `guard`, the middleware of a route for Hono 4 on Node. The handler runs on a PERMIT only, available
 * as `c.get('agentTrust')`. The guard reads the body first; `c.req.json()` and the like still work.
 */
export function honoGuard(
  setup: HonoGuardSetup,
): (options: GuardOptions<HonoRequest, Response>) => MiddlewareHandler {
  const { bodyBytesMax = 1024 * 1024 } = setup;
  return (options) => async (context, next) => {
    const read = await readBody(context, bodyBytesMax);
    if (read === 'too_large') return responseOf(tooLarge);
    const request = { context, body: read.kind === 'read' ? parse(read.value) : undefined };
    const verdict = await decide(setup, options, request, {
      method: context.req.method,
      path: targetOf(context),
      header: (name) => context.req.header(name),
      body: read,
    });
    if (verdict.kind === 'refuse') return responseOf(verdict);
    context.set('agentTrust', verdict.decision);
    await next();
    // Hono has answered an error of the handler by now.
    const ended = context.res.status >= 500 ? 'failed' : 'served';
    void reportEnd(setup, options, verdict.decision, { request, answer: context.res, ended });
    return undefined;
  };
}

/** As it was sent, which a proof is about: the server for Node normalises `req.url`. */
function targetOf({ env, req }: Context): string {
  const { incoming } = (env ?? {}) as { incoming?: { url?: unknown } };
  if (typeof incoming?.url === 'string' && incoming.url.startsWith('/')) return incoming.url;
  const { pathname, search } = new URL(req.url);
  return pathname + search;
}

type ReadBody = { readonly kind: 'read'; readonly value: Uint8Array } | { readonly kind: 'none' | 'unread' };

/** As bytes: decoded as text, different invalid bytes would look the same. */
async function readBody({ req }: Context, bytesMax: number): Promise<ReadBody | 'too_large'> {
  const length = req.header('content-length');
  const isAnnounced = req.header('transfer-encoding') !== undefined || (length ?? '0') !== '0';
  if (Number(length ?? 0) > bytesMax) return 'too_large';
  // A form is written again with another boundary each time.
  if ('formData' in req.bodyCache || 'parsedBody' in req.bodyCache) return { kind: 'unread' };
  const isCached = Object.keys(req.bodyCache).length > 0;
  // Already consumed, or a GET, whose body Hono hides and Node.js does not.
  if (!isCached && (req.raw.bodyUsed || req.raw.body === null)) {
    return { kind: isAnnounced ? 'unread' : 'none' };
  }
  if (!isCached && (length === undefined || req.header('transfer-encoding') !== undefined)) {
    const bytes = await bytesOf(req.raw.body, bytesMax);
    if (bytes === null) return 'too_large';
    req.raw = new Request(req.raw, { body: bytes });
  }
  const value = new Uint8Array(await req.arrayBuffer());
  if (value.length > bytesMax) return 'too_large';
  return value.length === 0 ? { kind: 'none' } : { kind: 'read', value };
}

/** Null: there are more. */
async function bytesOf(
  body: ReadableStream<Uint8Array> | null,
  bytesMax: number,
): Promise<Buffer<ArrayBuffer> | null> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of body ?? []) {
    bytes += chunk.length;
    if (bytes > bytesMax) return null;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

const tooLarge = {
  status: 413,
  headers: {},
  body: { error: { code: 'body_too_large', message: 'The body is too large.', param: null } },
} as const;

const responseOf = ({ status, headers, body }: Omit<Refusal, 'kind'>): Response =>
  new Response(JSON.stringify(body), {
    status,
    headers: { 'content-type': 'application/json', 'cache-control': 'no-store', ...headers },
  });

function parse(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder().decode(bytes));
  } catch {
    // Another type of content, or none.
    return undefined;
  }
}
