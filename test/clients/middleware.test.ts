import { once } from 'node:events';
import { createServer, type IncomingMessage, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { getRequestListener } from '@hono/node-server';
import express from 'express';
import fastify from 'fastify';
import { Hono } from 'hono';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { expressGuard } from '../../clients/node/src/express.ts';
import { fastifyGuard } from '../../clients/node/src/fastify.ts';
import type { ApprovalDisplay, GuardSetup, PassedDecision } from '../../clients/node/src/guard.ts';
import { honoGuard } from '../../clients/node/src/hono.ts';
import { httpGuard } from '../../clients/node/src/http.ts';
import { Sidecar } from '../../clients/node/src/index.ts';
import { freePort } from '../support/base/free-port.ts';
import { errorBody, http, startScriptedServer } from './support/scripted-server.ts';
import { type ClientService, startClientService } from './support/service.ts';

interface Route {
  readonly gate: string;
  readonly dangerouslyServeWithoutDecision?: boolean;
  readonly display?: () => ApprovalDisplay;
}
/** `POST /orders` behind a guard, with the amount of the body. Whatever reaches the handler is pushed. */
type Framework = (
  setup: GuardSetup,
  route: Route,
  handled: (PassedDecision | undefined)[],
) => Promise<RequestListener>;

const permission = 'orders:create';

const frameworks: Readonly<Record<string, Framework>> = {
  Express: async (setup, route, handled) => {
    const app = express();
    // Likewise: outside of tests, Express prints the error.
    app.set('env', 'test');
    app.use(express.json());
    const guard = expressGuard(setup);
    app.post('/orders', guard({ ...route, permission, amount: (req) => req.body.amount }), (req, res) => {
      handled.push(req.agentTrust);
      res.status(201).json({ decision: req.agentTrust?.decision });
    });
    return app as RequestListener;
  },
  Fastify: async (setup, route, handled) => {
    const app = fastify();
    const guard = fastifyGuard(setup);
    const preHandler = guard({ ...route, permission, amount: (request) => request.body.amount });
    app.post('/orders', { preHandler }, async (request, reply) => {
      handled.push(request.agentTrust);
      return reply.code(201).send({ decision: request.agentTrust?.decision });
    });
    await app.ready();
    return (request, response) => app.routing(request, response);
  },
  Hono: async (setup, route, handled) => {
    const app = new Hono();
    // Hono's own handler prints the error, which is expected here.
    app.onError((_, c) => c.text('Internal Server Error', 500));
    const guard = honoGuard(setup);
    app.post('/orders', guard({ ...route, permission, amount: ({ body }) => body.amount }), async (c) => {
      handled.push(c.get('agentTrust'));
      // The body is still there for the handler.
      const { amount } = await c.req.json();
      return c.json({ decision: c.get('agentTrust').decision, amount }, 201);
    });
    return getRequestListener(app.fetch) as RequestListener;
  },
  'node:http': async (setup, route, handled) => {
    const guard = httpGuard({ ...setup, onError: () => undefined });
    const query = ({ url = '' }: IncomingMessage) => new URL(url, 'http://host').searchParams;
    const bodies = new WeakMap<IncomingMessage, string>();
    const amount = (request: IncomingMessage) => Number(query(request).get('amount'));
    const body = (request: IncomingMessage) => bodies.get(request);
    const order = guard({ ...route, permission, amount, body }, (req, res) => {
      handled.push(req.agentTrust);
      res.writeHead(201, { 'content-type': 'application/json' });
      res.end(JSON.stringify({ decision: req.agentTrust.decision }));
    });
    return async (req, res) => {
      bodies.set(req, await text(req));
      order(req, res);
    };
  },
};

/** Frameworks answer an error of the program in HTML or text. */
// biome-ignore lint/suspicious/noExplicitAny: answers are inspected member by member
function parse(text: string): any {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

let service: ClientService;
let gate: string;
let passport: string;
beforeAll(async () => {
  service = await startClientService();
  const constraints = {
    approvals: { above_usd: 100 },
    spend_limits: { per_transaction_usd: 500, daily_usd: 1_000_000 },
  };
  gate = (await service.agentTrust.gates.create({ name: 'Orders', trust_level: 'L1', constraints })).gate_id;
  passport = await newPassport('buyer');
  await service.testSidecar.caughtUp();
});
afterAll(() => service.close());

async function newPassport(agentId: string): Promise<string> {
  const { jwt = '' } = await service.agentTrust.passports.issue({
    agent_id: agentId,
    permissions: [permission],
  });
  return jwt;
}

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

describe.each(Object.entries(frameworks))('%s', (name, framework) => {
  async function open(route: Partial<Route> = {}, sidecar: Sidecar = service.sidecar) {
    const handled: (PassedDecision | undefined)[] = [];
    const setup = { sidecar, controlPlaneUrl: service.url };
    const server: Server = createServer(await framework(setup, { gate, ...route }, handled));
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    closing.push(() => {
      server.closeAllConnections();
      server.close();
    });
    const { port } = server.address() as AddressInfo;
    const order = async (
      amount: unknown,
      headers: object = { 'x-agent-passport': passport },
      item = 'tea',
    ) => {
      const response = await fetch(`http://127.0.0.1:${port}/orders?amount=${amount}&item=${item}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...headers },
        body: JSON.stringify({ amount, item }),
      });
      return { status: response.status, headers: response.headers, body: parse(await response.text()) };
    };
    return { handled, order };
  }

  function sidecarAt(url: string, options: { deadlineMs?: number; apiKey?: string } = {}): Sidecar {
    const sidecar = new Sidecar({ url, apiKey: service.api.adminKey, deadlineMs: 30_000, ...options });
    closing.push(() => sidecar.close());
    return sidecar;
  }

  it('serves on PERMIT, with the decision on the request', async () => {
    const { order, handled } = await open();
    for (const headers of [{ 'x-agent-passport': passport }, { authorization: `Passport ${passport}` }]) {
      const { status, body } = await order(5, headers);
      expect([status, body.decision]).toEqual([201, 'PERMIT']);
    }
    expect(handled).toMatchObject([
      { decision: 'PERMIT', attestation_id: expect.stringMatching(/^att_/) },
      { decision: 'PERMIT' },
    ]);
  });

  it('passes the trace of the request on to the sidecar, and is not troubled by one that is not valid', async () => {
    const permit = { decision: 'PERMIT', reason: null, attestation_id: 'att_1', constraints_evaluated: [] };
    const server = await startScriptedServer((socket) => void socket.write(http(200, permit)));
    closing.push(() => server.close());
    const { order } = await open({}, sidecarAt(server.url));
    const valid = `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`;
    for (const traceparent of [valid, valid.toUpperCase(), '', null]) {
      const headers = {
        'x-agent-passport': passport,
        ...(traceparent !== null && { traceparent }),
        tracestate: 'a=1',
      };
      expect((await order(5, headers)).status).toBe(201);
    }
    const sent = server.arrived.map(({ head }) => /^traceparent: (.*)$/im.exec(head)?.[1]);
    expect(sent).toEqual([valid, undefined, undefined, undefined]);
    const states = server.arrived.map(({ head }) => /^tracestate: (.*)$/im.exec(head)?.[1]);
    expect(states).toEqual(['a=1', undefined, undefined, undefined]);
  });

  it('answers 401 to no passport, two of them, or one that does not verify', async () => {
    const { order, handled } = await open();
    const shown = [
      ['passport_missing', {}],
      ['passport_missing', { authorization: 'Bearer other' }],
      ['passport_ambiguous', { 'x-agent-passport': passport, authorization: 'Passport other' }],
      ['passport_malformed', { 'x-agent-passport': 'other' }],
      ['passport_signature_invalid', { 'x-agent-passport': `${passport.slice(0, -4)}AAAA` }],
    ] as const;
    for (const [reason, headers] of shown) {
      const answer = await order(5, headers);
      expect([answer.status, answer.body.reason]).toEqual([401, reason]);
      expect(answer.headers.get('www-authenticate')).toBe('Passport');
    }
    expect(handled).toEqual([]);
  });

  it('answers 403 to a BLOCK, with its reason and figures', async () => {
    const { order, handled } = await open();
    const { status, body, headers } = await order(501);
    expect([status, body.decision, body.reason]).toEqual([403, 'BLOCK', 'spend_limit_exceeded']);
    expect(body).toMatchObject({ limit: 500, attestation_id: expect.stringMatching(/^att_/) });
    expect(headers.get('cache-control')).toBe('no-store');
    expect(handled).toEqual([]);
  });

  it.each([
    ['quota_unavailable', 2_500, '3'],
    ['state_stale', 0, '0'],
  ])('answers 503 to %s after %s ms, which is no fault of the agent', async (reason, after_ms, seconds) => {
    const retry = { retryable: true, after_ms };
    const block = { decision: 'BLOCK', reason, attestation_id: 'att_1', detail: 'Later.', retry };
    const server = await startScriptedServer((socket) => void socket.write(http(200, block)));
    closing.push(() => server.close());
    const { order, handled } = await open({ dangerouslyServeWithoutDecision: true }, sidecarAt(server.url));
    const { status, body, headers } = await order(5);
    expect([status, body.decision, body.reason]).toEqual([503, 'BLOCK', reason]);
    expect(headers.get('retry-after')).toBe(seconds);
    expect(handled).toEqual([]);
  });

  it('answers 202 with the address of the approval, and serves the same request once it is approved', async () => {
    const lines = [{ label: 'Supplier', value: 'Nordwind' }];
    const { order, handled } = await open({ display: () => ({ title: 'Order 20 chairs', lines }) });
    const own = { 'x-agent-passport': await newPassport(`approved at ${name}`) };
    const { status, headers, body } = await order(200, own);
    expect([status, body.decision, handled]).toEqual([202, 'SUSPEND', []]);
    expect(headers.get('location')).toBe(`${service.url}/v1/approvals/${body.approval_id}`);
    const approval = await fetch(body.approval_api_url, {
      headers: { authorization: `Bearer ${service.api.adminKey}` },
    });
    expect(await approval.json()).toMatchObject({
      status: 'pending',
      // Below PUBLIC_URL, which is not the address that this program uses.
      approval_url: body.approval_url,
      amount_usd: 200,
      display: { title: 'Order 20 chairs', lines, url: null },
    });

    const approved = { ...own, 'x-agent-approval': body.approval_id };
    expect((await order(200, approved)).status).toBe(202);
    await service.agentTrust.approvals.approve(body.approval_id);
    const other = await order(200, approved, 'gold');
    expect([other.status, other.body.reason]).toEqual([403, 'approval_mismatch']);
    expect((await order(200, approved)).status).toBe(201);
    const again = await order(200, approved);
    expect([again.status, again.body.reason]).toEqual([403, 'approval_used']);
    expect(handled).toHaveLength(1);
  });

  // JSON has no NaN: in a body it arrives as null, which is no number either.
  it.each(['12 USD', Number.NaN])('answers 400 to the amount %j, which is no number', async (amount) => {
    const { order, handled } = await open();
    const { status, body } = await order(amount);
    expect([status, body.error.code, body.error.param]).toEqual([400, 'invalid_request', 'amount']);
    expect(handled).toEqual([]);
  });

  describe('without a decision', () => {
    const failures: Readonly<Record<string, () => Promise<Sidecar>>> = {
      'no sidecar': async () => sidecarAt(`http://127.0.0.1:${await freePort()}`),
      'one that hangs': async () => sidecarAt(await scripted(null), { deadlineMs: 100 }),
      'one that closes in the middle': async () => sidecarAt(await scripted('')),
      'one that answers 503': async () =>
        sidecarAt(await scripted(http(503, errorBody('overloaded', 503), { 'retry-after': '7' })), {
          deadlineMs: 6_000,
        }),
    };
    async function scripted(bytes: string | null): Promise<string> {
      const server = await startScriptedServer((socket) => {
        if (bytes === '') socket.end('HTTP/1.1 200 OK\r\ncontent-le');
        else if (bytes !== null) socket.write(bytes);
      });
      closing.push(() => server.close());
      return server.url;
    }

    it.each(Object.entries(failures))('of %s: 503, and nothing is served', async (failure, sidecar) => {
      const { order, handled } = await open({}, await sidecar());
      const { status, body, headers } = await order(5);
      expect([status, body.decision]).toEqual([503, 'UNAVAILABLE']);
      expect(headers.get('retry-after')).toBe(failure.endsWith('503') ? '7' : '1');
      expect(handled).toEqual([]);
    });

    it('serves where that is asked for by name, and says so to the handler', async () => {
      const absent = sidecarAt(`http://127.0.0.1:${await freePort()}`);
      const { order, handled } = await open({ dangerouslyServeWithoutDecision: true }, absent);
      expect((await order(5)).status).toBe(201);
      expect(handled).toMatchObject([{ decision: 'UNAVAILABLE', reason: 'connection_failed' }]);
      expect((await order(5, {})).status, 'a passport has to be shown all the same').toBe(401);
    });

    it('does not take a BLOCK for a failure', async () => {
      const { order, handled } = await open({ dangerouslyServeWithoutDecision: true });
      expect((await order(501)).status).toBe(403);
      expect(handled).toEqual([]);
    });
  });

  it('answers 500 where the API key or the gate is wrong, and not 401 or 404 of the service', async () => {
    const wrongKey = `at_live_${'0'.repeat(36)}`;
    const { testSidecar } = service;
    const answers = [
      await (await open({}, sidecarAt(testSidecar.origin, { apiKey: wrongKey }))).order(5),
      await (await open({ gate: `gate_${'0'.repeat(26)}`, dangerouslyServeWithoutDecision: true })).order(5),
    ].map(({ status, body }) => ({ status, shown: JSON.stringify(body) }));
    for (const { status, shown } of answers) {
      expect(status).toBe(500);
      expect(shown).not.toContain(wrongKey);
    }
  });
});
