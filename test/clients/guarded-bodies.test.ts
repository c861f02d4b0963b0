import { once } from 'node:events';
import { createServer, type IncomingMessage, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { getRequestListener } from '@hono/node-server';
import express, { type Express } from 'express';
import fastify, { type FastifyInstance } from 'fastify';
import { Hono } from 'hono';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { expressGuard } from '../../clients/node/src/express.ts';
import { fastifyGuard } from '../../clients/node/src/fastify.ts';
import { type HonoRequest, honoGuard } from '../../clients/node/src/hono.ts';
import { httpGuard } from '../../clients/node/src/http.ts';
import { RawConnection } from '../support/base/raw-http.ts';
import { type ClientService, startClientService } from './support/service.ts';

// An approval is given for one body. Who has it must not get another one executed.

let service: ClientService;
let gate: string;
const permission = 'orders:create';
beforeAll(async () => {
  service = await startClientService();
  const constraints = { approvals: { permissions: [permission] } };
  gate = (await service.agentTrust.gates.create({ name: 'Orders', trust_level: 'L1', constraints })).gate_id;
  await service.testSidecar.caughtUp();
});
afterAll(() => service.close());

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

/** Starts a program that pushes what its handler got, and sends it requests of one passport. */
async function open(listenerFor: (executed: string[]) => RequestListener | Promise<RequestListener>) {
  const executed: string[] = [];
  const server = createServer(await listenerFor(executed));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  closing.push(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const { jwt = '' } = await service.agentTrust.passports.issue({
    agent_id: `buyer-${port}`,
    permissions: [permission],
  });
  const send = async (sent: Sent, approvalId?: string) => {
    const { method = 'POST', headers = {}, body = '', isChunked = false } = sent;
    const bytes = Buffer.from(body);
    const chunk = [Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from('\r\n0\r\n\r\n')];
    const all = {
      host: 'a.example',
      connection: 'close',
      'x-agent-passport': jwt,
      ...(approvalId === undefined ? {} : { 'x-agent-approval': approvalId }),
      ...(isChunked ? { 'transfer-encoding': 'chunked' } : { 'content-length': String(bytes.length) }),
      ...headers,
    };
    const connection = await RawConnection.open(port);
    const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
    await connection.send(`${method} /pay HTTP/1.1\r\n${lines.join('')}\r\n`);
    await connection.send(isChunked ? Buffer.concat(chunk) : bytes);
    const answer = await connection.next();
    await connection.leave();
    const shown = answer?.body.toString() ?? '';
    return { status: answer?.status ?? 0, body: shown.startsWith('{') ? JSON.parse(shown) : shown };
  };
  /** Gets one request approved, and sends the other one with that approval. */
  const swap = async (approved: Sent, other: Sent) => {
    const suspended = await send(approved);
    if (suspended.status !== 202) return { first: suspended, second: null };
    const { approval_id } = suspended.body;
    await service.agentTrust.approvals.approve(approval_id);
    return { first: suspended, second: await send(other, approval_id), approvalId: approval_id };
  };
  return { executed, send, swap };
}

interface Sent {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array;
  readonly isChunked?: boolean;
}

const typed = (type: string | null, body: string | Uint8Array, more: Partial<Sent> = {}): Sent => ({
  ...more,
  ...(type === null ? {} : { headers: { 'content-type': type } }),
  body,
});
/** The same request twice but for whom it pays. */
const both = (make: (name: string) => Sent): readonly [Sent, Sent] => [make('alice'), make('mallory')];
const form = 'application/x-www-form-urlencoded';
const part = (name: string, boundary = 'B') =>
  `--${boundary}\r\ncontent-disposition: form-data; name="to"\r\n\r\n${name}\r\n--${boundary}--\r\n`;

/** A POST, and one that some programs run as a DELETE. */
function overridden(header: string): readonly [Sent, Sent] {
  const sent = typed('application/json', '{"to":1}');
  return [sent, { ...sent, headers: { ...sent.headers, [header]: 'DELETE' } }];
}

/** A handler that takes what was parsed, else what is left of the request. */
async function readAll(request: IncomingMessage & { body?: unknown }): Promise<string> {
  const { body } = request;
  const isParsed = body !== undefined && JSON.stringify(body) !== '{}';
  return isParsed ? (body instanceof Buffer ? body.toString() : JSON.stringify(body)) : text(request);
}

const withExpress =
  (prepare: (app: Express) => unknown) =>
  (executed: string[]): RequestListener => {
    const app = express();
    app.set('env', 'test');
    prepare(app);
    const guard = expressGuard({ sidecar: service.sidecar, controlPlaneUrl: service.url });
    app.all('/pay', guard({ gate, permission }), async (req, res) => {
      executed.push(await readAll(req));
      res.status(201).json({});
    });
    return app as RequestListener;
  };

const withFastify =
  (prepare: (app: FastifyInstance) => unknown) =>
  async (executed: string[]): Promise<RequestListener> => {
    const app = fastify();
    prepare(app);
    const guard = fastifyGuard({ sidecar: service.sidecar, controlPlaneUrl: service.url });
    const method = ['GET', 'POST', 'PUT', 'DELETE'];
    app.route({
      method,
      url: '/pay',
      preHandler: guard({ gate, permission }),
      handler: async (request, reply) => {
        const { body, raw } = request;
        executed.push(
          body instanceof Object && 'pipe' in body
            ? await text(body as IncomingMessage)
            : await readAll(Object.assign(raw, { body })),
        );
        return reply.code(201).send({});
      },
    });
    await app.ready();
    closing.push(() => app.close());
    return (request, response) => app.routing(request, response);
  };

const withHono = (executed: string[]): RequestListener => {
  const app = new Hono<{ Bindings: { incoming: IncomingMessage } }>();
  const guard = honoGuard({ sidecar: service.sidecar, controlPlaneUrl: service.url });
  app.all('/pay', guard({ gate, permission }), async (c) => {
    const isGet = c.req.method === 'GET';
    const isForm = c.req.header('content-type')?.startsWith('multipart/') === true;
    if (isGet) executed.push(await text(c.env.incoming));
    else if (isForm) executed.push(String((await c.req.parseBody())['to']));
    else executed.push(Buffer.from(await c.req.arrayBuffer()).toString('latin1'));
    return c.json({}, 201);
  });
  return getRequestListener(app.fetch as never) as RequestListener;
};

const withHttp = (executed: string[]): RequestListener =>
  httpGuard({ sidecar: service.sidecar, controlPlaneUrl: service.url })(
    { gate, permission },
    async (req, res) => {
      executed.push(await text(req));
      res.writeHead(201).end('{}');
    },
  );

/** Reads the body before the guard is called, and hands it over. */
const withHttpBody = (executed: string[]): RequestListener => {
  const guard = httpGuard({ sidecar: service.sidecar, controlPlaneUrl: service.url });
  const bodies = new WeakMap<IncomingMessage, string>();
  const pay = guard({ gate, permission, body: (request) => bodies.get(request) }, (req, res) => {
    executed.push(bodies.get(req) ?? '');
    res.writeHead(201).end('{}');
  });
  return async (req, res) => {
    bodies.set(req, await text(req));
    pay(req, res);
  };
};

const json = (app: Express) => app.use(express.json());
/** As multer and busboy have it: the fields in the body, the files beside it. */
const files = (app: Express) =>
  app.use(async (req, _res, next) => {
    const all = await text(req);
    req.body = { fields: 1 };
    Object.assign(req, { files: all });
    next();
  });
const stream = (app: FastifyInstance) =>
  app.addContentTypeParser('*', (_request, payload, done) => done(null, payload));
const left = (app: FastifyInstance) =>
  app.addContentTypeParser('*', (_request, _payload, done) => done(null, undefined));

const unread: readonly (readonly [
  what: string,
  listener: Parameters<typeof open>[0],
  pair: readonly [Sent, Sent],
])[] = [
  ['Express, text/plain', withExpress(json), both((to) => typed('text/plain', `pay ${to}`))],
  ['Express, chunks of no type', withExpress(json), both((to) => typed(null, to, { isChunked: true }))],
  ['Express, no parser at all', withExpress(() => 0), both((to) => typed('application/json', `"${to}"`))],
  [
    'Express, files of a form',
    withExpress(files),
    both((to) => typed('multipart/form-data; boundary=B', part(to))),
  ],
  ['Fastify, a stream as its body', withFastify(stream), both((to) => typed('text/x', `pay ${to}`))],
  ['Fastify, a body that is left', withFastify(left), both((to) => typed('text/x', `pay ${to}`))],
  ['Hono, GET with a body', withHono, both((to) => typed('text/plain', to, { method: 'GET' }))],
  ['node:http', withHttp, both((to) => typed('application/json', `"${to}"`))],
];

const read: typeof unread = [
  ['Express, JSON', withExpress(json), both((to) => typed('application/json', `{"to":"${to}"}`))],
  [
    'Express, express.text()',
    withExpress((app) => app.use(express.text())),
    both((to) => typed('text/plain', `pay ${to}`)),
  ],
  [
    'Express, express.urlencoded()',
    withExpress((app) => app.use(express.urlencoded({ extended: true }))),
    both((to) => typed(form, `to=${to}&a[b]=c`)),
  ],
  ['Fastify, JSON', withFastify(() => 0), both((to) => typed('application/json', `{"to":"${to}"}`))],
  [
    'Fastify, bytes',
    withFastify((app) =>
      app.addContentTypeParser('*', { parseAs: 'buffer' }, (_r, body, done) => done(null, body)),
    ),
    both((to) => typed('text/x', `pay ${to}`)),
  ],
  ['Hono, text', withHono, both((to) => typed('text/plain', `pay ${to}`))],
  ['Hono, a form', withHono, both((to) => typed('multipart/form-data; boundary=B', part(to)))],
  [
    'Hono, bytes that are no UTF-8',
    withHono,
    both((to) => typed('a/b', Uint8Array.of(to === 'alice' ? 0xff : 0xfe))),
  ],
  ['node:http, with the option body', withHttpBody, both((to) => typed(null, to, { isChunked: true }))],
  [
    'Hono, the same bytes of another type',
    withHono,
    [typed('text/plain; charset=utf-8', 'a'), typed('text/plain; charset=utf-7', 'a')],
  ],
  ['Express, another method in a header', withExpress(json), overridden('x-http-method-override')],
  ['Fastify, another method in a header', withFastify(() => 0), overridden('x-http-method')],
  ['Hono, another method in a header', withHono, overridden('x-method-override')],
];

describe('a body that the guard cannot bind', () => {
  it.each(unread)('gets no approval: %s', async (_what, listener, [approved, other]) => {
    const { executed, send, swap } = await open(listener);
    const { first, second } = await swap(approved, other);
    expect([first.status, second]).toEqual([415, null]);
    expect(first.body.error).toMatchObject({ code: 'unsupported_media_type', param: 'body' });
    expect(executed).toEqual([]);

    // Nor is an approval of the request without a body one for it.
    const bare = await send({ ...approved, headers: { 'content-length': '0' }, body: '', isChunked: false });
    expect(bare.status).toBe(202);
    await service.agentTrust.approvals.approve(bare.body.approval_id);
    expect((await send(other, bare.body.approval_id)).status).toBe(415);
    expect(executed).toEqual([]);
  });

  it('is served if the gate needs no approval', async () => {
    const free = await service.agentTrust.gates.create({ name: 'Free', trust_level: 'L1' });
    await service.testSidecar.caughtUp();
    const guard = httpGuard({ sidecar: service.sidecar, controlPlaneUrl: service.url });
    const { executed, send } = await open((pushed) =>
      guard({ gate: free.gate_id, permission }, async (req, res) => {
        pushed.push(await text(req));
        res.writeHead(201).end('{}');
      }),
    );
    expect((await send(typed('text/plain', 'a file'))).status).toBe(201);
    expect(executed).toEqual(['a file']);
  });
});

describe('a body that the guard can bind', () => {
  it.each(read)('is the approved one: %s', async (_what, listener, [approved, other]) => {
    const { executed, send, swap } = await open(listener);
    const { second, approvalId } = await swap(approved, other);
    expect([second?.status, second?.body.reason]).toEqual([403, 'approval_mismatch']);
    expect(executed).toEqual([]);
    expect((await send(approved, approvalId)).status).toBe(201);
    expect(executed).toHaveLength(1);
    expect(executed[0]).not.toContain('mallory');
  });

  it('is held up to its bound alone, with a length and without', async () => {
    const { executed, send } = await open(withHono);
    const large = 'a'.repeat(1024 * 1024 + 1);
    for (const isChunked of [false, true]) {
      expect((await send(typed('text/plain', large, { isChunked }))).status).toBe(413);
    }
    expect(executed).toEqual([]);
  });
});

describe('a function of a guard without its input', () => {
  // biome-ignore lint/suspicious/noExplicitAny: of any framework
  type Read = (request: any) => any;
  const wrong: readonly (readonly [option: string, param: string, read: Read])[] = [
    ['amount', 'amount', (request) => request.body.amount],
    ['amount', 'amount', () => '5'],
    ['amount', 'amount', () => Number.NaN],
    ['domain', 'domain', () => ['a.example']],
    ['permission', 'permission_key', (request) => `orders:${request.nothing.at(0)}`],
    ['permission', 'permission_key', () => 'no permission/'],
    ['idempotencyKey', 'idempotency_key', () => Promise.reject(new Error('none'))],
    ['passportFrom', 'passport', (request) => request.nothing.token],
    ['context', 'context', (request) => ({ to: request.nothing.to })],
    ['context', 'request', () => ({ to: 5n })],
    ['body', 'body', (request) => request.nothing.raw],
  ];
  const listeners: Readonly<Record<string, (options: object) => RequestListener | Promise<RequestListener>>> =
    {
      Express: (options) => {
        const app = express();
        app.set('env', 'test');
        app.use(express.json());
        const guard = expressGuard({ sidecar: service.sidecar, controlPlaneUrl: service.url });
        app.post('/pay', guard({ gate, permission, ...options }), (_req, res) => res.end());
        return app as RequestListener;
      },
      Fastify: async (options) => {
        const app = fastify();
        const guard = fastifyGuard({ sidecar: service.sidecar, controlPlaneUrl: service.url });
        app.post('/pay', { preHandler: guard({ gate, permission, ...options }) }, async () => ({}));
        await app.ready();
        closing.push(() => app.close());
        return (request, response) => app.routing(request, response);
      },
      Hono: (options) => {
        const app = new Hono();
        const guard = honoGuard({ sidecar: service.sidecar, controlPlaneUrl: service.url });
        app.post('/pay', guard({ gate, permission, ...options }), (c) => c.json({}));
        return getRequestListener(app.fetch) as RequestListener;
      },
      'node:http': (options) =>
        httpGuard({ sidecar: service.sidecar, controlPlaneUrl: service.url })(
          { gate, permission, ...options },
          (_req, res) => res.end(),
        ),
    };

  it.each(Object.entries(listeners))('is the 400 of the agent: %s', async (_name, listener) => {
    for (const [option, param, read] of wrong) {
      const { send } = await open(() => listener({ [option]: read }));
      const { status, body } = await send({});
      expect([status, body.error?.code, body.error?.param], `${option} ${read}`).toEqual([
        400,
        'invalid_request',
        expect.stringContaining(param),
      ]);
    }
  });

  it('may be asynchronous', async () => {
    const context = async ({ body }: HonoRequest) => ({ item: body.item });
    const app = new Hono();
    const guard = honoGuard({ sidecar: service.sidecar, controlPlaneUrl: service.url });
    const amount = async ({ body }: HonoRequest) => body.amount;
    app.post('/pay', guard({ gate, permission, amount, context }), (c) => c.json({}, 201));
    const { send } = await open(() => getRequestListener(app.fetch) as RequestListener);
    const suspended = await send(typed('application/json', '{"amount":7,"item":"tea"}'));
    expect(suspended.status).toBe(202);
    const approval = await service.agentTrust.approvals.get(suspended.body.approval_id);
    expect(approval.amount_usd).toBe(7);
  });
});
