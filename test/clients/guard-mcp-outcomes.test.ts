import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer, type RequestListener, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { applyReported } from '../../control-plane/outcomes/apply-reported.ts';
import { expireHolds } from '../../control-plane/outcomes/expire-holds.ts';
import { readSettlements, type Settlements } from '../../mcp-proxy/settlements.ts';
import { temporaryFolder } from '../support/base/temporary-folder.ts';
import { until } from '../support/base/until.ts';
import { startGuarded } from './support/guarded.ts';
import { type HostileState, startHostile, type Transport } from './support/hostile.ts';
import { type ClientService, startClientService } from './support/service.ts';

/** Calls whose amount is held until their answer (contract §19). */
let service: ClientService;
let gate: string;
let passport: string;
let folder: ReturnType<typeof temporaryFolder>;
let settlements: Settlements;
const errors: unknown[] = [];
beforeAll(async () => {
  service = await startClientService();
  const constraints = { spend_limits: { daily_usd: 10_000 } };
  gate = (await service.agentTrust.gates.create({ name: 'Settles', trust_level: 'L1', constraints })).gate_id;
  const issued = await service.agentTrust.passports.issue({ agent_id: 'a', permissions: ['tools:*'] });
  passport = issued.jwt ?? '';
  await service.testSidecar.caughtUp();
  folder = temporaryFolder();
  settlements = settlementsOf({ pay: { amount: '/structuredContent/cost', expiresInS: 60 } });
});
afterAll(async () => {
  folder.remove();
  await service.close();
});
const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
  errors.length = 0;
});

const file = () => join(folder.path, 'settle.json');
function settlementsOf(tools: unknown): Settlements {
  writeFileSync(file(), JSON.stringify(tools));
  return readSettlements(file());
}
const amounts = new Map([
  ['pay', { usd: 5 }],
  ['read', { usd: 1 }],
]);
const options = () => ({
  amounts,
  service,
  gate,
  passport,
  settlements,
  onReportError: (error: unknown) => errors.push(error),
});

const api = () => service.api;
const outcomeOf = async (id: string) => (await api().call({ url: `/v1/attestations/${id}/outcome` })).body;
const newest = async (): Promise<string> => {
  const { body } = await api().call({ url: `/v1/holds?gate_id=${gate}` });
  return body.items[0]?.attestation_id ?? '';
};
/** The hold of what is done, once it is on record. */
async function holdOf(act: () => Promise<unknown>): Promise<string> {
  const before = await newest();
  await act();
  await until(async () => (await newest()) !== before, { what: 'the hold' });
  return newest();
}
async function settled(act: () => Promise<unknown>) {
  const id = await holdOf(act);
  await until(
    async () => {
      await applyReported(api().deps);
      return (await outcomeOf(id)).outcome != null;
    },
    { what: `the outcome of ${id}` },
  );
  return outcomeOf(id);
}
const served = (usd: number) => ({ outcome: 'served', counts_usd: usd, hold: { status: 'settled' } });
const failed = { outcome: 'failed', counts_usd: 0, hold: { status: 'released' } };

const pages = [['pay', 'read'].map((name) => ({ name, inputSchema: { type: 'object' } }))];
const content = [{ type: 'text', text: 'done' }];

