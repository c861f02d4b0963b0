import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { json } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { CreateMessageRequestSchema, ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { proxyLimits } from '../../../mcp-proxy/limits.ts';
import { runStdioProxy } from '../../../mcp-proxy/stdio-proxy.ts';
import { silentLogger } from '../../../shared/runtime/logger.ts';
import { type GuardedOptions, guardParts, startGuarded } from './guarded.ts';
// @ts-expect-error It is shared with a program that is plain JavaScript.
import { answersTo } from './hostile-answers.mjs';

type Message = Readonly<Record<string, unknown>>;

export interface HostileState {
  pages: readonly (readonly unknown[])[];
  /** Before the answer to the next pings. */
  notifications?: readonly Message[];
  /** Requests of the server, before the result of a call. */
  asks?: readonly Message[];
  result?: unknown;
  /** In place of the result. */
  error?: unknown;
}

/** A hostile server behind a guard, and a client of the SDK before it. */
export interface Hostile {
  readonly client: Client;
  state: HostileState;
  /** What has reached the server. */
  noted(): readonly string[];
  /** What the server has asked the client. */
  readonly asked: string[];
  /** Another client of the same guard. For HTTP alone. */
  another(): Promise<Client>;
  close(): Promise<void>;
}

export type Transport = 'json' | 'sse' | 'stdio';
type Start = Omit<GuardedOptions, 'upstream'> & { readonly passport: string };

export const startHostile = (transport: Transport, state: HostileState, options: Start): Promise<Hostile> =>
  transport === 'stdio' ? overStdio(state, options) : overHttp(transport, state, options);

function clientOf(asked: string[]): Client {
  const client = new Client(
    { name: 'agent', version: '1' },
    { capabilities: { sampling: {}, elicitation: {} } },
  );
  client.setRequestHandler(CreateMessageRequestSchema, () => {
    asked.push('sampling');
    return { model: 'none', role: 'assistant', content: { type: 'text', text: 'I.' } };
  });
  client.setRequestHandler(ElicitRequestSchema, () => {
    asked.push('elicitation');
    return { action: 'decline' };
  });
  return client;
}

async function overHttp(transport: 'json' | 'sse', first: HostileState, options: Start): Promise<Hostile> {
  const notes: string[] = [];
  const asked: string[] = [];
  const hostile = { state: first };
  const server = createServer(async (request, response) => {
    if (request.method !== 'POST') return response.writeHead(405).end();
    const message = (await json(request)) as Message;
    const answers: Message[] = answersTo(message, hostile.state, (word: string) => notes.push(word));
    if (answers.length === 0) return response.writeHead(202).end();
    const session = { 'mcp-session-id': 'one' };
    if (transport === 'json') {
      response.writeHead(200, { 'content-type': 'application/json', ...session });
      return response.end(JSON.stringify(answers.at(-1)));
    }
    response.writeHead(200, { 'content-type': 'text/event-stream', ...session });
    for (const answer of answers) response.write(`event: message\ndata: ${JSON.stringify(answer)}\n\n`);
    return response.end();
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const upstream = new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`);
  const proxy = await startGuarded({ ...options, upstream });
  const clients: Client[] = [];
  const connect = async () => {
    const client = clientOf(asked);
    const headers = { 'x-agent-passport': options.passport };
    const http = new StreamableHTTPClientTransport(new URL(proxy.url), { requestInit: { headers } });
    await client.connect(http as Parameters<Client['connect']>[0]);
    clients.push(client);
    return client;
  };
  const client = await connect();
  return Object.assign(hostile, {
    client,
    asked,
    noted: () => notes,
    another: connect,
    close: async () => {
      for (const each of clients) await each.close();
      await proxy.close();
      server.close();
      server.closeAllConnections();
    },
  });
}

const program = fileURLToPath(new URL('hostile-stdio.mjs', import.meta.url));

async function overStdio(first: HostileState, options: Start): Promise<Hostile> {
  const folder = mkdtempSync(join(tmpdir(), 'hostile-'));
  const [STATE, FILE] = [join(folder, 'state'), join(folder, 'notes')];
  writeFileSync(STATE, JSON.stringify(first));
  writeFileSync(FILE, '');
  const asked: string[] = [];
  const [input, output] = [new PassThrough(), new PassThrough()];
  const ended = new AbortController();
  const { requests, answers, reports, views } = await guardParts(options, 'stdio');
  const running = runStdioProxy({
    command: process.execPath,
    args: [program],
    env: { PATH: process.env['PATH'], STATE, FILE },
    input,
    output,
    passport: () => options.passport,
    requests,
    answers,
    reports,
    views,
    answerBytesMax: options.answerBytesMax ?? proxyLimits.answerBytesDefault,
    forwardsPassport: false,
    signal: ended.signal,
    logger: silentLogger,
  });
  const client = clientOf(asked);
  const transport = new StdioServerTransport(output, input);
  await client.connect(transport as Parameters<Client['connect']>[0]);
  return {
    client,
    asked,
    get state() {
      return JSON.parse(readFileSync(STATE, 'utf8'));
    },
    set state(next: HostileState) {
      writeFileSync(STATE, JSON.stringify(next));
    },
    noted: () => readFileSync(FILE, 'utf8').split('\n').slice(0, -1),
    another: () => Promise.reject(new Error('a program has one client')),
    close: async () => {
      await client.close();
      ended.abort();
      await running;
      rmSync(folder, { recursive: true });
    },
  };
}
