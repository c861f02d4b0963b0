import { request } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { gzipSync } from 'node:zlib';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { proxyLimits } from '../../mcp-proxy/limits.ts';
import { freePort } from '../support/base/free-port.ts';
import { until } from '../support/base/until.ts';
import { type GuardedOptions, startGuarded } from './support/guarded.ts';
import { answerJson, type Recorded, startRecorder } from './support/mcp-servers.ts';
import { type ClientService, startClientService } from './support/service.ts';

/** What reaches the server behind the proxy, byte by byte, and what does not. */
let service: ClientService;
let gate: string;
let passport: string;
beforeAll(async () => {
  service = await startClientService();
  const constraints = { spend_limits: { per_transaction_usd: 10, unpriced: 'permit' as const } };
  gate = (await service.agentTrust.gates.create({ name: 'Raw', trust_level: 'L1', constraints })).gate_id;
  const issued = await service.agentTrust.passports.issue({ agent_id: 'raw', permissions: ['tools:pay'] });
  passport = issued.jwt ?? '';
  await service.testSidecar.caughtUp();
});
afterAll(() => service.close());

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

type AnswerOf = Parameters<typeof startRecorder>[0];
const echo: AnswerOf = ({ body }, response) =>
  answerJson(response, JSON.parse(Buffer.from(body, 'latin1').toString('utf8')));

