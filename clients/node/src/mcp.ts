import { decide, type GuardOptions, type GuardSetup, type GuardVerdict, type Incoming } from './guard.ts';

import { reportEnd } from './settle.ts';

export { GuardError, type GuardSetup } from './guard.ts';

/** A call of a tool, as the functions of a guard see it. */
export interface ToolCall {
  readonly name: string;
  readonly arguments: Readonly<Record<string, unknown>>;
}

export interface ToolGuardOptions
  extends GuardSetup,
    Omit<GuardOptions<ToolCall, unknown>, 'permission' | 'passportFrom' | 'body'> {
  /** Default: `tools:<name>` in lower case. */
  readonly permission?: (call: ToolCall) => string | Promise<string>;
  /** Called with errors that the agent sees as internal. Default `console.error`. */
  readonly onError?: (error: unknown) => void;
}

/** `Server` of `@modelcontextprotocol/server` and of SDK 1.x, as far as it is used here. */
interface ProtocolServer {
  setRequestHandler(...args: never[]): unknown;
  assertCanSetRequestHandler(method: never): void;
}

const method = 'tools/call';
const passportMeta = 'agent-trust/passport';
const approvalMeta = 'agent-trust/approval_id';
/** By its own name, as MCP reserves it. */
const traceMeta = 'traceparent';

/**
 * Guards every tool of an MCP server: a handler runs on a PERMIT only. Tool and arguments are part of the
 * request, so approvals are bound to them. The passport comes from `_meta["agent-trust/passport"]` of the
 * call, or over HTTP from `X-Agent-Passport` or `Authorization: Passport <token>`.
 *
 * Call it before the first tool is registered: it throws if a tool is already registered, because that would
 * stay unguarded. `server` is an `McpServer` or a `Server`.
 */
export function guardTools(
  server: ProtocolServer | { readonly server: ProtocolServer },
  options: ToolGuardOptions,
): void {
  const protocol = 'server' in server ? server.server : server;
  protocol.assertCanSetRequestHandler(method as never);
  const register = protocol.setRequestHandler.bind(protocol) as (...args: unknown[]) => unknown;
  protocol.setRequestHandler = (...args: unknown[]): unknown => {
    const isCall = methodOf(args[0]) === method;
    // The handler is the last argument in both: after a schema, or after a method and perhaps its schemas.
    return isCall
      ? register(...args.slice(0, -1), guarded(args.at(-1) as Handler, options))
      : register(...args);
  };
}

interface Params {
  readonly name?: unknown;
  readonly arguments?: unknown;
  readonly _meta?: Readonly<Record<string, unknown>>;
}
interface Extra {
  readonly _meta?: Params['_meta'];
  readonly mcpReq?: { readonly _meta?: Params['_meta'] };
  /** SDK 1.x */
  readonly requestInfo?: {
    readonly headers?: Readonly<Record<string, string | string[] | undefined>>;
    readonly url?: URL;
  };
  /** `@modelcontextprotocol/server` */
  readonly http?: {
    readonly req?: { readonly url?: string; readonly headers: { get(name: string): string | null } };
  };
}
type Handler = (request: { readonly params?: Params } & Params, extra: Extra) => unknown;

/** SDK 1.x names the method in a schema. */
const methodOf = (first: unknown): unknown =>
  typeof first === 'string'
    ? first
    : (first as { shape?: { method?: { value?: unknown } } }).shape?.method?.value;

function guarded(handler: Handler, options: ToolGuardOptions): Handler {
  const { permission = ({ name }) => `tools:${name.toLowerCase()}`, onError = console.error } = options;
  return async (request, extra) => {
    // A handler that is registered with schemas of its own gets the parameters alone.
    const params = request.params ?? request;
    const { name, arguments: given, _meta: _, ...others } = params;
    const call = { name: String(name), arguments: (given ?? {}) as ToolCall['arguments'] };
    // What else a revision of the protocol puts beside the arguments.
    const more = Object.keys(others).length === 0 ? {} : { params: others };
    const meta = { ...extra._meta, ...extra.mcpReq?._meta, ...params._meta };
    const verdict = await decide(
      options,
      {
        ...options,
        permission,
        context: async () => ({
          ...(await options.context?.(call)),
          ...more,
          tool: call.name,
          arguments: call.arguments,
        }),
      },
      call,
      {
        ...{ method, path: call.name, body: { kind: 'none' } },
        header: (name) => headerOf(name, meta, extra),
        carrier: carrierOf(extra),
      },
    ).catch((error: unknown) => {
      onError(error);
      return internalError;
    });
    if (verdict.kind === 'refuse') return toolError(verdict);
    const report = (answer: unknown, ended: 'served' | 'failed') =>
      void reportEnd(options, options, verdict.decision, { request: call, answer, ended });
    try {
      const answer = await handler(request, extra);
      report(answer, (answer as { isError?: unknown } | undefined)?.isError === true ? 'failed' : 'served');
      return answer;
    } catch (error) {
      report(undefined, 'failed');
      throw error;
    }
  };
}

const internalError: GuardVerdict = {
  kind: 'refuse',
  status: 500,
  headers: {},
  body: { error: { code: 'internal_error', message: 'internal error' } },
};

/**
 * The HTTP request that the call came in, which proofs of possession are about: they prove the key, and not
 * which tool is called. Undefined: over stdio, where there is none.
 */
function carrierOf({ requestInfo, http }: Extra): Incoming['carrier'] {
  const url = requestInfo?.url ?? http?.req?.url;
  if (url === undefined) return undefined;
  const { pathname, search } = new URL(url);
  return { method: 'POST', path: pathname + search };
}

function headerOf(name: string, meta: Readonly<Record<string, unknown>>, extra: Extra): string | undefined {
  const key = {
    'x-agent-passport': passportMeta,
    'x-agent-approval': approvalMeta,
    traceparent: traceMeta,
    tracestate: 'tracestate',
  }[name];
  const value = key === undefined ? undefined : meta[key];
  if (typeof value === 'string') return value;
  // Both are of one trace, and come from one place.
  if (name === 'tracestate' && typeof meta[traceMeta] === 'string') return undefined;
  const header = extra.requestInfo?.headers?.[name] ?? extra.http?.req?.headers.get(name) ?? undefined;
  return Array.isArray(header) ? header.join(', ') : header;
}

/** A refusal as the model reads it, and for programs under `_meta`. */
function toolError({ status, body }: Extract<GuardVerdict, { kind: 'refuse' }>): unknown {
  const detail = `A person has to approve this. After that, call the tool again with _meta["${approvalMeta}"].`;
  const answer = status === 202 ? { ...body, detail } : body;
  const content = [{ type: 'text', text: JSON.stringify(answer) }];
  return { isError: true, content, _meta: { 'agent-trust/decision': answer } };
}