describe.each(['json', 'sse', 'stdio'] as const)(
  'guard-mcp with --settle, over %s',
  (transport: Transport) => {
    async function open(state: Partial<HostileState> = {}) {
      const hostile = await startHostile(transport, { pages, ...state }, options());
      closing.push(() => hostile.close());
      await hostile.client.listTools();
      const call = (name = 'pay') =>
        hostile.client.callTool({ name, arguments: { amount: 5 } }).catch(() => null);
      return { hostile, call };
    }

    it('settles what the answer says that the call came to', async () => {
      const { hostile, call } = await open({ result: { content, structuredContent: { cost: 1.5 } } });
      expect(await settled(call)).toMatchObject(served(1.5));
      hostile.state = { pages, result: { content } };
      expect(await settled(call)).toMatchObject(served(5));
      expect(errors).toEqual([]);
    });

    it('gives all of it back for an error, and for what asks for the request once more', async () => {
      const { hostile, call } = await open({
        result: { content, isError: true, structuredContent: { cost: 1.5 } },
      });
      expect(await settled(call)).toMatchObject(failed);
      hostile.state = { pages, error: { code: -32_603, message: 'out of chairs' } };
      expect(await settled(call)).toMatchObject(failed);
      hostile.state = { pages, result: { resultType: 'input_required', requestState: 's', content } };
      expect(await settled(call)).toMatchObject(failed);
    });

    it('settles nothing by an answer that only says later, and takes no call as a task', async () => {
      const task = { taskId: 't', status: 'working', createdAt: '2026-11-30T00:00:00Z', ttl: null };
      const { hostile, call } = await open({ result: { content, task } });
      const id = await holdOf(async () => expect(await call()).toBeNull());
      await applyReported(api().deps);
      expect(await outcomeOf(id)).toMatchObject({ outcome: null, hold: { status: 'open' } });
      const asked = { name: 'pay', arguments: { amount: 5 }, task: { ttl: 60_000 } };
      const refused = await hostile.client.callTool(asked as never);
      expect(JSON.stringify(refused)).toContain('task_not_settled');
      expect(hostile.noted()).toEqual(['call pay']);
      expect(await newest()).toBe(id);
    });

    it('reports no price that is none: its hold ends by itself', async () => {
      const { call } = await open({ result: { content, structuredContent: { cost: '1.5' } } });
      const id = await holdOf(call);
      await until(() => errors.length === 1, { what: 'the error' });
      api().advance(61_000);
      await expireHolds(api().deps);
      expect(await outcomeOf(id)).toMatchObject({
        outcome: null,
        counts_usd: 5,
        hold: { status: 'expired' },
      });
    });
  },
);

describe('guard-mcp with --settle, where no answer comes', () => {
  /** A proxy before this server, and a call of the tool. */
  async function open(onCall: (response: ServerResponse) => unknown, change: unknown = null) {
    const listener: RequestListener = async (request, response) => {
      const message = (await json(request)) as { method: string };
      if (message.method === 'tools/call') onCall(response);
      else response.writeHead(202).end();
    };
    const server = createServer(listener).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const upstream = new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`);
    const proxy = await startGuarded({
      ...options(),
      ...(change === null ? {} : { settlements: settlementsOf({ pay: change }) }),
      upstream,
    });
    closing.push(() => proxy.close());
    closing.push(() => {
      server.closeAllConnections();
      server.close();
    });
    return (signal: AbortSignal | null = null) =>
      fetch(proxy.url, {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          accept: 'application/json, text/event-stream',
          'x-agent-passport': passport,
        },
        body: JSON.stringify({
          jsonrpc: '2.0',
          id: 1,
          method: 'tools/call',
          params: { name: 'pay', arguments: { amount: 5 } },
        }),
        signal,
      }).then(
        (response) => response.text().catch(() => null),
        () => null,
      );
  }

  it.each([
    ['breaks off', (response: ServerResponse) => response.destroy()],
    ['answers 500', (response: ServerResponse) => response.writeHead(500).end()],
  ])('gives all of it back if the server %s', async (_, onCall) => {
    const call = await open(onCall);
    expect(await settled(call)).toMatchObject(failed);
  });

  it.each(['served', 'failed'] as const)(
    'reports %s of a client that left, where it says so',
    async (clientLeft) => {
      const leaving = new AbortController();
      const call = await open(() => leaving.abort(), { clientLeft, expiresInS: 60 });
      const outcome = await settled(() => call(leaving.signal));
      expect(outcome).toMatchObject({ outcome: clientLeft, counts_usd: clientLeft === 'served' ? 5 : 0 });
    },
  );

  it('leaves the hold to its end if the server ends a stream, which a client may resume', async () => {
    const call = await open((response) =>
      response.writeHead(200, { 'content-type': 'text/event-stream' }).end('id: 1\ndata:\n\n'),
    );
    const id = await holdOf(call);
    api().advance(61_000);
    await applyReported(api().deps);
    await expireHolds(api().deps);
    expect(await outcomeOf(id)).toMatchObject({ outcome: null, hold: { status: 'expired' } });
  });
});

describe('the file of --settle', () => {
  it.each([
    [[]],
    [{ pay: false }],
    [{ pay: { amount: 'cost' } }],
    [{ pay: { expiresInS: 59 } }],
    [{ pay: { clientLeft: 'gone' } }],
    [{ pay: { price: '/cost' } }],
    [{ pay: true, PAY: true }],
  ])('is refused: %j', (tools) => {
    expect(() => settlementsOf(tools)).toThrow(file());
  });
});
