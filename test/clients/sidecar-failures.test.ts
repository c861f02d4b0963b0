import { once } from 'node:events';
import type { Socket } from 'node:net';
import { inspect } from 'node:util';
import { afterEach, describe, expect, it, vi } from 'vitest';
import {
  AuthenticationError,
  ConflictError,
  InvalidRequestError,
  Sidecar,
} from '../../clients/node/src/index.ts';
import { freePort } from '../support/base/free-port.ts';
import { until } from '../support/base/until.ts';
import {
  type Arrived,
  errorBody,
  http,
  type ScriptedServer,
  startScriptedServer,
} from './support/scripted-server.ts';

const apiKey = 'at_live_secretsecretsecretsecret01';
const gateId = 'gate_01m7w8f9hdzbnzm1x73rrwwwpj';
const permit = {
  decision: 'PERMIT',
  reason: null,
  attestation_id: 'att_01m7w8f9hxqrdyfq7vmqreqg36',
  constraints_evaluated: ['passport'],
};
const input = { passport: 'a.b.c', request: { permission_key: 'orders:create' } };
const keyed = { passport: 'a.b.c', request: { permission_key: 'orders:create', idempotency_key: 'order-1' } };
/** Long enough for a busy machine where the test is not about the deadline. */
const patienceMs = 30_000;

const closed: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closed.splice(0)) await close();
});

function sidecarAt(url: string, deadlineMs = patienceMs): Sidecar {
  const sidecar = new Sidecar({ url, apiKey, deadlineMs });
  closed.push(() => sidecar.close());
  return sidecar;
}

async function serve(
  answer: (socket: Socket, request: Arrived & { readonly number: number }) => void | Promise<void>,
): Promise<ScriptedServer> {
  const server = await startScriptedServer(answer);
  closed.push(() => server.close());
  return server;
}

describe('every failure is UNAVAILABLE', () => {
  it('no sidecar at all, after few attempts', async () => {
    const decision = await sidecarAt(`http://127.0.0.1:${await freePort()}`).check(gateId, input);
    expect(decision).toMatchObject({
      decision: 'UNAVAILABLE',
      reason: 'connection_failed',
      attestation_id: null,
    });
  });

  it('no answer within the deadline, and the connection is closed', async () => {
    let gone: Promise<unknown> | null = null;
    const server = await serve((socket) => {
      gone = once(socket, 'close');
    });
    const startedAt = performance.now();
    const decision = await sidecarAt(server.url, 100).check(gateId, input);
    expect(decision).toMatchObject({
      decision: 'UNAVAILABLE',
      reason: 'timeout',
      retry: { retryable: true },
    });
    expect(performance.now() - startedAt).toBeGreaterThanOrEqual(99);
    await gone;
  });

  it('informational answers alone; those before an answer are passed over', async () => {
    const hints = 'HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n';
    const server = await serve((socket) => void socket.write(hints + http(200, permit)));
    const sidecar = sidecarAt(server.url);
    for (let i = 0; i < 3; i += 1) expect(await sidecar.check(gateId, input)).toMatchObject(permit);
    const endless = await serve((socket) => void socket.write(hints.repeat(1_000)));
    expect(await sidecarAt(endless.url, 200).check(gateId, input)).toMatchObject({ reason: 'timeout' });
  });

  it('a body that does not end within the deadline', async () => {
    const server = await serve((socket) => {
      socket.write(http(200, permit).slice(0, -5));
    });
    expect(await sidecarAt(server.url, 200).check(gateId, input)).toMatchObject({ reason: 'timeout' });
  });

  it('a PERMIT that comes after the deadline, and it does not become the answer of the next question', async () => {
    const late: Socket[] = [];
    const server = await serve((socket, { number }) => {
      if (number === 1) late.push(socket);
      else socket.write(http(200, { ...permit, attestation_id: `att_of_question_${number}` }));
    });
    const sidecar = sidecarAt(server.url);
    expect(await sidecar.check(gateId, input, { deadlineMs: 1_000 })).toMatchObject({ reason: 'timeout' });
    late[0]?.write(http(200, permit));
    expect(await sidecar.check(gateId, input)).toMatchObject({ attestation_id: 'att_of_question_2' });
  });

  it('a PERMIT that a process finds after its deadline, because it was stopped meanwhile', async () => {
    const server = await serve((socket) => {
      vi.spyOn(performance, 'now').mockReturnValue(performance.now() + patienceMs);
      socket.write(http(200, permit));
    });
    try {
      expect(await sidecarAt(server.url).check(gateId, input)).toMatchObject({ reason: 'timeout' });
    } finally {
      vi.restoreAllMocks();
    }
  });

  it.each([
    ['before the answer', ''],
    ['in the body', http(200, permit).slice(0, -5)],
  ])('a connection that closes %s', async (_, bytes) => {
    const server = await serve((socket) => {
      socket.end(bytes);
    });
    const decision = await sidecarAt(server.url).check(gateId, input);
    expect(decision).toMatchObject({ decision: 'UNAVAILABLE', reason: 'connection_failed' });
    expect(server.arrived, 'without an idempotency key it could charge twice').toHaveLength(1);
  });

  it('503, with the time after which to ask again, which is beyond the deadline', async () => {
    const server = await serve((socket) => {
      socket.write(http(503, errorBody('overloaded', 503), { 'retry-after': '90' }));
    });
    const decision = await sidecarAt(server.url, patienceMs).check(gateId, input);
    expect(decision).toEqual({
      decision: 'UNAVAILABLE',
      reason: 'overloaded',
      attestation_id: null,
      detail: 'overloaded happened',
      retry: { retryable: true, after_ms: 90_000 },
      request_id: 'req_01m7w73a5pffzt5jwz6hbpmzxj',
    });
    expect(server.arrived).toHaveLength(1);
  });

  it.each([
    ['500', http(500, errorBody('internal_error', 500)), 'internal_error'],
    ['HTML of a proxy', http(502, '<h1>Bad Gateway</h1>'), 'bad_answer'],
    ['a redirect', http(302, '', { location: 'http://127.0.0.1:1/' }), 'bad_answer'],
    ['no content', 'HTTP/1.1 204 No Content\r\n\r\n', 'bad_answer'],
    ['200 with no JSON', http(200, 'PERMIT'), 'bad_answer'],
    ['200 with another decision', http(200, { ...permit, decision: 'permit' }), 'bad_answer'],
    ['a PERMIT without a record', http(200, { ...permit, attestation_id: null }), 'bad_answer'],
    ['no HTTP', 'SSH-2.0-OpenSSH\r\n', 'connection_failed'],
  ])('%s', async (_, bytes, reason) => {
    const server = await serve((socket) => {
      socket.write(bytes);
    });
    const decision = await sidecarAt(server.url).check(gateId, input);
    expect(decision).toMatchObject({ decision: 'UNAVAILABLE', reason, retry: { retryable: true } });
  });
});

