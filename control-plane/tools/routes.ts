import type { FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify';
import { isJsonObject } from '../../shared/crypto/json-object.ts';
import { ApiError } from '../../shared/errors/api-error.ts';
import { holdsScope } from '../../shared/model/scopes.ts';
import { callerOf } from '../http/caller.ts';
import { readJson } from '../http/json-body.ts';
import { challengeForScope } from '../oauth/challenge.ts';
import type { ToolDeps } from './deps.ts';
import type { ToolEndpoint } from './tool-endpoint.ts';
import { findTool } from './tool-list.ts';

const url = '/mcp';

/**
 * `POST /mcp`: the tools over JSON-RPC (contract §13). Serves the current revision of the Model Context
 * Protocol, the one of 2025 with or without its handshake, and a bare `tools/call`, which sends no header but
 * its token. Each request is answered by itself, as JSON: there are no sessions and no streams.
 *
 * Needs an access token of this service's own authorization server; its scopes are checked for each tool.
 */
export function toolRoutes(deps: ToolDeps): FastifyPluginAsync {
  // At the first use: the protocol library takes a while to load, and most processes never need it.
  let loading: Promise<ToolEndpoint> | null = null;
  const endpoint = (): Promise<ToolEndpoint> => {
    loading ??= import('./tool-endpoint.ts').then(({ toolEndpoint }) => toolEndpoint(deps));
    return loading;
  };

  return async (app) => {
    // A client that sends a bare body need not know of media types.
    app.addContentTypeParser('*', readJson);
    app.addHook('onClose', async () => (await loading)?.close());
    app.addHook('onRequest', async (request, reply) => refuseForeignSite(deps, request, reply));

    app.route({
      method: 'POST',
      url,
      config: { scope: null, credential: 'access_token' },
      errorHandler: (error, request, reply) => {
        const refusal = jsonRpcRefusal(error);
        if (refusal === null) app.errorHandler(error, request, reply);
        else reply.code(400).send(refusal);
      },
      handler: async (request, reply) => {
        const caller = callerOf(request);
        const { body } = request;
        // The protocol has no batches any more, and one request for the plan would be a hundred calls.
        if (Array.isArray(body)) {
          return reply.code(400).send(jsonRpcError(-32_600, 'Send one message per request, not a batch.'));
        }
        refuseMissingScope(deps, request, reply, body);
        const headers = protocolHeaders(request);
        return send(
          reply,
          await (await endpoint()).answer({
            headers,
            body,
            toolCaller: { caller, requestId: caller.requestId },
          }),
        );
      },
    });

    // The protocol asks for this answer where a server offers no stream and keeps no session.
    app.route({
      method: ['GET', 'DELETE'],
      url,
      exposeHeadRoute: false,
      config: { scope: null },
      handler: async (_request, reply) =>
        reply.code(405).header('allow', 'POST').send(jsonRpcError(-32_600, 'Only POST is answered here.')),
    });
  };
}

/**
 * A page of another site must not reach the tools, whatever token it has (the protocol's "Security Warning").
 */
function refuseForeignSite(
  { baseUrl }: Pick<ToolDeps, 'baseUrl'>,
  request: FastifyRequest,
  reply: FastifyReply,
) {
  const { origin } = request.headers;
  if (origin === undefined || origin === new URL(baseUrl).origin) return;
  return reply.code(403).send(jsonRpcError(-32_600, 'Requests from other sites are refused.'));
}

/** RFC 6750 §3.1: 403 with the scope that is missing, so that a client can ask its user for more. */
function refuseMissingScope(
  deps: ToolDeps,
  request: FastifyRequest,
  reply: FastifyReply,
  message: unknown,
): void {
  if (!isJsonObject(message) || message['method'] !== 'tools/call' || !isJsonObject(message['params']))
    return;
  const scope = findTool(message['params']['name'])?.scope ?? null;
  if (scope === null || holdsScope(callerOf(request).scopes, scope)) return;
  reply.header('www-authenticate', challengeForScope(deps, scope));
  throw new ApiError('insufficient_scope', {
    message: `This tool needs an access token with the scope ${scope}.`,
  });
}

/**
 * A body that cannot be read is answered as JSON-RPC has it, with no id, because none could be read. Null:
 * another error.
 */
function jsonRpcRefusal(error: unknown): object | null {
  if (!(error instanceof ApiError)) return null;
  if (error.code === 'invalid_json') return jsonRpcError(-32_700, `Parse error: ${error.message}`);
  const isOfBody = error.code === 'body_too_large' || error.code === 'invalid_request';
  return isOfBody ? jsonRpcError(-32_600, error.message) : null;
}

const jsonRpcError = (code: number, message: string) => ({
  jsonrpc: '2.0',
  id: null,
  error: { code, message },
});

const protocolHeaders = ({ headers }: FastifyRequest): Record<string, string> =>
  Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) =>
      name.startsWith('mcp-') && typeof value === 'string' ? [[name, value] as const] : [],
    ),
  );

async function send(reply: FastifyReply, response: Response): Promise<FastifyReply> {
  const contentType = response.headers.get('content-type');
  if (contentType !== null) reply.type(contentType);
  return reply.code(response.status).send(await response.text());
}
