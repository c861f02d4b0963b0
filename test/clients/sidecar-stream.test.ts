import type { AddressInfo } from 'node:net';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { type ServerOptions, type WebSocket, WebSocketServer } from 'ws';
import {
  AuthenticationError,
  type DecisionRequest,
  InvalidRequestError,
  NotFoundError,
  Sidecar,
} from '../../clients/node/src/index.ts';
import { freePort } from '../support/base/free-port.ts';
import { until } from '../support/base/until.ts';
import { type ClientService, startClientService } from './support/service.ts';

const patienceMs = 30_000;
const closed: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closed.splice(0)) await close();
});

function streamTo(url: string, options: { apiKey?: string; deadlineMs?: number } = {}): Sidecar {
  const apiKey = 'at_live_secretsecretsecretsecret01';
  const sidecar = new Sidecar({ url, apiKey, deadlineMs: patienceMs, transport: 'stream', ...options });
  closed.push(() => sidecar.close());
  return sidecar;
}

const order = { permission_key: 'orders:create', amount: 5 };

describe('the client over a stream of a real sidecar', () => {
  let service: ClientService;
  let gateId: string;
  let passport: string;
  beforeAll(async () => {
    service = await startClientService();
    gateId = (await service.agentTrust.gates.create({ name: 'Orders', trust_level: 'L1' })).gate_id;
    const issued = await service.agentTrust.passports.issue({
      agent_id: 'buyer',
      permissions: ['orders:create'],
    });
    passport = issued.jwt ?? '';
    await service.testSidecar.caughtUp();
  });
  afterAll(() => service.close());
  const open = (apiKey = service.api.adminKey) => streamTo(service.testSidecar.origin, { apiKey });

  it('decides as requests do, a thousand at once, over one connection', async () => {
    const sidecar = open();
    const note = (n: number) => 'é'.repeat(n * 40);
    const decisions = await Promise.all(
      Array.from({ length: 1_000 }, (_, n) =>
        sidecar.check(gateId, {
          passport,
          request: {
            ...order,
            permission_key: n % 2 === 0 ? 'orders:create' : 'orders:delete',
            note: note(n % 20),
          },
        }),
      ),
    );
    expect(decisions.map(({ decision }) => decision)).toEqual(
      decisions.map((_, n) => (n % 2 === 0 ? 'PERMIT' : 'BLOCK')),
    );
    expect(new Set(decisions.map((each) => each.attestation_id)).size).toBe(1_000);
    const { body } = await service.testSidecar.call({ path: '/metrics', key: null });
    expect(body).toMatch(/^agent_trust_sidecar_streams_open 1$/m);
    expect(await sidecar.enforce({ passport, request: order })).toMatchObject({ decision: 'PERMIT' });
    const large = { passport, request: { ...order, note: 'x'.repeat(64_000) } };
    expect(await sidecar.check(gateId, large)).toMatchObject({ decision: 'PERMIT' });
    expect(await sidecar.checkBatch(gateId, [{ passport, request: order }])).toMatchObject([
      { decision: 'PERMIT' },
    ]);
  });

  it('throws what a repetition cannot cure, as over requests', async () => {
    const sidecar = open();
    const check = (gate: string, request: DecisionRequest) => sidecar.check(gate, { passport, request });
    await expect(check(gateId, { amount: -1 })).rejects.toThrow(InvalidRequestError);
    await expect(check('gate_01m7w8f9hdzbnzm1x73rrwwwpj', order)).rejects.toThrow(NotFoundError);
    await expect(check('../x', order)).rejects.toThrow(TypeError);
    const wrong = open('at_live_wrongwrongwrongwrongwrongwrong1');
    await expect(wrong.check(gateId, { passport, request: order })).rejects.toThrow(AuthenticationError);
  });

  it('refuses oversized checks as over requests, and affects no other check', async () => {
    const sidecar = open();
    const ask = (bytes: number) => {
      const empty = { passport, request: { ...order, note: '' } };
      const note = 'x'.repeat(bytes - JSON.stringify(empty).length);
      return sidecar.check(gateId, { passport, request: { ...order, note } });
    };
    const others = Array.from({ length: 50 }, () => sidecar.check(gateId, { passport, request: order }));
    for (const bytes of [64 * 1024 + 1, 70_000, 200_000]) {
      await expect(ask(bytes)).rejects.toMatchObject({ code: 'body_too_large' });
    }
    expect((await ask(64 * 1024)).decision).toBe('PERMIT');
    for (const other of others) expect((await other).decision).toBe('PERMIT');
  });

  it('throws once its key has ended, and not before', async () => {
    const { key, keyId } = await service.api.createKey({ scopes: ['enforcement:check'] });
    await service.testSidecar.caughtUp();
    const sidecar = open(key);
    const check = () => sidecar.check(gateId, { passport, request: { ...order } });
    expect(await check()).toMatchObject({ decision: 'PERMIT' });
    await service.api.call({ method: 'DELETE', url: `/v1/api-keys/${keyId}` });
    await service.testSidecar.caughtUp();
    await expect(check()).rejects.toThrow(AuthenticationError);
    await expect(check()).rejects.toThrow(AuthenticationError);
  });
});

