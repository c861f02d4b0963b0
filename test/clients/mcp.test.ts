import { Client as ClientV2, InMemoryTransport as TransportV2 } from '@modelcontextprotocol/client';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { InMemoryTransport } from '@modelcontextprotocol/sdk/inMemory.js';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { McpServer as McpServerV2 } from '@modelcontextprotocol/server';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { Sidecar } from '../../clients/node/src/index.ts';
import { guardTools, type ToolGuardOptions } from '../../clients/node/src/mcp.ts';
import { freePort } from '../support/base/free-port.ts';
import { type ClientService, startClientService } from './support/service.ts';

interface Answer {
  readonly isError?: boolean | undefined;
  readonly content?: unknown;
  // biome-ignore lint/suspicious/noExplicitAny: what is under `_meta` is inspected member by member
  readonly _meta?: any;
}
/** A server with the tools `pay` and `read`, and a client of it. */
interface Tools {
  call(name: string, args: Record<string, unknown>, meta?: Record<string, unknown>): Promise<Answer>;
  close(): Promise<void>;
}
type Start = (options: ToolGuardOptions, ran: string[]) => Promise<Tools>;

const text = (value: string) => ({ content: [{ type: 'text' as const, text: value }] });

const sdks: Readonly<Record<string, Start>> = {
  'SDK 1.x': async (options, ran) => {
    const server = new McpServer({ name: 'shop', version: '1' });
    guardTools(server, options);
    for (const name of ['pay', 'read']) {
      server.registerTool(name, {}, () => {
        ran.push(name);
        return text(name);
      });
    }
    const client = new Client({ name: 'agent', version: '1' });
    const [ofClient, ofServer] = InMemoryTransport.createLinkedPair();
    await server.connect(ofServer);
    await client.connect(ofClient);
    return {
      call: (name, args, meta) =>
        client.callTool({
          name,
          arguments: args,
          ...(meta === undefined ? {} : { _meta: meta }),
        }) as Promise<Answer>,
      close: () => client.close(),
    };
  },
  '@modelcontextprotocol/server': async (options, ran) => {
    const server = new McpServerV2({ name: 'shop', version: '1' });
    guardTools(server, options);
    for (const name of ['pay', 'read']) {
      server.registerTool(name, {}, () => {
        ran.push(name);
        return text(name);
      });
    }
    const client = new ClientV2({ name: 'agent', version: '1' });
    const [ofClient, ofServer] = TransportV2.createLinkedPair();
    await server.connect(ofServer);
    await client.connect(ofClient);
    return {
      call: (name, args, meta) =>
        client.callTool({
          name,
          arguments: args,
          ...(meta === undefined ? {} : { _meta: meta }),
        }) as Promise<Answer>,
      close: () => client.close(),
    };
  },
};

let service: ClientService;
let gate: string;
beforeAll(async () => {
  service = await startClientService();
  const constraints = { approvals: { above_usd: 100 }, spend_limits: { per_transaction_usd: 500 } };
  gate = (await service.agentTrust.gates.create({ name: 'Tools', trust_level: 'L1', constraints })).gate_id;
});
afterAll(() => service.close());

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

describe.each(Object.entries(sdks))('guardTools on %s', (sdk, start) => {
  let passport: string;
  beforeAll(async () => {
    const issued = await service.agentTrust.passports.issue({ agent_id: sdk, permissions: ['tools:pay'] });
    passport = issued.jwt ?? '';
    await service.testSidecar.caughtUp();
  });

  async function open(change: Partial<ToolGuardOptions> = {}) {
    const ran: string[] = [];
    const tools = await start(
      {
        sidecar: service.sidecar,
        controlPlaneUrl: service.url,
        gate,
        amount: ({ arguments: { amount } }) => amount as number,
        ...change,
      },
      ran,
    );
    closing.push(() => tools.close());
    return { ran, tools };
  }
  const decisionOf = (answer: Answer) => answer._meta?.['agent-trust/decision'];
  const shown = () => ({ 'agent-trust/passport': passport });

  it('runs a tool on a PERMIT', async () => {
    const { tools, ran } = await open();
    expect(await tools.call('pay', { amount: 5 }, shown())).toMatchObject(text('pay'));
    expect(ran).toEqual(['pay']);
  });

  it('runs none without a passport, without the permission, or beyond a limit, and says why', async () => {
    const { tools, ran } = await open();
    const answers = [
      await tools.call('pay', { amount: 5 }),
      await tools.call('read', { amount: 5 }, shown()),
      await tools.call('pay', { amount: 501 }, shown()),
    ];
    expect(answers.map((answer) => [answer.isError, decisionOf(answer)?.reason])).toEqual([
      [true, 'passport_missing'],
      [true, 'permission_not_granted'],
      [true, 'spend_limit_exceeded'],
    ]);
    expect(ran).toEqual([]);
  });

  it('waits for a person, and runs the same call once', async () => {
    const { tools, ran } = await open();
    const suspended = decisionOf(await tools.call('pay', { amount: 200, to: 'Ada' }, shown()));
    expect(suspended).toMatchObject({ decision: 'SUSPEND' });
    await service.agentTrust.approvals.approve(suspended.approval_id);
    const approved = { ...shown(), 'agent-trust/approval_id': suspended.approval_id };
    const other = await tools.call('pay', { amount: 200, to: 'Eve' }, approved);
    expect(decisionOf(other)?.reason).toBe('approval_mismatch');
    expect(await tools.call('pay', { amount: 200, to: 'Ada' }, approved)).toMatchObject(text('pay'));
    expect(ran).toEqual(['pay']);
  });

  it('runs none without a decision, or where the guard itself is wrong', async () => {
    const absent = new Sidecar({ url: `http://127.0.0.1:${await freePort()}`, apiKey: service.api.adminKey });
    const { tools, ran } = await open({ sidecar: absent });
    expect(decisionOf(await tools.call('pay', { amount: 5 }, shown()))?.decision).toBe('UNAVAILABLE');
    const errors: unknown[] = [];
    const wrong = await open({ gate: `gate_${'0'.repeat(26)}`, onError: (error) => errors.push(error) });
    expect(await wrong.tools.call('pay', { amount: 5 }, shown())).toMatchObject({ isError: true });
    expect([errors.length, ran, wrong.ran]).toEqual([1, [], []]);
  });
});

it('refuses a server that has tools already, which would stay unguarded', () => {
  const options = { sidecar: service.sidecar, controlPlaneUrl: service.url, gate };
  const [first, second] = [
    new McpServer({ name: 'shop', version: '1' }),
    new McpServerV2({ name: 'shop', version: '1' }),
  ];
  first.registerTool('pay', {}, () => text('pay'));
  second.registerTool('pay', {}, () => text('pay'));
  expect(() => guardTools(first, options)).toThrow('tools/call');
  expect(() => guardTools(second, options)).toThrow('tools/call');
});
