import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import express from 'express';
import Fastify, { type FastifyReply } from 'fastify';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { expressGuard } from '../../clients/node/src/express.ts';
import { fastifyGuard } from '../../clients/node/src/fastify.ts';
import { httpGuard } from '../../clients/node/src/http.ts';
import { Sidecar } from '../../clients/node/src/index.ts';
import { applyReported } from '../../control-plane/outcomes/apply-reported.ts';
import { until } from '../support/base/until.ts';
import { type Api, startOwnApi } from '../support/service/api.ts';
import { startTestSidecar, type TestSidecar } from '../support/service/sidecar.ts';

let api: Api;
let beside: TestSidecar;
let sidecar: Sidecar;
let gate: string;
let jwt: string;
const servers: { close: () => unknown }[] = [];
beforeAll(async () => {
  api = await startOwnApi();
  beside = await startTestSidecar({ api });
  sidecar = new Sidecar({ url: beside.origin, apiKey: api.adminKey, deadlineMs: 60_000 });
  gate = (await api.createGate({ constraints: { spend_limits: { daily_usd: 1_000 } } })).gate_id;
  jwt = (await api.issuePassport({ permissions: ['orders:create'] })).jwt;
  await beside.caughtUp();
});
afterAll(async () => {
  for (const server of servers) await server.close();
  sidecar.close();
  await beside.close();
  beside.removeFolder();
  await api.close();
});

const errors: unknown[] = [];
const setup = () => ({
  sidecar,
  controlPlaneUrl: 'http://127.0.0.1:8080',
  onReportError: (error: unknown) => errors.push(error),
  onError: () => undefined,
});
const spent = (_: unknown, answer: ServerResponse) => Number(answer.getHeader('x-cost') ?? Number.NaN);
const options = () => ({ gate, permission: 'orders:create', amount: 5, settle: { amount: spent } as const });
const originOf = (server: Server): string => `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
/** What the request at this address came to. */
const outcomeBehind = async (url: string) => {
  const reply = await fetch(url, { headers: { 'x-agent-passport': jwt } });
  return outcomeOf(reply.headers.get('x-permit') ?? '');
};
const outcomeOf = async (id: string) => {
  const read = async () => (await api.call({ url: `/v1/attestations/${id}/outcome` })).body;
  await until(
    async () => {
      await applyReported(api.deps);
      return (await read()).outcome != null;
    },
    { what: `the outcome of ${id}` },
  );
  return read();
};
const served = { outcome: 'served', counts_usd: 1.5, hold: { status: 'settled' } };
const failed = { outcome: 'failed', counts_usd: 0, hold: { status: 'released' } };

describe('a guard with `settle`', () => {
  it('reports what node:http has answered', async () => {
    const ids: string[] = [];
    const handler = (
      request: IncomingMessage & { agentTrust: { attestation_id: string | null } },
      response: ServerResponse,
    ) => {
      ids.push(request.agentTrust.attestation_id ?? '');
      response.setHeader('x-permit', request.agentTrust.attestation_id ?? '');
      if (request.url === '/throws') throw new Error('out of chairs');
      if (request.url === '/hangs') return;
      response.setHeader('x-cost', '1.5');
      response.writeHead(request.url === '/fails' ? 502 : 200).end('done');
    };
    const server = createServer(httpGuard(setup())(options(), handler)).listen(0, '127.0.0.1');
    servers.push(server);
    await until(() => server.listening, { what: 'the server' });
    expect(await outcomeBehind(`${originOf(server)}/`)).toMatchObject(served);
    expect(await outcomeBehind(`${originOf(server)}/fails`)).toMatchObject(failed);
    await fetch(`${originOf(server)}/throws`, { headers: { 'x-agent-passport': jwt } });
    expect(await outcomeOf(ids.at(-1) ?? '')).toMatchObject(failed);
    // A client that leaves: all that is held counts, unless the option says otherwise.
    const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
    socket.write(`GET /hangs HTTP/1.1\r\nhost: a\r\nx-agent-passport: ${jwt}\r\n\r\n`);
    await until(() => ids.length === 4, { what: 'the request' });
    socket.destroy();
    expect(await outcomeOf(ids[3] ?? '')).toMatchObject({ outcome: 'served', counts_usd: 5 });
    expect(errors).toEqual([]);
  });

  it('reports what Express has answered', async () => {
    const app = express();
    app.get('/{*path}', expressGuard(setup())(options()), (request, response) => {
      response.set('x-permit', request.agentTrust?.attestation_id ?? '');
      if (request.path === '/throws') throw new Error('out of chairs');
      response.set('x-cost', '1.5').send('done');
    });
    app.use((_error: unknown, _request: unknown, response: express.Response, _next: unknown) => {
      response.status(500).send('no');
    });
    const server = app.listen(0, '127.0.0.1');
    servers.push(server);
    await until(() => server.listening, { what: 'the server' });
    expect(await outcomeBehind(`${originOf(server)}/`)).toMatchObject(served);
    expect(await outcomeBehind(`${originOf(server)}/throws`)).toMatchObject(failed);
  });

  it('reports what Fastify has answered', async () => {
    const app = Fastify();
    const ofFastify = {
      ...options(),
      settle: {
        amount: (_: unknown, reply: FastifyReply) => Number(reply.getHeader('x-cost') ?? Number.NaN),
      },
    };
    app.get('/*', { preHandler: fastifyGuard(setup())(ofFastify) }, async (request, reply) => {
      reply.header('x-permit', request.agentTrust?.attestation_id ?? '');
      if (request.url === '/throws') throw new Error('out of chairs');
      reply.header('x-cost', '1.5');
      return 'done';
    });
    await app.listen({ port: 0, host: '127.0.0.1' });
    servers.push(app);
    expect(await outcomeBehind(`${originOf(app.server)}/`)).toMatchObject(served);
    expect(await outcomeBehind(`${originOf(app.server)}/throws`)).toMatchObject(failed);
  });
});
