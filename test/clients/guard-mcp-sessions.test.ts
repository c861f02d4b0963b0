import { once } from 'node:events';
import { createServer, request as forward } from 'node:http';
import type { AddressInfo } from 'node:net';
import { PassThrough } from 'node:stream';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { proxyLimits } from '../../mcp-proxy/limits.ts';
import { runStdioProxy } from '../../mcp-proxy/stdio-proxy.ts';
import { silentLogger } from '../../shared/runtime/logger.ts';
import { freePort } from '../support/base/free-port.ts';
import { expectOnceWithin, timed } from '../support/base/time-promise.ts';
import { until } from '../support/base/until.ts';
import { type GuardedOptions, guardParts, startGuarded } from './support/guarded.ts';
import { answerJson, startRecorder } from './support/mcp-servers.ts';
import { type ClientService, startClientService } from './support/service.ts';

/** Whose a session is, and which call an answer belongs to. */
let service: ClientService;
let gate: string;
/** A gate that lets no personal data out. */
let blocking: string;
beforeAll(async () => {
  service = await startClientService();
  const constraints = { pii_controls: { mode: 'block' as const } };
  const { gates } = service.agentTrust;
  gate = (await gates.create({ name: 'Sessions', trust_level: 'L1' })).gate_id;
  blocking = (await gates.create({ name: 'Blocks', trust_level: 'L1', constraints })).gate_id;
});
afterAll(() => service.close());

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

let agents = 0;
async function issue(agent_id = `agent-${++agents}`) {
  const issued = await service.agentTrust.passports.issue({ agent_id, permissions: ['tools:*'] });
  await service.testSidecar.caughtUp();
  return { agent_id, id: issued.passport_id, jwt: issued.jwt ?? '' };
}
const revoke = async (id: string) => {
  await service.agentTrust.passports.revoke(id, {});
  await service.testSidecar.caughtUp();
};

const message = (method: string, id: unknown = 1, params: object = {}) => ({
  ...{ jsonrpc: '2.0', id, method, params },
});
const call = (id: unknown) => message('tools/call', id, { name: 'pay', arguments: {} });
const secret = { content: [{ type: 'text', text: 'Write to mia@example.com.' }] };