describe('a batch', () => {
  it.each([
    ['a lost connection', ''],
    ['results for another number of checks', http(200, { results: [permit] })],
  ])('is UNAVAILABLE in every place after %s', async (_, bytes) => {
    const server = await serve((socket) => {
      socket.end(bytes);
    });
    const results = await sidecarAt(server.url).checkBatch(gateId, [input, input]);
    expect(results).toMatchObject([{ decision: 'UNAVAILABLE' }, { decision: 'UNAVAILABLE' }]);
    expect(server.arrived).toHaveLength(1);
  });

  it('is UNAVAILABLE where one check got no decision, or one that is none', async () => {
    const server = await serve((socket) => {
      socket.end(
        http(200, { results: [permit, errorBody('overloaded', 503), { decision: 'permit' }, null] }),
      );
    });
    const results = await sidecarAt(server.url).checkBatch(gateId, [input, input, input, input]);
    expect(results).toMatchObject([
      permit,
      { decision: 'UNAVAILABLE', reason: 'overloaded' },
      { decision: 'UNAVAILABLE', reason: 'bad_answer' },
      { decision: 'UNAVAILABLE', reason: 'bad_answer' },
    ]);
  });

  it('is repeated after a lost answer only if every check has a key', async () => {
    for (const [checks, count] of [
      [[keyed, keyed], 2],
      [[keyed, input], 1],
    ] as const) {
      const server = await serve((socket, { number }) => {
        if (number === 1) socket.end();
        else socket.write(http(200, { results: [permit, permit] }));
      });
      await sidecarAt(server.url).checkBatch(gateId, checks);
      expect(server.arrived).toHaveLength(count);
    }
  });
});

describe('a question is repeated only where that cannot charge twice', () => {
  const closeFirst = (socket: Socket, { number }: { readonly number: number }): void => {
    if (number === 1) socket.end();
    else socket.write(http(200, permit));
  };

  it('with an idempotency key after a lost answer, word by word', async () => {
    const server = await serve(closeFirst);
    expect(await sidecarAt(server.url).check(gateId, keyed)).toEqual(permit);
    expect(server.arrived).toHaveLength(2);
    expect(server.arrived[1]?.body).toBe(server.arrived[0]?.body);
  });

  it('after 503 and its Retry-After', async () => {
    const server = await serve((socket, { number }) => {
      const overloaded = http(503, errorBody('overloaded', 503), { 'retry-after': '0' });
      socket.write(number < 3 ? overloaded : http(200, permit));
    });
    expect(await sidecarAt(server.url).check(gateId, input)).toEqual(permit);
  });

  it.each([
    ['after 503', http(503, errorBody('overloaded', 503), { 'retry-after': '0' }), 'overloaded'],
    ['after a lost answer', '', 'connection_failed'],
  ])('never with a proof that the first copy may have used up: %s', async (_name, answer, reason) => {
    const server = await serve((socket) => {
      if (answer === '') socket.end();
      else socket.write(answer);
    });
    const proven = { ...keyed, request: { ...keyed.request, proof: { dpop: 'a.b.c' } } };
    const sidecar = sidecarAt(server.url);
    expect(await sidecar.check(gateId, proven)).toMatchObject({ decision: 'UNAVAILABLE', reason });
    expect(server.arrived).toHaveLength(1);
    const [one] = await sidecar.checkBatch(gateId, [proven, keyed]);
    expect(one).toMatchObject({ decision: 'UNAVAILABLE', reason });
    expect(server.arrived).toHaveLength(2);
  });

  it('never after a deadline, which nothing is left of', async () => {
    const server = await serve(() => undefined);
    expect(await sidecarAt(server.url, 1_000).check(gateId, keyed)).toMatchObject({ reason: 'timeout' });
    expect(server.arrived).toHaveLength(1);
  });
});

