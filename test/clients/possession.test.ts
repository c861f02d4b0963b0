import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type RequestListener, request, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { getRequestListener } from '@hono/node-server';
import express from 'express';
import fastify from 'fastify';
import { Hono } from 'hono';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { agentFetch, agentSigner } from '../../clients/node/src/agent.ts';
import { expressGuard } from '../../clients/node/src/express.ts';
import { fastifyGuard } from '../../clients/node/src/fastify.ts';
import type { GuardSetup } from '../../clients/node/src/guard.ts';
import { honoGuard } from '../../clients/node/src/hono.ts';
import { httpGuard } from '../../clients/node/src/http.ts';
import { must } from '../../shared/errors/assert.ts';
import { makeAgentKey } from '../support/data/proofs.ts';
import { pythonEnv, pythons } from './support/python.ts';
import { type ClientService, startClientService } from './support/service.ts';

const permission = 'orders:create';

const reasonOf = async (answer: Response): Promise<unknown> =>
  ((await answer.json()) as { readonly reason?: unknown }).reason;

/** `POST /orders` behind a guard that sees the bytes of the body. */
const frameworks: Readonly<
  Record<string, (setup: GuardSetup, gate: string) => RequestListener | Promise<RequestListener>>
> = {
  Express: (setup, gate) => {
    const app = express();
    app.use(
      express.json({
        verify: (request, _response, bytes) => {
          Object.assign(request, { rawBody: bytes });
        },
      }),
    );
    app.post('/orders', expressGuard(setup)({ gate, permission }), (_request, response) => {
      response.status(201).json({});
    });
    return app as RequestListener;
  },
  Fastify: async (setup, gate) => {
    const app = fastify();
    app.addContentTypeParser('application/json', { parseAs: 'buffer' }, (request, bytes, done) => {
      Object.assign(request, { rawBody: bytes });
      done(null, JSON.parse(bytes.toString() || 'null'));
    });
    const preHandler = fastifyGuard(setup)({ gate, permission });
    app.post('/orders', { preHandler }, async (_request, reply) => reply.code(201).send({}));
    await app.ready();
    return (request, response) => app.routing(request, response);
  },
  Hono: (setup, gate) => {
    const app = new Hono();
    app.post('/orders', honoGuard(setup)({ gate, permission }), (c) => c.json({}, 201));
    return getRequestListener(app.fetch) as RequestListener;
  },
  'node:http': (setup, gate) => {
    const bodies = new WeakMap<object, Buffer>();
    const guarded = httpGuard(setup)(
      { gate, permission, body: (request) => bodies.get(request) },
      (_request, response) => {
        response.writeHead(201).end('{}');
      },
    );
    return async (request, response) => {
      bodies.set(request, await buffer(request));
      guarded(request, response);
    };
  },
};

let service: ClientService;
let gate: string;
beforeAll(async () => {
  service = await startClientService();
  const created = await service.agentTrust.gates.create({
    name: 'Orders',
    trust_level: 'L1',
    constraints: { proof_of_possession: 'required' },
  });
  gate = created.gate_id;
  await service.testSidecar.caughtUp();
});
afterAll(() => service?.close());

async function newAgent() {
  const key = makeAgentKey();
  const { jwt } = await service.api.issuePassport({ public_key: key.publicJwk });
  return { jwt, key: key.privateKey };
}

describe.each(Object.keys(frameworks))('the guard of %s', (name) => {
  let server: Server;
  let url: string;
  beforeAll(async () => {
    let listener: RequestListener = () => undefined;
    server = createServer((request, response) => listener(request, response)).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    url = `${origin}/orders?a=1`;
    const setup = { sidecar: service.sidecar, controlPlaneUrl: service.url, origin };
    const make = frameworks[name];
    if (make !== undefined) listener = await make(setup, gate);
  });
  afterAll(() => {
    server?.close();
    server?.closeAllConnections();
  });

  const post = { method: 'POST', body: '{ "item": "tea" }', headers: { 'content-type': 'application/json' } };

  it.each(['httpsig', 'dpop'] as const)(
    'lets an agent in that signs with %s, and no thief',
    async (proof) => {
      const { jwt, key } = await newAgent();
      const fetchAsAgent = agentFetch(jwt, key, { proof });
      for (let i = 0; i < 2; i++) expect((await fetchAsAgent(url, post)).status).toBe(201);
      expect((await fetchAsAgent(url, { method: 'POST' })).status).toBe(201);

      const signed = agentSigner(jwt, key, { proof })({ method: 'POST', url, body: post.body });
      const send = (
        change: { readonly url?: string; readonly body?: string; readonly headers?: object } = {},
      ) =>
        fetch(change.url ?? url, {
          ...{ method: 'POST', body: change.body ?? post.body },
          headers: { ...post.headers, ...signed, ...change.headers },
        });
      const { 'signature-input': _input, dpop: _dpop, ...bare } = signed as Record<string, string>;
      const stolen = await fetch(url, { ...post, headers: { ...post.headers, ...bare } });
      expect(stolen.status).toBe(403);
      expect(await stolen.json()).toMatchObject({
        reason: 'proof_missing',
        detail: expect.stringContaining(`the origin ${new URL(url).origin}`),
      });
      if (proof === 'httpsig') {
        expect(await reasonOf(await send({ url: url.replace('a=1', 'a=2') }))).toBe('proof_invalid');
        expect(await reasonOf(await send({ body: '{ "item": "gold" }' }))).toBe('proof_invalid');
        expect(await reasonOf(await send({ body: '' }))).toBe('proof_invalid');
        const { dpop } = agentSigner(jwt, key, { proof: 'dpop' })({ method: 'POST', url });
        expect(await reasonOf(await send({ headers: { dpop } }))).toBe('proof_invalid');
      }
      const elsewhere = agentSigner(jwt, key, { proof })({
        ...{ method: 'POST', url: 'https://other.example/orders?a=1', body: post.body },
      });
      expect(await reasonOf(await send({ headers: elsewhere }))).toBe('proof_invalid');
      const others = await Promise.all([send(), send(), send()]);
      expect(others.map(({ status }) => status).sort()).toEqual([201, 403, 403]);
    },
  );
});