/** A server that gives each `initialize` a session, and answers what it is told to when it is told to. */
async function open(change: Partial<GuardedOptions> = {}) {
  const waiting: { method: string; answer: (result?: object) => void }[] = [];
  let sessions = 0;
  const server = await startRecorder(({ method, body }, response) => {
    if (method === 'GET') {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).write(':\n');
      return;
    }
    if (method === 'DELETE') return response.writeHead(200).end();
    const asked = JSON.parse(body);
    const first = Array.isArray(asked) ? asked[0] : asked;
    if (first.method === 'initialize') response.setHeader('mcp-session-id', `session-${++sessions}`);
    if (first.id === undefined || first.method === undefined) return response.writeHead(202).end();
    const answer = (result: object = {}) =>
      answerJson(
        response,
        Array.isArray(asked)
          ? asked.map(({ id }) => ({ jsonrpc: '2.0', id, result }))
          : { jsonrpc: '2.0', id: first.id, result },
      );
    if (first.method !== 'tools/call') return answer();
    waiting.push({ method: first.method, answer });
  });
  closing.push(() => server.close());
  const proxy = await startGuarded({ service, gate, upstream: server.url, ...change });
  closing.push(() => proxy.close());
  const send = (
    passport: string | null,
    body: unknown,
    headers: Record<string, string> = {},
    method = 'POST',
  ) =>
    fetch(proxy.url, {
      method,
      headers: {
        ...{ 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
        ...(passport !== null && { 'x-agent-passport': passport }),
        ...headers,
      },
      ...(body !== null && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    });
  const begin = async (passport: string) => {
    const answered = await send(passport, message('initialize'));
    return { 'mcp-session-id': answered.headers.get('mcp-session-id') ?? '' };
  };
  return { proxy, recorded: server.recorded, waiting, send, begin };
}

describe('a session', () => {
  const ways: [what: string, method: string, body: unknown, more?: Record<string, string>][] = [
    ['its stream', 'GET', null],
    ['its stream from an event on', 'GET', null, { 'last-event-id': '7' }],
    ['its head', 'HEAD', null],
    ['its end', 'DELETE', null],
    ['a list', 'POST', message('tools/list')],
    ['a task', 'POST', message('tasks/result', 1, { taskId: 't' })],
    ['a call', 'POST', call(1)],
    [
      'a notification',
      'POST',
      { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 1 } },
    ],
    ['an answer to the user', 'POST', { jsonrpc: '2.0', id: 4, result: { action: 'accept' } }],
    ['a new beginning in it', 'POST', message('initialize')],
    ['a batch', 'POST', [message('ping', 1), message('ping', 2)]],
  ];
  it.each(ways)('opens %s to its own agent alone', async (_what, method, body, more = {}) => {
    const { recorded, send, begin } = await open();
    const [own, other, ended] = [await issue(), await issue(), await issue()];
    await revoke(ended.id);
    const session = await begin(own.jwt);
    const statusOf = async (passport: string | null) => {
      const answered = await send(passport, body, { ...session, ...more }, method);
      await answered.body?.cancel();
      return answered.status;
    };
    expect([await statusOf(null), await statusOf('x'), await statusOf(ended.jwt)]).toEqual([401, 401, 401]);
    expect(await statusOf(other.jwt)).toBe(404);
    expect(recorded).toHaveLength(1);
  });

  it('goes on with another passport of its agent, and ends with its end', async () => {
    const { recorded, send, begin } = await open();
    const first = await issue();
    const session = await begin(first.jwt);
    await revoke(first.id);
    const second = await issue(first.agent_id);
    expect((await send(first.jwt, message('ping'), session)).status).toBe(401);
    expect((await send(second.jwt, message('ping'), session)).status).toBe(200);
    expect((await send(second.jwt, null, session, 'DELETE')).status).toBe(200);
    expect((await send(second.jwt, message('ping'), session)).status).toBe(404);
    expect((await send(second.jwt, message('ping'), { 'mcp-session-id': 'made-up' })).status).toBe(404);
    // A server behind CGI would read it.
    await send(second.jwt, message('ping'), { mcp_session_id: 'session-1', last_event_id: '1' });
    expect(Object.keys(recorded.at(-1)?.headers ?? {}).filter((name) => name.includes('_'))).toEqual([]);
  });

  it('ends its open streams within the bound of a revocation, and no others', async () => {
    const { send, begin } = await open();
    const [own, other] = [await issue(), await issue()];
    const streams = await Promise.all(
      [own, other].map(async ({ jwt }) => send(jwt, null, await begin(jwt), 'GET')),
    );
    const [ending, going] = streams.map(({ body }) => body?.getReader());
    for (const reader of [ending, going]) await reader?.read();
    await service.agentTrust.passports.revoke(own.id, {});
    const ended = await timed(
      () =>
        ending?.read().then(
          () => 'more',
          () => 'ended',
        ) ?? Promise.resolve(''),
    );
    expect(ended.result).toBe('ended');
    expectOnceWithin(500, 'the end of a stream', ended);
    const more = going?.read().then(
      () => 'ended',
      () => 'ended',
    );
    expect(await Promise.race([more, send(other.jwt, message('ping')).then(() => 'open')])).toBe('open');
  });

  it('is 503 while the sidecar does not answer, unless it was asked to serve by name', async () => {
    const standingsUrl = `http://127.0.0.1:${await freePort()}`;
    const { jwt } = await issue();
    const { send, recorded } = await open({ standingsUrl });
    const answered = await send(jwt, message('initialize'));
    expect([answered.status, answered.headers.get('retry-after')]).toEqual([503, '1']);
    expect(await answered.json()).toMatchObject({ id: 1, error: { code: -32_010 } });
    expect(recorded).toEqual([]);
    const serving = await open({ standingsUrl, servesWithoutDecision: true });
    const session = await serving.begin(jwt);
    expect((await serving.send(jwt, message('ping'), session)).status).toBe(200);
  });
});

