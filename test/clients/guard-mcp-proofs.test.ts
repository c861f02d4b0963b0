import {
  Client as ClientV2,
  StreamableHTTPClientTransport as TransportV2,
} from '@modelcontextprotocol/client';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { agentSigner, type ProofKind } from '../../clients/node/src/agent.ts';
import { makeAgentKey, type TestAgentKey } from '../support/data/proofs.ts';
import { startGuarded } from './support/guarded.ts';
import { startSessionServer, startStatelessServer, text } from './support/mcp-servers.ts';
import { type ClientService, startClientService } from './support/service.ts';

/** guard-mcp before real servers, at a gate that demands proofs of possession. */
const publicUrl = new URL('https://tools.example/shop/mcp');

let service: ClientService;
let gate: string;
beforeAll(async () => {
  service = await startClientService();
  const constraints = {
    proof_of_possession: 'required' as const,
    approvals: { above_usd: 100 },
    spend_limits: { unpriced: 'permit' as const },
  };
  gate = (await service.agentTrust.gates.create({ name: 'Tools', trust_level: 'L1', constraints })).gate_id;
});
afterAll(() => service.close());

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

interface Agent {
  readonly jwt: string;
  readonly key: TestAgentKey;
}
async function newAgent(): Promise<Agent> {
  const key = makeAgentKey();
  const { jwt } = await service.api.issuePassport({ permissions: ['tools:pay'], public_key: key.publicJwk });
  await service.testSidecar.caughtUp();
  return { jwt, key };
}

/** Signs each request for the address that the proxy is reached by, as an agent behind a proxy does. */
const signingFetch =
  ({ jwt, key }: Agent, proof: ProofKind, target = publicUrl): typeof fetch =>
  (input, init) => {
    const { method = 'GET', body } = init ?? {};
    const url = target.href + new URL(String(input)).search;
    const signed = agentSigner(jwt, key.privateKey, { proof })({ method, url, body: body as string | null });
    const headers = new Headers(init?.headers);
    for (const [name, value] of Object.entries(signed)) headers.set(name, value);
    return fetch(input, { ...init, headers });
  };

// biome-ignore lint/suspicious/noExplicitAny: what is under `_meta` is inspected member by member
type Answer = { readonly content?: unknown; readonly _meta?: any };
type Call = (args: object, meta?: object) => Promise<Answer>;

const clients = {
  'SDK 1.x with sessions': {
    start: startSessionServer,
    connect: async (url: string, send: typeof fetch): Promise<Call> => {
      const client = new Client({ name: 'agent', version: '1' });
      const transport = new StreamableHTTPClientTransport(new URL(url), { fetch: send });
      await client.connect(transport as Parameters<Client['connect']>[0]);
      closing.push(() => client.close());
      return (args, meta) =>
        client.callTool({
          name: 'pay',
          arguments: { ...args },
          ...(meta && { _meta: { ...meta } }),
        }) as Promise<Answer>;
    },
  },
  'SDK 2.x': {
    start: startStatelessServer,
    connect: async (url: string, send: typeof fetch): Promise<Call> => {
      const client = new ClientV2({ name: 'agent', version: '1' });
      await client.connect(new TransportV2(new URL(url), { fetch: send }));
      closing.push(() => client.close());
      return (args, meta) =>
        client.callTool({
          name: 'pay',
          arguments: { ...args },
          ...(meta && { _meta: { ...meta } }),
        }) as Promise<Answer>;
    },
  },
};
const decisionOf = (answer: Answer) => answer._meta?.['agent-trust/decision'];

async function open(name: keyof typeof clients, isPublic = true) {
  const server = await clients[name].start();
  closing.push(() => server.close());
  const options = { service, gate, upstream: server.url, ...(isPublic && { publicUrl }) };
  const proxy = await startGuarded(options);
  closing.push(() => proxy.close());
  return {
    ran: server.ran,
    url: proxy.url,
    /** Another guard before the same server. */
    beside: async () => {
      const other = await startGuarded(options);
      closing.push(() => other.close());
      return other.url;
    },
  };
}