async function open(answer: AnswerOf = echo, change: Partial<GuardedOptions> = {}) {
  const server = await startRecorder(answer);
  closing.push(() => server.close());
  const proxy = await startGuarded({ service, gate, upstream: server.url, ...change });
  closing.push(() => proxy.close());
  const json = { 'content-type': 'application/json', 'x-agent-passport': passport };
  return {
    proxy,
    recorded: server.recorded as readonly Recorded[],
    /** `body`: an object is sent as JSON, anything else as it is. */
    post: async (body: unknown, headers: Record<string, string> = {}) => {
      const bytes = typeof body === 'string' || body instanceof Uint8Array ? body : JSON.stringify(body);
      const init = { method: 'POST', headers: { ...json, ...headers }, body: bytes as never };
      const response = await fetch(proxy.url, init);
      const text = await response.text();
      return { status: response.status, headers: response.headers, text, body: parsed(text) };
    },
  };
}
// biome-ignore lint/suspicious/noExplicitAny: answers are inspected member by member
function parsed(text: string): any {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

const call = (name: string, args: object = {}, more: object = {}) => ({
  jsonrpc: '2.0',
  id: 1,
  method: 'tools/call',
  params: { name, arguments: args, ...more },
});
const callText = JSON.stringify(call('read'));

describe('a call that hides from the proxy', () => {
  const params = '"params":{"name":"read","arguments":{}}';
  const rpc = (members: string) => `{"jsonrpc":"2.0",${members}}`;
  const broken = Buffer.concat([Buffer.from(callText.slice(0, -1)), Buffer.from(',"x":"\xff"}', 'latin1')]);
  const deep = `${'['.repeat(101)}${']'.repeat(101)}`;
  const hidden: readonly (readonly [what: string, body: unknown])[] = [
    ['after a second method', rpc(`"id":1,"method":"tools/call","method":"ping",${params}`)],
    ['after an escaped name', rpc(`"id":1,"method":"ping","meth\\u006fd":"tools/call",${params}`)],
    ['in upper case', rpc(`"id":1,"Method":"tools/call",${params}`)],
    ['with a long s', rpc('"id":1,"method":"ping","param\u017f":{}')],
    ['by a loose method', rpc(`"id":1,"method":" Tools/Call",${params}`)],
    ['after a NUL in its method', rpc(`"id":1,"method":"tools/call\\u0000",${params}`)],
    ['by a method in a list', rpc(`"id":1,"method":["tools/call"],${params}`)],
    ['in a prototype', rpc(`"id":1,"__proto__":{"method":"tools/call",${params}}`)],
    ['by another name', rpc('"id":1,"method":"tools/call","params":{"name":"pay","Name":"read"}')],
    ['without an id', rpc(`"method":"tools/call",${params}`)],
    ['in a batch in a batch', `[[${callText}]]`],
    ['in too large a batch', `[${Array(65).fill(callText).join()}]`],
    ['after a byte order mark', `\ufeff${callText}`],
    ['in broken UTF-8', broken],
    ['after another value', `{}${callText}`],
    ['in deep nesting', rpc(`"id":1,"method":"ping","params":${deep}`)],
    ['by a number that readers round', rpc('"id":12345678901234567890,"method":"ping"')],
  ];
  const other: readonly (readonly [what: string, body: unknown, headers: Record<string, string>])[] = [
    ['as plain text', callText, { 'content-type': 'text/plain' }],
    ['in UTF-7', callText, { 'content-type': 'application/json; charset=utf-7' }],
    ['compressed', gzipSync(callText), { 'content-encoding': 'gzip' }],
  ];
  it.each([
    ...hidden.map(([what, body]) => [what, 400, body, {}] as const),
    ...other.map(([what, ...sent]) => [what, 415, ...sent] as const),
  ])('%s is refused: %i', async (_what, status, body, headers) => {
    const { post, recorded } = await open();
    const answer = await post(body, headers);
    expect([answer.status, answer.body.jsonrpc, typeof answer.body.error.message]).toEqual([
      ...[status, '2.0', 'string'],
    ]);
    expect(recorded).toEqual([]);
  });

  it.each([
    ['a notification', '{"jsonrpc":"2.0","method":"x","params":{"a":1e999}}'],
    ['an answer', '{"jsonrpc":"2.0","id":7,"result":{"a":1,"a":2}}'],
    ['a long notification', `{"jsonrpc":"2.0","method":"x","params":{"a":"${'x'.repeat(5_000_000)}"}}`],
  ])('is answered under no id where it is %s', async (_what, text) => {
    const { post, recorded } = await open();
    const { status, body } = await post(text);
    expect([status >= 400, Object.keys(body)]).toEqual([true, ['jsonrpc', 'error']]);
    expect(recorded).toEqual([]);
  });

  it.each([
    ['with members of its own', { ...call('read'), extra: true, result: {} }],
    ['in a batch of one', [call('read')]],
    ['with null for its arguments', { ...call('read'), params: { name: 'read', arguments: null } }],
  ])('%s is decided like any other', async (_what, message) => {
    const { post, recorded } = await open();
    const { status, body } = await post(message);
    const answer = Array.isArray(message) ? body[0] : body;
    expect([status, answer.result.isError, recorded]).toEqual([200, true, []]);
  });

  it('is refused where a header names another method or tool than the message', async () => {
    const { post, recorded } = await open();
    const answers = [
      await post(call('pay'), { 'mcp-method': 'ping' }),
      await post({ jsonrpc: '2.0', id: 1, method: 'ping' }, { 'mcp-method': 'tools/call' }),
      await post(call('pay'), { 'mcp-name': 'read' }),
      await post([call('pay')], { 'mcp-method': 'tools/call' }),
      await post(
        { jsonrpc: '2.0', id: 1, method: 'resources/read', params: { uri: 'file:///a' } },
        { 'mcp-name': 'file:///b' },
      ),
    ];
    expect(answers.map(({ status, body }) => [status, body.error.code])).toEqual(
      Array(5).fill([400, -32_020]),
    );
    expect(recorded).toEqual([]);
    const encoded = `=?base64?${Buffer.from('pay').toString('base64')}?=`;
    expect((await post(call('pay'), { 'mcp-method': 'tools/call', 'mcp-name': encoded })).status).toBe(200);
  });

  it('is refused where it comes by another method, to another path, or in the body of a GET', async () => {
    const { proxy, recorded } = await open();
    const at = new URL(proxy.url);
    const send = (method: string, path: string, body: string | null) =>
      new Promise<number>((resolve, reject) => {
        const headers = { 'content-type': 'application/json', 'x-http-method-override': 'POST' };
        const sent = request({ host: at.hostname, port: at.port, path, method, headers }, (answer) => {
          answer.resume();
          resolve(answer.statusCode ?? 0);
        });
        sent.on('error', reject);
        if (body !== null) sent.setHeader('content-length', body.length);
        sent.end(body ?? undefined);
      });
    expect([
      await send('PUT', '/mcp', callText),
      await send('GET', '/mcp', callText),
      await send('DELETE', '/mcp', callText),
      await send('POST', '/mcp/', callText),
      await send('POST', '//mcp', callText),
      await send('POST', '/%6dcp', callText),
    ]).toEqual([405, 400, 400, 404, 404, 404]);
    expect(recorded).toEqual([]);
  });

  it.each([
    [
      'a price',
      { spend_limits: { per_transaction_usd: 10 } },
      { amount_usd: 0, estimated_cost_usd: 0 },
      'amount_missing',
    ],
    [
      'a domain',
      { allowed_domains: ['api.example.com'] },
      { url: 'https://api.example.com/' },
      'domain_missing',
    ],
  ])('is refused although it brings %s of its own', async (_what, constraints, own, reason) => {
    const strict = await service.agentTrust.gates.create({ name: 'Strict', trust_level: 'L1', constraints });
    await service.testSidecar.caughtUp();
    const { post, recorded } = await open(echo, { gate: strict.gate_id, amounts: new Map() });
    for (const more of [{}, own]) {
      const { body } = await post(call('pay', { amount: 1_000 }, more));
      expect([more, body.result._meta?.['agent-trust/decision'].reason]).toEqual([more, reason]);
    }
    expect(recorded).toEqual([]);
  });
});

describe('what passes', () => {
  const odd = Buffer.from(
    ' {"id" : 7,\t"method":"no/such",\r\n"jsonrpc":"2.0","params":{"a":1.50,"b":"\\u00e9\\/"} }',
  );

  it("is byte for byte the client's, and the status and headers of its answer the server's", async () => {
    const { post, recorded } = await open((_recorded, response) => {
      response.writeHead(recorded.length === 1 ? 200 : 418, 'Odd', {
        'X-Odd': 'ä'.normalize(),
        'mcp-session-id': 'session',
        'content-type': 'text/event-stream',
      });
      response.end(': odd\n\n');
    });
    await post({ jsonrpc: '2.0', id: 0, method: 'initialize' });
    const response = await post(odd, {
      authorization: 'Bearer of-the-server',
      'mcp-session-id': 'session',
      'mcp-protocol-version': '2025-11-25',
      'mcp-param-region': 'eu',
    });
    expect([response.status, response.headers.get('mcp-session-id'), response.text]).toEqual([
      ...[418, 'session', ': odd\n\n'],
    ]);
    expect(recorded[1]?.body).toBe(odd.toString('latin1'));
    expect(recorded[1]?.headers).toMatchObject({
      authorization: 'Bearer of-the-server',
      'mcp-session-id': 'session',
      'mcp-protocol-version': '2025-11-25',
      'mcp-param-region': 'eu',
    });
    expect(recorded[1]?.headers).not.toHaveProperty('x-agent-passport');
  });

  it('is a permitted call, without the passport wherever that was shown', async () => {
    const { post, recorded } = await open();
    await post(call('pay', { amount: 1 }), { authorization: `Passport ${passport}` });
    const meta = { 'agent-trust/passport': passport, progressToken: 5 };
    await post(call('pay', { amount: 1 }, { _meta: meta }), { 'x-agent-passport': '' });
    expect(recorded).toHaveLength(2);
    expect(JSON.stringify(recorded)).not.toContain(passport);
    expect(JSON.parse(recorded[1]?.body ?? '').params._meta).toEqual({ progressToken: 5 });
    const asked = await open(echo, { forwardsPassport: true });
    await asked.post(call('pay', { amount: 1 }));
    expect(asked.recorded[0]?.headers['x-agent-passport']).toBe(passport);
  });

  it.each([
    ['beside params', { ...call('pay', { amount: 1 }), _meta: { 'agent-trust/passport': 'another' } }, {}],
    [
      'in an answer to the server',
      { jsonrpc: '2.0', id: 1, result: { _meta: { 'agent-trust/passport': 'another' } } },
      {},
    ],
    [
      'in an error for the server',
      {
        jsonrpc: '2.0',
        id: 1,
        error: { code: 1, message: 'x', data: { 'agent-trust/passport': 'another' } },
      },
      {},
    ],
    ['in a notification', { jsonrpc: '2.0', method: 'x', params: { 'agent-trust/passport': 'another' } }, {}],
    ['in capitals of a header', { jsonrpc: '2.0', id: 1, method: 'ping' }, { X_Agent_Passport: 'another' }],
    ['in an argument', 'token', {}],
    ['in an argument with escapes', 'escaped', {}],
    ['in cookies', { jsonrpc: '2.0', id: 1, method: 'ping' }, { cookie: 'a=1; passport=TOKEN; b=2' }],
    ['in a header of its own', { jsonrpc: '2.0', id: 1, method: 'ping' }, { 'x-token': 'Bearer TOKEN' }],
    [
      'as the token of the server',
      { jsonrpc: '2.0', id: 1, method: 'ping' },
      { authorization: 'Bearer TOKEN' },
    ],
  ])('is without the passport %s', async (_what, message, headers) => {
    const { post, recorded } = await open();
    const inArgument = JSON.stringify(call('pay', { amount: 1, note: `a ${passport} b` }));
    const escaped = inArgument.replace(passport.slice(0, 1), `\\u00${passport.charCodeAt(0).toString(16)}`);
    const sent = message === 'token' ? inArgument : message === 'escaped' ? escaped : message;
    const shown = Object.entries(headers).map(([name, value]) => [name, value.replace('TOKEN', passport)]);
    await post(sent, Object.fromEntries(shown));
    expect(recorded).toHaveLength(1);
    expect(JSON.stringify(recorded)).not.toMatch(/another|agent-trust\/passport/);
    expect(JSON.stringify(recorded)).not.toContain(passport);
    expect(recorded[0]?.headers.cookie ?? 'a=1').toContain('a=1');
  });

  it('is charged each time, or once under a key where that was asked for', async () => {
    const daily = { spend_limits: { daily_usd: 3 } };
    const own = (
      await service.agentTrust.gates.create({ name: 'Keys', trust_level: 'L1', constraints: daily })
    ).gate_id;
    await service.testSidecar.caughtUp();
    const keyed = call('pay', { amount: 2 }, { _meta: { 'agent-trust/idempotency_key': 'k' } });
    const taking = await open(echo, { gate: own, takesIdempotencyKeys: true });
    for (let copy = 0; copy < 3; copy++) await taking.post(keyed);
    expect(taking.recorded).toHaveLength(3);
    const plain = await open(echo, { gate: own });
    expect((await plain.post(keyed)).body.result.isError).toBe(true);
    expect(plain.recorded).toEqual([]);
  });

  it('is the rest of a batch, with the answers to the calls that were refused', async () => {
    const batch = [
      { ...call('read'), id: 'a' },
      { jsonrpc: '2.0', id: 'b', method: 'ping' },
      { ...call('pay', { amount: 1 }), id: 'c' },
    ];
    const ids = (answers: readonly { readonly id: unknown }[]) => answers.map(({ id }) => id);
    const json = await open();
    expect(ids((await json.post(batch)).body)).toEqual(['b', 'c', 'a']);
    expect(ids(JSON.parse(json.recorded[0]?.body ?? ''))).toEqual(['b', 'c']);

    const events = await open((_recorded, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.end('data: {"jsonrpc":"2.0","id":"b","result":{}}\n\n');
    });
    const { text } = await events.post(batch);
    expect(text.match(/"id":"."/g)).toEqual(['"id":"a"', '"id":"b"']);

    const accepted = await open((_recorded, response) => response.writeHead(202).end());
    const notified = [
      { ...call('read'), id: 'a' },
      { jsonrpc: '2.0', method: 'notifications/x' },
    ];
    expect(ids((await accepted.post(notified)).body)).toEqual(['a']);
  });
});

describe('lists of tools', () => {
  const tools = [{ name: 'pay' }, { name: 'read' }, { name: 'Pay' }, { name: 'n\u212a' }, { title: 'none' }];
  const listed = {
    jsonrpc: '2.0',
    id: 1,
    result: { tools, nextCursor: 'x', cacheScope: 'public', _meta: { own: 1 } },
  };
  const list = { jsonrpc: '2.0', id: 1, method: 'tools/list' };

  it('lose tools that the passport does not permit, and may not be cached', async () => {
    const { post, recorded } = await open((_recorded, response) => answerJson(response, listed));
    const { body } = await post(list, { 'accept-encoding': 'gzip' });
    expect(body.result).toEqual({
      tools: [{ name: 'pay' }, { name: 'Pay' }],
      nextCursor: 'x',
      cacheScope: 'private',
      _meta: { own: 1, 'agent-trust/hidden_tools': { count: 3 }, 'agent-trust/untrusted-data': true },
    });
    expect(recorded[0]?.headers['accept-encoding']).toBe('identity');
  });

  it('are 401 without one passport, and say why they are empty', async () => {
    const { post, recorded } = await open((_recorded, response) => answerJson(response, listed));
    const refused = async (headers: Record<string, string>) => {
      const { status, body, headers: answered } = await post(list, headers);
      expect([status, body.id, answered.get('www-authenticate')]).toEqual([401, 1, 'Passport']);
      return body.error.data['agent-trust/decision'].reason;
    };
    expect(await refused({ 'x-agent-passport': '' })).toBe('passport_missing');
    expect(await refused({ 'x-agent-passport': 'x' })).toBe('passport_malformed');
    expect(await refused({ authorization: 'Passport other' })).toBe('passport_ambiguous');
    expect(recorded).toEqual([]);
    const upstream = new URL(`http://127.0.0.1:${await freePort()}`);
    const away = await open((_recorded, response) => answerJson(response, listed), {
      controlPlaneUrl: upstream.origin,
    });
    expect((await away.post(list)).body.result._meta['agent-trust/hidden_tools']).toMatchObject({
      ...{ count: 5, reason: 'service_unavailable' },
    });
  });

  it.each([
    ['with LF', '\n'],
    ['with CRLF', '\r\n'],
  ])(
    'lose it in a stream too, %s, in pieces of one byte, and everything else stays as it is',
    async (_what, end) => {
      const [first, second] = [JSON.stringify(listed).slice(0, 40), JSON.stringify(listed).slice(40)];
      // Cut between two members: the data of an event is joined with a line feed, which JSON allows there.
      const cut = `${first}${second}`.indexOf(',"nextCursor"');
      const data = JSON.stringify(listed);
      const before = [
        ...[': comment', 'id: 1', 'event: message', 'data: {"method":"notifications/tools/list_changed"}'],
        '',
      ];
      const lists = ['id: 2', `data: ${data.slice(0, cut)}`, `data:${data.slice(cut)}`, 'retry: 5', ''];
      const after = [':', 'data', '', 'data: cut off'];
      const lines = [...before, ...lists, ...after].map((line) => `${line}${end}`).join('');
      const { post, proxy } = await open(async ({ method }, response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' });
        const bytes = Buffer.from(method === 'GET' ? `\ufeff${lines}` : lines);
        for (const byte of bytes) response.write(Buffer.from([byte]));
        response.end();
      });
      const { text } = await post(list);
      const kept = (part: readonly string[]) => part.map((line) => `${line}${end}`).join('');
      expect(text.startsWith(kept(before))).toBe(true);
      expect(text.endsWith(kept([':', 'data', '']))).toBe(true);
      const changed = text.slice(kept(before).length, -kept([':', 'data', '']).length);
      expect(changed.startsWith(`id: 2${end}retry: 5${end}data: {`)).toBe(true);
      expect(changed).not.toContain('"read"');
      expect(changed).toContain('"Pay"');
      // A stream that is resumed may bring the list of before.
      const headers = { accept: 'text/event-stream', 'last-event-id': '1', 'x-agent-passport': passport };
      const resumed = await (await fetch(proxy.url, { headers })).text();
      expect(resumed).toContain('"Pay"');
      expect(resumed).not.toContain('"read"');
    },
  );

  it.each([
    ['a type that clients look for anywhere', { 'content-type': 'text/plain; application/json' }],
    ['escapes in its names', { 'content-type': 'application/json' }],
  ])('lose it also with %s', async (_what, headers) => {
    const escaped = JSON.stringify(listed).replace('"tools"', '"t\\u006fols"');
    const { post } = await open((_recorded, response) => {
      response.writeHead(200, headers);
      response.end(escaped);
    });
    const { body } = await post(list);
    expect(body.result.tools).toEqual([{ name: 'pay' }, { name: 'Pay' }]);
  });

  it('are refused where they cannot be read', async () => {
    const zipped = await open((_recorded, response) => {
      response.writeHead(200, { 'content-type': 'application/json', 'content-encoding': 'gzip' });
      response.end(gzipSync(JSON.stringify(listed)));
    });
    expect((await zipped.post(list)).body).toMatchObject({ id: 1, error: { message: /compresses/ } });
    const broken = await open((_recorded, response) => {
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end('{"result":{"tools":[');
    });
    expect((await broken.post(list)).status).toBe(502);
  });
});

describe('other sites', () => {
  it.each([
    ['a name of another site', { host: 'evil.example' }, 403],
    ['a page of another site', { origin: 'https://evil.example' }, 403],
    ['a page of this machine', { origin: 'http://localhost:6274' }, 200],
    ['a page that was allowed', { origin: 'https://inspector.example' }, 200],
  ])('%s', async (_what, headers, status) => {
    const { proxy } = await open(echo, { origins: ['https://inspector.example'] });
    const { hostname, port, pathname } = new URL(proxy.url);
    const answered = await new Promise<number | undefined>((resolve, reject) => {
      const all = { 'content-type': 'application/json', 'x-agent-passport': passport, ...headers };
      const sent = request({ hostname, port, path: pathname, method: 'POST', headers: all }, (answer) => {
        answer.resume();
        resolve(answer.statusCode);
      });
      sent.on('error', reject).end('{"jsonrpc":"2.0","id":1,"method":"ping"}');
    });
    expect(answered).toBe(status);
  });
});

describe('when something fails', () => {
  const ping = { jsonrpc: '2.0', id: 'p', method: 'ping' };

  it('answers with the id where the server is away, or has not begun to answer in time', async () => {
    const upstream = new URL(`http://127.0.0.1:${await freePort()}/mcp`);
    const away = await open(echo, { upstream });
    expect(await away.post(ping)).toMatchObject({ status: 502, body: { id: 'p', error: { code: -32_603 } } });
    const late = await open(() => undefined, { answerMsMax: 50 });
    const { status, body } = await late.post(ping);
    expect([status, body.id, body.error.message]).toEqual([
      504,
      'p',
      'The MCP server has not answered within 0.05 s.',
    ]);
  });

  it('ends the request to the server when the client has gone, before and in its answer', async () => {
    let gone = 0;
    let asked = 0;
    const { proxy } = await open(({ method }, response) => {
      asked += 1;
      response.once('close', () => {
        gone += 1;
      });
      if (method === 'GET') response.writeHead(200, { 'content-type': 'text/event-stream' }).write(':\n');
    });
    const waiting = new AbortController();
    const headers = { 'content-type': 'application/json', 'x-agent-passport': passport };
    const body = JSON.stringify(ping);
    const posted = fetch(proxy.url, { method: 'POST', headers, body, signal: waiting.signal }).catch(
      () => null,
    );
    await until(() => asked === 1, { what: 'the POST at the server' });
    waiting.abort();
    await posted;
    const reading = new AbortController();
    const stream = await fetch(proxy.url, { headers, signal: reading.signal });
    // Its headers and its comment are here although no event is.
    await stream.body?.getReader().read();
    reading.abort();
    await until(() => gone === 2, { what: 'both requests at the server to end' });
  });

  it('refuses an oversized body, and goes on', async () => {
    const { post } = await open();
    const large = { ...ping, params: { text: 'x'.repeat(proxyLimits.messageBytesMax) } };
    expect((await post(large).catch(() => ({ status: 413 }))).status).toBe(413);
    const arguments64 = call('pay', { amount: 1, text: 'x'.repeat(64 * 1024) });
    expect((await post(arguments64)).body.result).toMatchObject({ isError: true });
    const almost = { ...ping, params: { text: 'x'.repeat(proxyLimits.messageBytesMax - 1_000) } };
    expect((await post(almost)).status).toBe(200);
  });

  it('is bounded under ten times the load that it takes, and serves afterwards', async () => {
    const openRequestsMax = 20;
    const held: (() => void)[] = [];
    let isHolding = true;
    const { post, recorded } = await open(
      (entry, response) => {
        if (isHolding) held.push(() => echo(entry, response));
        else void echo(entry, response);
      },
      { openRequestsMax },
    );
    // Nothing is answered: each further request adds to those that are open, until they are too many.
    const statuses: number[] = [];
    const asked = Array.from({ length: 10 * openRequestsMax }, async () => {
      statuses.push((await post(call('pay', { amount: 1 }))).status);
    });
    await until(() => statuses.length === 9 * openRequestsMax, { what: 'the refusals' });
    expect(new Set(statuses)).toEqual(new Set([503]));
    await until(() => recorded.length === openRequestsMax, { what: 'those that are let in' });
    isHolding = false;
    for (const answer of held) answer();
    await Promise.all(asked);
    expect(statuses.filter((status) => status === 200)).toHaveLength(openRequestsMax);
    expect((await post(call('pay', { amount: 1 }))).status).toBe(200);
  });

  it('lets messages in flight be answered when it stops, ends streams, and takes no more', async () => {
    const held: (() => void)[] = [];
    const { proxy } = await open((entry, response) => {
      if (entry.method === 'GET')
        response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders();
      else held.push(() => echo(entry, response));
    });
    const headers = { 'content-type': 'application/json', 'x-agent-passport': passport };
    const stream = await fetch(proxy.url, { headers });
    const asked = fetch(proxy.url, { method: 'POST', headers, body: JSON.stringify(ping) });
    await until(() => held.length === 1, { what: 'the message at the server' });
    const closed = proxy.close();
    await expect(buffer(stream.body as never)).rejects.toThrow();
    await expect(fetch(proxy.url, { method: 'POST', headers, body: '{}' })).rejects.toThrow();
    for (const answer of held) answer();
    expect((await asked).status).toBe(200);
    await closed;
  });
});

describe('a server that leads elsewhere', () => {
  const paid = call('pay', { amount: 1 });
  /** A server at `/mcp/`, as FastMCP has it. */
  const redirects =
    (status: number, location: string): AnswerOf =>
    (recorded, response) => {
      if (recorded.url === '/mcp') response.writeHead(status, { location }).end('Redirect');
      else echo(recorded, response);
    };

  it.each([301, 302, 307, 308])('is followed within its origin, with method and body: %i', async (status) => {
    const { post, recorded } = await open(redirects(status, '/mcp/?from=mcp'));
    for (let i = 0; i < 3; i += 1) {
      const { body, headers } = await post(paid, { authorization: 'Bearer other' });
      expect(body).toEqual(paid);
      expect(headers.get('location')).toBeNull();
    }
    expect(recorded.map(({ url }) => url)).toEqual(Array(3).fill(['/mcp', '/mcp/?from=mcp']).flat());
    for (const { method, body, headers } of recorded) {
      expect([method, body]).toEqual(['POST', JSON.stringify(paid)]);
      expect(headers['x-agent-passport']).toBeUndefined();
      expect(headers.authorization).toBe('Bearer other');
    }
  });

  it('is followed by its whole address, and for GET and DELETE too', async () => {
    let origin = '';
    const { proxy, recorded } = await open(({ url, headers }, response) => {
      origin = `http://${headers.host}`;
      if (url === '/mcp') response.writeHead(307, { location: `${origin}/mcp/` }).end();
      else answerJson(response, {});
    });
    for (const method of ['GET', 'DELETE']) {
      const headers = { 'x-agent-passport': passport };
      expect((await fetch(proxy.url, { method, headers, redirect: 'manual' })).status).toBe(200);
    }
    expect(recorded.map(({ method, url }) => `${method} ${url}`)).toEqual([
      ...['GET /mcp', 'GET /mcp/', 'DELETE /mcp', 'DELETE /mcp/'],
    ]);
  });

  it.each([
    ['another host', 307, 'http://evil.example/mcp?token=a', '--upstream http://evil.example/mcp'],
    ['another scheme', 301, 'https://127.0.0.1/mcp', '--upstream https://127.0.0.1/mcp'],
    ['no scheme', 307, '//evil.example/mcp', '--upstream http://evil.example/mcp'],
    ['a user', 307, 'http://user:secret@evil.example/', '--upstream http://evil.example/'],
    ['nowhere', 307, '', 'redirects to no address (HTTP 307)'],
    ['a choice', 300, '/mcp/', 'redirects to no address (HTTP 300)'],
    ['a proxy', 305, 'http://127.0.0.1:9', 'redirects to no address (HTTP 305)'],
    ['what is no more', 306, '', 'redirects to no address (HTTP 306)'],
    ['what no call is', 303, '/mcp/', 'redirects to no address'],
  ])('is 502 where it leads to %s', async (_what, status, location, message) => {
    const { post, recorded } = await open(redirects(status, location));
    const { status: got, body, headers, text } = await post(paid);
    expect([got, body.id, headers.get('location')]).toEqual([502, 1, null]);
    expect(body.error.message).toContain(message);
    expect(text).not.toMatch(/secret|token/);
    expect(recorded).toHaveLength(1);
  });

  it('is 502 where it goes in circles, and 504 where it takes too long over it', async () => {
    const circle = await open((_, response) => response.writeHead(307, { location: '/mcp' }).end());
    expect((await circle.post(paid)).status).toBe(502);
    expect(circle.recorded).toHaveLength(proxyLimits.upstreamRedirectsMax + 1);
    const slow = await open(
      (_, response) => setTimeout(() => response.writeHead(307, { location: '/mcp' }).end(), 80),
      { answerMsMax: 200 },
    );
    expect((await slow.post(paid)).status).toBe(504);
  });

  it('leads no client past the proxy by a header of its answer', async () => {
    const own = 'http://127.0.0.1:9/mcp';
    const leading = {
      location: own,
      'content-location': own,
      link: `<${own}>; rel="alternate"`,
      refresh: `0; url=${own}`,
      'alt-svc': 'h2="127.0.0.1:9"',
      'www-authenticate': `Bearer resource_metadata="${own}", scope="a", Bearer error="b", resource_metadata=${own}`,
      'x-own': 'kept',
    };
    for (const status of [200, 201, 401]) {
      for (const type of ['application/json', 'text/event-stream', 'text/plain']) {
        const { post } = await open((_, response) => {
          response.writeHead(status, { ...leading, 'content-type': type });
          response.end(type === 'application/json' ? '{"jsonrpc":"2.0","id":1,"result":{}}' : '');
        });
        for (const message of [paid, { jsonrpc: '2.0', id: 2, method: 'tools/list' }]) {
          const { status: got, headers } = await post(message);
          expect([got, headers.get('x-own')]).toEqual([status, 'kept']);
          expect(JSON.stringify([...headers])).not.toContain('127.0.0.1:9');
          expect(headers.get('www-authenticate')).toBe('Bearer scope="a", Bearer error="b"');
        }
      }
    }
  });

  it.each(['event: endpoint\n', '\u00ef\u00bb\u00bfevent: endpoint\n'])(
    'tells no client another address by the event %j',
    async (line) => {
      const { proxy } = await open(({ method }, response) => {
        if (method !== 'GET') return answerJson(response, {});
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        response.write(Buffer.from(`${line}data: http://127.0.0.1:9/messages\n\n`, 'latin1'));
      });
      const headers = { accept: 'text/event-stream', 'x-agent-passport': passport };
      const answer = await fetch(proxy.url, { headers });
      const seen = await answer.text().catch((error: Error) => `broke off: ${error.message}`);
      expect(seen).toMatch(/^broke off/);
    },
  );
});
