import {
  createMcpHandler,
  isLegacyRequest,
  WebStandardStreamableHTTPServerTransport,
} from '@modelcontextprotocol/server';
import type { ApiError } from '../../shared/errors/api-error.ts';
import type { RequestId } from '../../shared/model/ids.ts';
import type { ToolDeps } from './deps.ts';
import { fromAuthInfo, type ToolCaller, toAuthInfo, toolServer } from './tool-server.ts';

/** The protocol library between HTTP and the tools. */
export interface ToolEndpoint {
  /** `headers`: those of the request that are about the protocol. `body`: the JSON that came. */
  answer(asked: {
    readonly headers: Readonly<Record<string, string>>;
    readonly body: unknown;
    readonly toolCaller: ToolCaller;
  }): Promise<Response>;
  close(): Promise<void>;
}

export function toolEndpoint(deps: ToolDeps): ToolEndpoint {
  const report = (requestId: RequestId) => (error: unknown, answered: ApiError) => {
    const failure =
      error instanceof Error ? { name: error.name, stack: error.stack } : { name: typeof error };
    deps.logger.error({ request_id: requestId, code: answered.code, failure }, 'a tool failed');
  };
  const serverFor = (toolCaller: ToolCaller) => toolServer(deps, toolCaller, report(toolCaller.requestId));
  const current = createMcpHandler(({ authInfo }) => serverFor(fromAuthInfo(authInfo)), {
    legacy: 'reject',
    // The list of tools never changes while the program runs: there is nothing to listen for.
    maxSubscriptions: 0,
  });

  return {
    answer: async ({ headers, body, toolCaller }) => {
      const asked = new Request('http://tools.invalid/', {
        method: 'POST',
        // It is told of both media types in any case: what it answers is JSON, whatever the client accepts.
        headers: {
          ...headers,
          accept: 'application/json, text/event-stream',
          'content-type': 'application/json',
        },
      });
      const extra = { authInfo: toAuthInfo(toolCaller), parsedBody: body };
      if (!(await isLegacyRequest(asked, body))) return current.fetch(asked, extra);
      const server = serverFor(toolCaller);
      try {
        // Without a generator of session ids it is stateless, and asks for no handshake.
        const transport = new WebStandardStreamableHTTPServerTransport({ enableJsonResponse: true });
        await server.connect(transport);
        return await transport.handleRequest(asked, extra);
      } finally {
        await server.close();
      }
    },
    close: () => current.close(),
  };
}