describe.each(Object.keys(clients) as (keyof typeof clients)[])('guard-mcp before %s', (name) => {
  const { connect } = clients[name];

  it.each(['httpsig', 'dpop'] as const)('takes %s proofs, each once, for its own address', async (proof) => {
    const { ran, url } = await open(name);
    const agent = await newAgent();
    const call = await connect(url, signingFetch(agent, proof));
    for (let i = 0; i < 2; i++) expect(await call({ amount: 1 })).toMatchObject(text('pay'));
    expect(ran).toEqual(['pay', 'pay']);

    const elsewhere = await connect(
      url,
      signingFetch(agent, proof, new URL('https://evil.example/shop/mcp')),
    );
    expect(decisionOf(await elsewhere({ amount: 1 }))).toMatchObject({ reason: 'proof_invalid' });
    const otherPath = await connect(url, signingFetch(agent, proof, new URL('https://tools.example/mcp')));
    expect(decisionOf(await otherPath({ amount: 1 }))).toMatchObject({ reason: 'proof_invalid' });
    const thief: typeof fetch = (input, init) => {
      const headers = new Headers(init?.headers);
      headers.set('x-agent-passport', agent.jwt);
      return fetch(input, { ...init, headers });
    };
    const stolen = await connect(url, thief);
    expect(decisionOf(await stolen({ amount: 1 }))).toMatchObject({ reason: 'proof_missing' });
    expect(ran).toEqual(['pay', 'pay']);
  });

  it('asks anew after an approval that has ended only with a proof that is left', async () => {
    const { ran, url, beside } = await open(name);
    const agent = await newAgent();
    const call = await connect(url, signingFetch(agent, 'httpsig'));
    const { approval_id } = decisionOf(await call({ amount: 200 }));
    await service.agentTrust.approvals.approve(approval_id);
    const other = await connect(await beside(), signingFetch(agent, 'httpsig'));
    expect(await other({ amount: 200 }, { 'agent-trust/approval_id': approval_id })).toMatchObject(
      text('pay'),
    );
    // The first guard remembers the approval, and has asked with it.
    expect(decisionOf(await call({ amount: 200 }))).toMatchObject({ reason: 'approval_used' });
    const again = decisionOf(await call({ amount: 200 }));
    expect(again).toMatchObject({ decision: 'SUSPEND' });
    await service.agentTrust.approvals.approve(again.approval_id);
    expect(await call({ amount: 200 })).toMatchObject(text('pay'));
    expect(ran).toEqual(['pay', 'pay']);
  });

  it('passes none on where it does not know its own address', async () => {
    const { ran, url } = await open(name, false);
    const call = await connect(url, signingFetch(await newAgent(), 'httpsig'));
    expect(decisionOf(await call({ amount: 1 }))).toMatchObject({ reason: 'proof_missing' });
    expect(ran).toEqual([]);
  });
});

it('decides one request once with a proof, and not with another body', async () => {
  const { ran, url } = await open('SDK 2.x');
  const agent = await newAgent();
  const message = (amount: number) => ({
    ...{ jsonrpc: '2.0', id: amount, method: 'tools/call' },
    params: { name: 'pay', arguments: { amount } },
  });
  const signed = (body: string, proof: ProofKind) =>
    agentSigner(agent.jwt, agent.key.privateKey, { proof })({ method: 'POST', url: publicUrl.href, body });
  const send = async (headers: object, body: string) => {
    const response = await fetch(url, {
      method: 'POST',
      headers: {
        ...headers,
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
      },
      body,
    });
    return response.text();
  };
  const one = JSON.stringify(message(1));
  const headers = signed(one, 'httpsig');
  const both = await Promise.all([send(headers, one), send(headers, one)]);
  expect(both.filter((answer) => answer.includes('proof_replayed'))).toHaveLength(1);
  expect(ran).toEqual(['pay']);
  expect(await send(signed(one, 'httpsig'), JSON.stringify(message(99)))).toContain('proof_invalid');
  expect(await send(signed(one, 'httpsig'), `${one} `)).toContain('proof_invalid');
  // The calls of a batch come in one request, which has one proof.
  const batch = JSON.stringify([message(1), message(2)]);
  expect((await send(signed(batch, 'dpop'), batch)).match(/proof_replayed/g)?.length).toBeGreaterThan(0);
  expect(ran).toHaveLength(2);
});
