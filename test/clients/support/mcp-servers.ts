import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { getRequestListener } from '@hono/node-server';
import { InMemoryEventStore } from '@modelcontextprotocol/sdk/examples/shared/inMemoryEventStore.js';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { CallToolRequestSchema, ListToolsRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { createMcpHandler, McpServer as McpServerV2 } from '@modelcontextprotocol/server';

/** An MCP server that a test puts behind the proxy. */
export interface TestServer {
  readonly url: URL;
  /** Tools that have run, in order. */
  readonly ran: string[];
  close(): Promise<void>;
}

export const text = (value: string) => ({ content: [{ type: 'text' as const, text: value }] });

/** Of the tools of the servers here. No permission can be called `no permission`. */
const toolNames = ['pay', 'read', 'count', 'ask', 'no permission'];

async function listen(
  listener: RequestListener,
  ran: string[],
  onClose: () => unknown = () => null,
): Promise<TestServer> {
  const server = createServer(listener).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`),
    ran,
    close: async () => {
      await onClose();
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}

/** SDK 1.x with sessions, streams that can be resumed, and two pages of tools. */
export async function startSessionServer(): Promise<TestServer> {
  const ran: string[] = [];
  const sessions = new Map<string, StreamableHTTPServerTransport>();
  return listen(
    async (request, response) => {
      const id = request.headers['mcp-session-id'];
      const known = typeof id === 'string' ? sessions.get(id) : undefined;
      if (known !== undefined) return known.handleRequest(request, response);
      const transport = new StreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        eventStore: new InMemoryEventStore(),
        onsessioninitialized: (session) => void sessions.set(session, transport),
        onsessionclosed: (session) => void sessions.delete(session),
      });
      await sessionServer(ran).connect(transport as Parameters<McpServer['connect']>[0]);
      return transport.handleRequest(request, response);
    },
    ran,
    () => Promise.all([...sessions.values()].map((transport) => transport.close())),
  );
}

function sessionServer(ran: string[]): McpServer {
  const mcp = new McpServer({ name: 'shop', version: '1' }, { capabilities: { tools: {}, logging: {} } });
  const { server } = mcp;
  server.setRequestHandler(ListToolsRequestSchema, ({ params }) => {
    const isFirst = params?.cursor === undefined;
    const names = isFirst ? toolNames.slice(0, 2) : toolNames.slice(2);
    const tools = names.map((name) => ({ name, inputSchema: { type: 'object' as const } }));
    return isFirst ? { tools, nextCursor: 'second' } : { tools };
  });
  server.setRequestHandler(CallToolRequestSchema, async ({ params: { name, _meta } }, extra) => {
    ran.push(name);
    if (name === 'count') {
      for (const progress of [1, 2, 3]) {
        const params = { progressToken: _meta?.progressToken ?? 0, progress };
        await extra.sendNotification({ method: 'notifications/progress', params });
      }
    }
    if (name !== 'ask') return text(name);
    const messages = [{ role: 'user' as const, content: { type: 'text' as const, text: 'Who is there?' } }];
    const answer = await server.createMessage(
      { messages, maxTokens: 10 },
      { relatedRequestId: extra.requestId },
    );
    return { content: [answer.content as { type: 'text'; text: string }] };
  });
  return mcp;
}

/** `@modelcontextprotocol/server` without sessions, for every revision that it knows. */
export async function startStatelessServer(): Promise<TestServer> {
  const ran: string[] = [];
  const handler = createMcpHandler(() => {
    const server = new McpServerV2({ name: 'shop', version: '1' });
    // The library warns of names with a space.
    for (const name of toolNames.filter((each) => !each.includes(' '))) {
      server.registerTool(name, {}, () => {
        ran.push(name);
        return text(name);
      });
    }
    return server;
  });
  return listen(
    getRequestListener((request) => handler.fetch(request)),
    ran,
    () => handler.close(),
  );
}

/** What reached a server that a test answers itself. */
export interface Recorded {
  readonly method: string | undefined;
  readonly url: string | undefined;
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
}

/** Any HTTP server: what reaches it, and what it answers, is the test's. */
export async function startRecorder(
  answer: (recorded: Recorded, response: ServerResponse) => unknown,
): Promise<TestServer & { readonly recorded: Recorded[] }> {
  const recorded: Recorded[] = [];
  const started = await listen(async (request, response) => {
    const body = (await buffer(request)).toString('latin1');
    const { method, url, headers } = request;
    const entry = { method, url, headers, body };
    recorded.push(entry);
    await answer(entry, response);
  }, []);
  return { ...started, recorded };
}

export const answerJson = (response: ServerResponse, json: unknown, status = 200): void => {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify(json));
};
