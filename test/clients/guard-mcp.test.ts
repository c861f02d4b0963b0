import {
  Client as ClientV2,
  StreamableHTTPClientTransport as TransportV2,
} from '@modelcontextprotocol/client';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { CreateMessageRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { freePort } from '../support/base/free-port.ts';
import { absentSidecar, type GuardedOptions, startGuarded } from './support/guarded.ts';
import { startSessionServer, startStatelessServer, type TestServer, text } from './support/mcp-servers.ts';
import { type ClientService, startClientService } from './support/service.ts';

/** The proxy before real servers, with real clients: what an agent sees of it. */
interface Answer {
  readonly isError?: boolean | undefined;
  readonly content?: unknown;
  // biome-ignore lint/suspicious/noExplicitAny: what is under `_meta` is inspected member by member
  readonly _meta?: any;
}
interface Agent {
  call(name: string, args: Record<string, unknown>, meta?: Record<string, unknown>): Promise<Answer>;
  /** Of all pages. */
  list(): Promise<readonly string[]>;
  close(): Promise<unknown>;
}
type Connect = (url: URL, headers: Record<string, string>) => Promise<Agent>;

const connectV1: Connect = async (url, headers) => {
  const client = new Client({ name: 'agent', version: '1' });
  const transport = new StreamableHTTPClientTransport(url, { requestInit: { headers } });
  await client.connect(transport as Parameters<Client['connect']>[0]);
  return {
    call: (name, args, meta) =>
      client.callTool({ name, arguments: args, ...(meta && { _meta: meta }) }) as Promise<Answer>,
    list: async () => {
      const names: string[] = [];
      let cursor: string | undefined;
      do {
        const page = await client.listTools(cursor === undefined ? {} : { cursor });
        names.push(...page.tools.map(({ name }) => name));
        cursor = page.nextCursor;
      } while (cursor !== undefined);
      return names;
    },
    close: async () => {
      await transport.terminateSession();
      await client.close();
    },
  };
};
const connectV2 =
  (mode: 'legacy' | { readonly pin: string }): Connect =>
  async (url, headers) => {
    const client = new ClientV2({ name: 'agent', version: '1' }, { versionNegotiation: { mode } });
    await client.connect(new TransportV2(url, { requestInit: { headers } }));
    return {
      call: (name, args, meta) =>
        client.callTool({ name, arguments: args, ...(meta && { _meta: meta }) }) as Promise<Answer>,
      list: async () => (await client.listTools()).tools.map(({ name }) => name),
      close: () => client.close(),
    };
  };

const pairs: readonly (readonly [name: string, start: () => Promise<TestServer>, connect: Connect])[] = [
  ['SDK 1.x with sessions', startSessionServer, connectV1],
  ['SDK 2.x, revision of 2025', startStatelessServer, connectV2('legacy')],
  ['SDK 2.x, revision 2026-07-28', startStatelessServer, connectV2({ pin: '2026-07-28' })],
];

let service: ClientService;
let gate: string;
beforeAll(async () => {
  service = await startClientService();
  const constraints = {
    approvals: { above_usd: 100 },
    spend_limits: { per_transaction_usd: 500, unpriced: 'permit' as const },
  };
  gate = (await service.agentTrust.gates.create({ name: 'Tools', trust_level: 'L1', constraints })).gate_id;
});
afterAll(() => service.close());

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

describe.each(pairs)('guard-mcp before a server of %s', (what, start, connect) => {
  let passport: string;
  beforeAll(async () => {
    const permissions = ['tools:pay', 'tools:count', 'tools:ask'];
    passport = (await service.agentTrust.passports.issue({ agent_id: what, permissions })).jwt ?? '';
    await service.testSidecar.caughtUp();
  });

  async function open(
    change: Partial<GuardedOptions> = {},
    headers: Record<string, string> = { 'x-agent-passport': passport },
  ) {
    const server = await start();
    closing.push(() => server.close());
    const proxy = await startGuarded({ service, gate, upstream: server.url, ...change });
    closing.push(() => proxy.close());
    const agent = await connect(new URL(proxy.url), headers);
    closing.push(() => agent.close());
    return { agent, ran: server.ran };
  }
  const decisionOf = (answer: Answer) => answer._meta?.['agent-trust/decision'];

  it('runs a tool on a PERMIT', async () => {
    const { agent, ran } = await open({}, { authorization: `Passport ${passport}` });
    expect(await agent.call('pay', { amount: 5 })).toMatchObject(text('pay'));
    expect(ran).toEqual(['pay']);
  });

  it('runs none without the permission, or beyond a limit, and says why', async () => {
    const { agent, ran } = await open();
    const answers = [
      await agent.call('read', { amount: 5 }),
      await agent.call('pay', { amount: 501 }),
      await agent.call('pay', { amount: '5' }),
      await agent.call('no permission', {}),
    ];
    expect(
      answers.map((answer) => [answer.isError, decisionOf(answer)?.reason ?? decisionOf(answer)?.error.code]),
    ).toEqual([
      [true, 'permission_not_granted'],
      [true, 'spend_limit_exceeded'],
      [true, 'invalid_request'],
      [true, 'tool_name_unusable'],
    ]);
    expect(JSON.stringify(answers[1]?.content)).toMatch(/spend_limit_exceeded.*will be refused again.*att_/);
    expect(ran).toEqual([]);
  });

  it('serves nobody without a passport that stands', async () => {
    const forged = { 'x-agent-passport': `${passport.slice(0, -8)}AAAAAAAA` };
    await expect(open({}, {})).rejects.toThrow(/passport_missing|401/);
    await expect(open({}, forged)).rejects.toThrow(/passport_signature_invalid|401/);
  });

  it('waits for a person, and runs the very same call once, from a client that knows nothing of it', async () => {
    const { agent, ran } = await open();
    const asked = await agent.call('pay', { amount: 200, to: 'Ada' });
    const { approval_id, approval_url } = decisionOf(asked);
    expect(JSON.stringify(asked.content)).toContain(`Ask for that at ${approval_url} before`);
    expect((await service.agentTrust.approvals.get(approval_id)).display).toEqual({
      title: 'Call the tool pay',
      lines: [
        { label: 'amount', value: '200' },
        { label: 'to', value: 'Ada' },
      ],
      url: null,
    });
    expect(decisionOf(await agent.call('pay', { to: 'Ada', amount: 200 })).approval_id).toBe(approval_id);
    await service.agentTrust.approvals.approve(approval_id);
    expect(decisionOf(await agent.call('pay', { amount: 200, to: 'Eve' })).approval_id).not.toBe(approval_id);
    expect(await agent.call('pay', { amount: 200, to: 'Ada' })).toMatchObject(text('pay'));
    expect(decisionOf(await agent.call('pay', { amount: 200, to: 'Ada' })).decision).toBe('SUSPEND');
    expect(ran).toEqual(['pay']);
  });

  it('says once that a person has denied, and takes the approval that a client names itself', async () => {
    const { agent, ran } = await open();
    const denied = decisionOf(await agent.call('pay', { amount: 201 })).approval_id;
    await service.agentTrust.approvals.deny(denied);
    expect(decisionOf(await agent.call('pay', { amount: 201 })).reason).toBe('approval_denied');
    const { approval_id } = decisionOf(await agent.call('pay', { amount: 201 }));
    expect(approval_id).not.toBe(denied);
    await service.agentTrust.approvals.approve(approval_id);
    const meta = { 'agent-trust/approval_id': approval_id };
    expect(await agent.call('pay', { amount: 201 }, meta)).toMatchObject(text('pay'));
    expect(ran).toEqual(['pay']);
  });

  it('lists the tools that the passport permits, over all pages', async () => {
    const { agent } = await open();
    expect(await agent.list()).toEqual(['pay', 'count', 'ask']);
    const all = await open({ showsAllTools: true });
    expect(await all.agent.list()).toContain('read');
    const nobody = `http://127.0.0.1:${await freePort()}`;
    const away = await open({ controlPlaneUrl: nobody });
    expect(await away.agent.list()).toEqual([]);
  });

  it('runs none while the sidecar is away, unless it was asked to by name', async () => {
    const sidecar = absentSidecar(await freePort(), service.api.adminKey);
    const { agent, ran } = await open({ sidecar });
    const answer = await agent.call('pay', { amount: 5 });
    expect(decisionOf(answer)).toMatchObject({ decision: 'UNAVAILABLE', reason: 'connection_failed' });
    expect(JSON.stringify(answer.content)).toContain('Call the tool again in 1 s.');
    expect(ran).toEqual([]);
    const open2 = await open({ sidecar, servesWithoutDecision: true });
    expect(await open2.agent.call('pay', { amount: 5 })).toMatchObject(text('pay'));
  });
});

it('passes progress, questions of the server and the end of a session', async () => {
  const server = await startSessionServer();
  closing.push(() => server.close());
  const proxy = await startGuarded({ service, gate, upstream: server.url });
  closing.push(() => proxy.close());
  const issued = await service.agentTrust.passports.issue({
    agent_id: 'streams',
    permissions: ['tools:*', 'sampling:create'],
  });
  await service.testSidecar.caughtUp();

  const client = new Client({ name: 'agent', version: '1' }, { capabilities: { sampling: {} } });
  client.setRequestHandler(CreateMessageRequestSchema, () => ({
    model: 'none',
    role: 'assistant',
    content: { type: 'text', text: 'It is me.' },
  }));
  const transport = new StreamableHTTPClientTransport(new URL(proxy.url), {
    requestInit: { headers: { 'x-agent-passport': issued.jwt ?? '' } },
  });
  await client.connect(transport as Parameters<Client['connect']>[0]);
  closing.push(() => client.close());
  const seen: number[] = [];
  const onprogress = ({ progress }: { progress: number }) => void seen.push(progress);
  expect(await client.callTool({ name: 'count', arguments: {} }, undefined, { onprogress })).toMatchObject(
    text('count'),
  );
  expect(seen).toEqual([1, 2, 3]);
  expect(await client.callTool({ name: 'ask', arguments: {} })).toMatchObject(text('It is me.'));
  await transport.terminateSession();
  await expect(client.callTool({ name: 'ask', arguments: {} })).rejects.toThrow();
});