describe('the client over a stream that fails', () => {
  const permit = { decision: 'PERMIT', reason: null, attestation_id: 'att_1', constraints_evaluated: [] };
  const input = { passport: 'a.b.c', request: order };
  const keyed = { passport: 'a.b.c', request: { ...order, idempotency_key: 'order-1' } };

  /** A real server of WebSockets, which does with each frame what the test says. */
  async function serve(
    answer: (socket: WebSocket, frame: { readonly id: string }, number: number) => void,
    options: ServerOptions = {},
  ): Promise<{
    readonly url: string;
    readonly connections: () => number;
    readonly open: () => number;
    readonly onHeaders: (listener: (lines: string[]) => void) => void;
  }> {
    const server = new WebSocketServer({ port: 0, host: '127.0.0.1', ...options });
    let connections = 0;
    let frames = 0;
    server.on('connection', (socket) => {
      connections++;
      socket.on('message', (data) => answer(socket, JSON.parse(String(data)), ++frames));
    });
    await new Promise((resolve) => server.once('listening', resolve));
    closed.push(() => {
      for (const socket of server.clients) socket.terminate();
      return new Promise((resolve) => server.close(resolve));
    });
    return {
      url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
      connections: () => connections,
      open: () => server.clients.size,
      onHeaders: (listener) => void server.on('headers', listener),
    };
  }
  const say = (socket: WebSocket, id: string, answer: object) =>
    socket.send(JSON.stringify({ id, ...answer }));

  it('sends the trace of a call only where the handshake has named its members', async () => {
    const trace = { traceparent: `00-${'a'.repeat(32)}-00f067aa0ba902b7-01`, tracestate: 'a=1, b=2' };
    const framesTo = async (members: string | null) => {
      const frames: object[] = [];
      const server = await serve((socket, frame) => {
        frames.push(frame);
        say(socket, frame.id, permit);
      });
      if (members !== null) server.onHeaders((lines) => lines.push(`Agent-Trust-Frame-Members: ${members}`));
      const sidecar = streamTo(server.url);
      await sidecar.check('gate_1', input, trace);
      await sidecar.check('gate_1', input, { traceparent: 'none', tracestate: 'a=1' });
      return frames;
    };
    const plain = { gate_id: 'gate_1', ...input };
    expect(await framesTo(null)).toEqual([
      { id: '0', ...plain },
      { id: '1', ...plain },
    ]);
    expect(await framesTo('other, traceparent, tracestate')).toEqual([
      { id: '0', ...trace, ...plain },
      { id: '1', ...plain },
    ]);
  });

  it('is UNAVAILABLE without a sidecar', async () => {
    const decision = await streamTo(`http://127.0.0.1:${await freePort()}`).check('gate_1', input);
    expect(decision).toMatchObject({ decision: 'UNAVAILABLE', reason: 'connection_failed' });
  });

  it('connects again, and repeats only what cannot charge twice', async () => {
    const server = await serve((socket, { id }, number) =>
      number % 2 === 1 ? socket.terminate() : say(socket, id, permit),
    );
    const sidecar = streamTo(server.url);
    expect(await sidecar.check('gate_1', keyed)).toMatchObject({ decision: 'PERMIT' });
    expect(server.connections()).toBe(2);
    expect(await sidecar.check('gate_1', input)).toMatchObject({
      decision: 'UNAVAILABLE',
      reason: 'connection_failed',
    });
    expect(await sidecar.check('gate_1', input)).toMatchObject({ decision: 'PERMIT' });
    expect(server.connections()).toBe(3);
  });

  it('leaves no connection behind that it does not use any more', async () => {
    const server = await serve((socket, { id }, number) =>
      number === 1 ? socket.close(1001) : say(socket, id, permit),
    );
    const sidecar = streamTo(server.url);
    expect(await sidecar.check('gate_1', input)).toMatchObject({ decision: 'UNAVAILABLE' });
    for (let n = 0; n < 3; n++) {
      expect(await sidecar.check('gate_1', input)).toMatchObject({ decision: 'PERMIT' });
    }
    expect(server.connections()).toBe(2);
  });

  it('replaces a connection that has become silent, though each call waits for less', async () => {
    let silent: WebSocket | null = null;
    const server = await serve((socket, { id }) => {
      silent ??= socket;
      if (socket !== silent) say(socket, id, permit);
    });
    const sidecar = streamTo(server.url, { deadlineMs: 700 });
    const ask = async () => (await sidecar.check('gate_1', input)).decision;
    expect(await ask()).toBe('UNAVAILABLE');
    await until(async () => (await ask()) === 'PERMIT', { what: 'an answer of another connection' });
  });

  it('keeps its deadline and its signal, and drops late answers', async () => {
    const asked: (() => void)[] = [];
    const server = await serve((socket, { id }) => asked.push(() => say(socket, id, permit)));
    const sidecar = streamTo(server.url);
    // The connection is opened first: a request whose deadline ends before that is never sent.
    const first = sidecar.check('gate_1', input);
    await until(() => asked.length === 1, { what: 'the first frame' });
    asked.shift()?.();
    expect(await first).toMatchObject({ decision: 'PERMIT' });
    const late = await sidecar.check('gate_1', input, { deadlineMs: 50 });
    expect(late).toMatchObject({ decision: 'UNAVAILABLE', reason: 'timeout' });
    const controller = new AbortController();
    const aborted = sidecar.check('gate_1', input, { signal: controller.signal });
    await until(() => asked.length === 2, { what: 'two frames' });
    controller.abort(new Error('given up'));
    await expect(aborted).rejects.toThrow('given up');
    for (const answer of asked.splice(0)) answer();
    const answered = sidecar.check('gate_1', input);
    await until(() => asked.length === 1, { what: 'a frame' });
    asked[0]?.();
    expect(await answered).toMatchObject({ decision: 'PERMIT' });
    expect(server.connections()).toBe(1);
  });

  it.each([
    ['no JSON', 'PERMIT'],
    ['no decision', '{"id":"0","decision":"YES"}'],
    ['a PERMIT without a record', '{"id":"0","decision":"PERMIT"}'],
  ])('never takes %s for a PERMIT', async (_what, text) => {
    const server = await serve((socket) => socket.send(text));
    const decision = await streamTo(server.url, { deadlineMs: 200 }).check('gate_1', input);
    expect(decision.decision).toBe('UNAVAILABLE');
  });

  it('takes no answer that it finds after its deadline, as a process does that was stopped', async () => {
    const server = await serve((socket, { id }) => {
      vi.spyOn(performance, 'now').mockReturnValue(performance.now() + patienceMs);
      say(socket, id, permit);
    });
    try {
      const decision = await streamTo(server.url).check('gate_1', input);
      expect(decision).toMatchObject({ decision: 'UNAVAILABLE', reason: 'timeout' });
    } finally {
      vi.restoreAllMocks();
    }
  });

  it('closes also the connection that is being opened', async () => {
    const handshakes: ((isAccepted: boolean) => void)[] = [];
    const server = await serve(() => undefined, { verifyClient: (_info, accept) => handshakes.push(accept) });
    const sidecar = streamTo(server.url);
    const asked = sidecar.check('gate_1', input);
    await until(() => handshakes.length === 1, { what: 'a handshake' });
    sidecar.close();
    handshakes[0]?.(true);
    const isClosed = () => server.connections() === 1 && server.open() === 0;
    await until(isClosed, { what: 'a closed connection', timeoutMs: patienceMs / 2 });
    expect(await asked).toMatchObject({ decision: 'UNAVAILABLE', reason: 'connection_failed' });
  });

  it('reads an answer that comes in fragments, with a ping between them', async () => {
    const server = await serve((socket, { id }) => {
      const bytes = Buffer.from(JSON.stringify({ id, ...permit, request_redacted: { name: 'Zoë' } }));
      const within = bytes.indexOf(0xc3) + 1;
      socket.send(bytes.subarray(0, within), { fin: false, binary: false });
      socket.ping();
      socket.send(bytes.subarray(within), { fin: true, binary: false });
    });
    const decision = await streamTo(server.url).check('gate_1', input);
    expect(decision).toMatchObject({ decision: 'PERMIT', request_redacted: { name: 'Zoë' } });
  });

  it('answers pings, and closes calls in flight', async () => {
    let pongs = 0;
    const server = await serve((socket) => {
      socket.on('pong', () => pongs++);
      socket.ping('are you there');
    });
    const sidecar = streamTo(server.url);
    const asked = sidecar.check('gate_1', input);
    await until(() => pongs === 1, { what: 'a pong' });
    sidecar.close();
    expect(await asked).toMatchObject({ decision: 'UNAVAILABLE', reason: 'connection_failed' });
  });
});