describe.each(Object.keys(frameworks))('the guard of %s', (name) => {
  it.each(["/orders?q=it's&{b}=`|", '/orders?'])('passes %s on as it was sent', async (target) => {
    const make = must(frameworks[name], 'a framework');
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const origin = `http://127.0.0.1:${port}`;
    const setup = { sidecar: service.sidecar, controlPlaneUrl: service.url, origin };
    server.on('request', await make(setup, gate));
    const { jwt, key } = await newAgent();
    const headers = agentSigner(jwt, key)({ method: 'POST', url: origin + target });
    // `fetch` would send another text.
    const sent = request({ port, host: '127.0.0.1', method: 'POST', path: target, headers }).end();
    const [answer] = (await once(sent, 'response')) as [IncomingMessage];
    expect(answer.statusCode).toBe(201);
    server.close();
    server.closeAllConnections();
  });
});

it('passes no proof on without an origin, which no header names', async () => {
  const asked: unknown[] = [];
  const spying: GuardSetup['sidecar'] = {
    check: (gateId, input, options) => {
      asked.push((input.request as Record<string, unknown>)['proof']);
      return service.sidecar.check(gateId, input, options);
    },
  };
  const app = express();
  const guard = expressGuard({ sidecar: spying, controlPlaneUrl: service.url });
  app.post('/orders', guard({ gate, permission }), (_request, response) => {
    response.status(201).json({});
  });
  const server = app.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { jwt, key } = await newAgent();
  const { port } = server.address() as AddressInfo;
  const answer = await agentFetch(jwt, key)(`http://127.0.0.1:${port}/orders`, { method: 'POST' });
  expect(await answer.json()).toMatchObject({
    reason: 'proof_missing',
    detail: expect.stringContaining('the guard has no origin'),
  });
  expect(asked).toEqual([undefined]);
  server.close();
});

describe('agentFetch', () => {
  it('refuses a key that the passport does not name, and what is no key', async () => {
    const { jwt } = await newAgent();
    const { privateKey } = makeAgentKey();
    expect(() => agentFetch(jwt, privateKey)).toThrow('issued for another key');
    expect(() => agentFetch(jwt, 'ed25519_private:AAAA')).toThrow('32 bytes');
    expect(() => agentFetch('nonsense', privateKey)).toThrow(TypeError);
  });

  it('takes the key as the service answers it, and follows no redirect', async () => {
    const { jwt, private_key: key } = await service.api.issuePassport();
    const seen: string[] = [];
    const server = createServer((request, response) => {
      seen.push(request.url ?? '');
      response.writeHead(307, { location: '/elsewhere' }).end();
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const answer = await agentFetch(jwt, key)(`http://127.0.0.1:${port}/first`);
    expect(answer.status).toBe(307);
    expect(seen).toEqual(['/first']);
    server.close();
  });
});

describe('the agent of Python', () => {
  it.each(['httpsig', 'dpop'])('signs what a gate permits, with %s', async (proof) => {
    const { jwt, private_key: key } = await service.api.issuePassport();
    const url = "https://Shop.example:443/it's?$filter=name%20eq%20'tea'&b=~&{c}=`&d";
    const script = `
import json, sys
from agent_trust.agent import AgentSigner
passport, key, url, proof = sys.argv[1:]
print(json.dumps(AgentSigner(passport, key, proof=proof).headers("POST", url, b"tea")))`;
    for (const python of await pythons()) {
      const args = ['-c', script, jwt, key, url, proof];
      const { stdout } = await promisify(execFile)(python, args, { env: pythonEnv({}) });
      const { dpop, authorization, ...headers } = JSON.parse(stdout);
      expect(authorization).toBe(`Passport ${jwt}`);
      const seen = { method: 'POST', url };
      const digest = createHash('sha256').update('tea').digest('base64');
      const asked = {
        permission_key: permission,
        proof:
          dpop === undefined
            ? { ...seen, headers, content_digest: `sha-256=:${digest}:` }
            : { ...seen, dpop },
      };
      const decision = await service.sidecar.check(gate, { passport: jwt, request: asked });
      expect(decision).toMatchObject({ decision: 'PERMIT' });
    }
  });
});