describe('what a repetition cannot cure is thrown', () => {
  it.each([
    [400, 'invalid_request', InvalidRequestError],
    [401, 'unauthorized', AuthenticationError],
    [409, 'idempotency_conflict', ConflictError],
  ])('%i %s', async (status, code, ErrorClass) => {
    const server = await serve((socket) => {
      socket.write(http(status, errorBody(code, status)));
    });
    const thrown = await sidecarAt(server.url)
      .check(gateId, input)
      .catch((error: unknown) => error);
    expect(thrown).toBeInstanceOf(ErrorClass);
    expect(thrown).toMatchObject({ code, http_status: status, request_id: 'req_01m7w73a5pffzt5jwz6hbpmzxj' });
    expect(server.arrived).toHaveLength(1);
  });

  it('an id that would lead to another address', async () => {
    const sidecar = sidecarAt('http://127.0.0.1:1');
    await expect(sidecar.check('../enforce', input)).rejects.toThrow(TypeError);
    await expect(sidecar.check('', input)).rejects.toThrow(TypeError);
  });

  it('an abort, with its reason, at every moment', async () => {
    const server = await serve((socket, { number }) => {
      if (number === 2) socket.write(http(200, permit).slice(0, -5));
      if (number === 3) socket.write(http(503, errorBody('overloaded', 503), { 'retry-after': '5' }));
    });
    const sidecar = sidecarAt(server.url);
    const reason = new Error('the visitor left');
    await expect(sidecar.check(gateId, input, { signal: AbortSignal.abort(reason) })).rejects.toBe(reason);
    expect(server.arrived).toHaveLength(0);
    for (const number of [1, 2, 3]) {
      const controller = new AbortController();
      const asked = sidecar.check(gateId, input, { signal: controller.signal });
      await until(() => server.arrived.length === number, { what: 'the question' });
      controller.abort(reason);
      await expect(asked).rejects.toBe(reason);
    }
  });
});

it('keeps its connection', async () => {
  const server = await serve((socket) => {
    socket.write(http(200, permit));
  });
  const sidecar = sidecarAt(server.url);
  for (let i = 0; i < 5; i++) expect(await sidecar.check(gateId, input)).toEqual(permit);
  expect(server.connections()).toBe(1);
});

it('sends one Content-Length in bytes, the key and no chunks', async () => {
  const server = await serve((socket) => {
    socket.write(http(200, permit));
  });
  await sidecarAt(`${server.url}/v1`).check(gateId, { passport: 'a.b.c', request: { note: 'Größe' } });
  const [{ head, body } = { head: '', body: '' }] = server.arrived;
  expect(head).toMatch(new RegExp(`^POST /v1/gates/${gateId}/check HTTP/1.1\r\n`));
  expect(head.match(/content-length: (\d+)/gi)).toEqual([`content-length: ${Buffer.byteLength(body)}`]);
  expect(head).not.toMatch(/transfer-encoding/i);
  expect(head).toContain(`authorization: Bearer ${apiKey}`);
  expect(JSON.parse(body)).toEqual({ passport: 'a.b.c', request: { note: 'Größe' } });
});

describe('the API key', () => {
  it('is shown by no inspection and no error', async () => {
    const server = await serve((socket) => {
      socket.write(http(401, errorBody('unauthorized', 401)));
    });
    const sidecar = sidecarAt(server.url);
    const thrown = await sidecar.check(gateId, input).catch((error: unknown) => error);
    const shown =
      inspect([sidecar, thrown], { depth: 20, showHidden: true }) + JSON.stringify([sidecar, thrown]);
    expect(shown).toContain('AuthenticationError');
    expect(shown).not.toContain(apiKey.slice(8));
    expect(shown).not.toContain('a.b.c');
  });

  it('is not repeated by the error about one that cannot be sent', () => {
    for (const key of ['', 'at_live_with a space', 'at_live_line\nbreak', 'at_live_ümlaut']) {
      expect(() => new Sidecar({ apiKey: key })).toThrow('apiKey must be a key of agent-trust (at_…)');
    }
  });
});

it.each(['', 'localhost:8090', 'ftp://127.0.0.1', 'http://user:word@127.0.0.1', 'http://127.0.0.1/other'])(
  'takes no address like %j',
  (url) => {
    expect(() => new Sidecar({ url, apiKey })).toThrow('url must be an http or https origin');
  },
);

it.each([0, -1, Number.NaN, Number.POSITIVE_INFINITY])('takes no deadline of %d ms', (deadlineMs) => {
  expect(() => new Sidecar({ apiKey, deadlineMs })).toThrow('deadlineMs must be 1 to');
});