describe('a session of a guard that serves without decisions', () => {
  /** The sidecar, or nobody. */
  async function awayAndBack() {
    const { testSidecar } = service;
    let isAway = false;
    const relay = createServer((request, response) => {
      if (isAway) return void request.socket.destroy();
      const { hostname, port } = new URL(testSidecar.origin);
      const { method, headers, url: path } = request;
      const asked = forward({ ...{ hostname, port, method, headers, path } }, (answer) => {
        response.writeHead(answer.statusCode ?? 502, answer.headers);
        answer.pipe(response);
      });
      asked.on('error', () => response.destroy());
      response.on('close', () => asked.destroy());
      return void request.pipe(asked);
    });
    relay.listen(0, '127.0.0.1');
    await once(relay, 'listening');
    closing.push(() => {
      relay.closeAllConnections();
      relay.close();
    });
    const standingsUrl = `http://127.0.0.1:${(relay.address() as AddressInfo).port}`;
    const opened = await open({ standingsUrl, servesWithoutDecision: true });
    const statusOf = async (passport: string | null, headers: Record<string, string>, method = 'POST') => {
      const answered = await opened.send(
        passport,
        method === 'POST' ? message('ping') : null,
        headers,
        method,
      );
      await answered.body?.cancel();
      return answered.status;
    };
    const be = (where: 'away' | 'back') => {
      isAway = where === 'away';
    };
    return { ...opened, statusOf, be };
  }
  const methods = ['POST', 'GET', 'DELETE'];

  it.each(methods)('that began while the sidecar was away is of its token alone, for %s', async (method) => {
    const { statusOf, begin, be } = await awayAndBack();
    const [own, other, ended] = [await issue(), await issue(), await issue()];
    be('away');
    const [session, ofEnded] = [await begin(own.jwt), await begin(ended.jwt)];
    const others = [null, 'x', other.jwt];
    const statuses = async () => {
      const all = [];
      for (const passport of others) all.push(await statusOf(passport, session, method));
      return all;
    };
    expect(await statuses()).toEqual([401, 404, 404]);
    expect(await statusOf(own.jwt, session)).toBe(200);
    await revoke(ended.id);
    be('back');
    expect(await statuses()).toEqual([401, 401, 404]);
    expect(await statusOf(ended.jwt, ofEnded, method)).toBe(401);
    expect(await statusOf(other.jwt, ofEnded, method)).toBe(404);
    expect(await statusOf(own.jwt, session, method)).toBe(200);
  });

  it.each(methods)('stays of its agent while the sidecar is away, for %s', async (method) => {
    const { statusOf, begin, be } = await awayAndBack();
    const [first, other, unseen] = [await issue(), await issue(), await issue()];
    const session = await begin(first.jwt);
    await begin(other.jwt);
    await revoke(first.id);
    const second = await issue(first.agent_id);
    for (const [{ jwt }, status] of [
      [first, 401],
      [second, 200],
    ] as const)
      expect(await statusOf(jwt, session)).toBe(status);
    be('away');
    for (const [passport, status] of [
      ...([
        [null, 401],
        ['x', 404],
        [first.jwt, 401],
        [other.jwt, 404],
        [unseen.jwt, 404],
      ] as const),
      [second.jwt, 200] as const,
    ])
      expect(await statusOf(passport, session, method), String(passport)).toBe(status);
  });

  it('goes on with another passport of its agent, once the sidecar has known the first one', async () => {
    const { statusOf, begin, be } = await awayAndBack();
    const first = await issue();
    be('away');
    const [session, unused] = [await begin(first.jwt), await begin(first.jwt)];
    be('back');
    expect(await statusOf(first.jwt, session)).toBe(200);
    await revoke(first.id);
    const second = await issue(first.agent_id);
    expect(await statusOf(second.jwt, session)).toBe(200);
    expect(await statusOf(second.jwt, unused)).toBe(404);
    be('away');
    expect(await statusOf(second.jwt, session)).toBe(200);
  });
});

describe('an id that is in flight', () => {
  const twins: readonly (readonly [what: string, ids: readonly string[]])[] = [
    ['the same', ['1', '1']],
    ['1.0', ['1', '1.0']],
    ['1e0', ['1', '1e0']],
    ['a text', ['1', '"1"']],
    ['a text with a zero', ['1', '"01"']],
  ];
  it.each(twins)('is refused with the whole batch that has it twice, as %s', async (_what, [one, two]) => {
    const { send, recorded } = await open({ gate: blocking });
    const { jwt } = await issue();
    const [first, second] = [JSON.stringify(call(0)), JSON.stringify(message('tools/list', 0))];
    const batch = `[${first.replace('"id":0', `"id":${one}`)},${second.replace('"id":0', `"id":${two}`)}]`;
    const answered = await send(jwt, batch);
    expect(answered.status).toBe(400);
    expect(((await answered.json()) as object[]).length).toBe(2);
    expect(recorded).toEqual([]);
  });

  it('is refused in its session, and its answer is looked at as that of its own call', async () => {
    const { send, begin, waiting, recorded } = await open({ gate: blocking });
    const { jwt } = await issue();
    const session = await begin(jwt);
    const asked = send(jwt, call(5), session);
    await until(() => waiting.length === 1, { what: 'the call at the server' });
    for (const id of [5, '5']) {
      const answered = await send(jwt, message('tools/list', id), session);
      expect(await answered.json()).toMatchObject({ id, error: { code: -32_600 } });
    }
    // Elsewhere it is another id.
    expect((await send(jwt, message('ping', 5))).status).toBe(200);
    expect((await send(jwt, message('ping', 5), await begin(jwt))).status).toBe(200);
    waiting[0]?.answer(secret);
    expect(await (await asked).text()).toContain('pii_detected');
    expect(await (await send(jwt, message('ping', 5), session)).json()).toMatchObject({ id: 5, result: {} });
    expect(recorded.filter(({ body }) => body.includes('tools/list'))).toEqual([]);
  });

  it('is refused over standard input, also after it was cancelled', async () => {
    const { requests, answers, reports, views } = await guardParts({ service, gate: blocking }, 'stdio');
    const { jwt } = await issue();
    const [input, output] = [new PassThrough(), new PassThrough()];
    let out = '';
    output.setEncoding('utf8').on('data', (data: string) => {
      out += data;
    });
    const ended = new AbortController();
    // It answers a call when it is told to, by a notification.
    const program = `let held = [];
      require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
        const { id, method } = JSON.parse(line);
        const answer = (id, result) => console.log(JSON.stringify({ jsonrpc: '2.0', id, result }));
        if (method === 'tools/call') held.push(id);
        else if (method === 'notifications/go') for (const id of held.splice(0)) answer(id, ${JSON.stringify(secret)});
        else if (id !== undefined) answer(id, {});
      });`;
    const running = runStdioProxy({
      ...{ command: process.execPath, args: ['-e', program], env: { PATH: process.env['PATH'] } },
      ...{ input, output, passport: () => jwt, requests, answers, reports, views },
      ...{ answerBytesMax: proxyLimits.answerBytesDefault, forwardsPassport: false },
      ...{ signal: ended.signal, logger: silentLogger },
    });
    const answersOut = () =>
      out
        .split('\n')
        .slice(0, -1)
        .map((line) => JSON.parse(line));
    const sendAll = (...all: object[]) =>
      input.write(all.map((each) => `${JSON.stringify(each)}\n`).join(''));
    const cancelled = { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 1 } };
    sendAll(call(1), cancelled, message('initialize', 1), message('tools/list', '1'), message('ping', 2));
    await until(() => answersOut().some(({ id }) => id === 2), { what: 'the answer to the last one' });
    expect(answersOut().map(({ id, error }) => [id, error?.code])).toEqual([
      ...[
        [1, -32_600],
        ['1', -32_600],
        [2, undefined],
      ],
    ]);
    sendAll({ jsonrpc: '2.0', method: 'notifications/go' });
    await until(() => answersOut().length === 4, { what: 'the late answer' });
    expect(answersOut()[3]).toMatchObject({ id: 1, error: { data: { reason: 'pii_detected' } } });
    sendAll(message('ping', 1));
    await until(() => answersOut().length === 5, { what: 'an id that is free again' });
    expect(answersOut()[4]).toMatchObject({ id: 1, result: {} });
    ended.abort();
    await running;
  });
});
