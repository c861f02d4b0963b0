import { Agent, request as httpRequest } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { limits } from '../../shared/model/limits.ts';
import { type Api, type Reply, startApi } from '../support/api.ts';
import { expectError } from '../support/expect-error.ts';

let api: Api;
let port: number;
beforeAll(async () => {
  api = await startApi();
  await api.app.listen({ host: '127.0.0.1', port: 0 });
  port = (api.app.server.address() as AddressInfo).port;
});
afterAll(() => api.close());

describe('addresses', () => {
  it('answers 404 route_not_found with and without a key, whatever the body', async () => {
    for (const key of [api.adminKey, null, 'nonsense']) {
      expectError(await api.call({ url: '/v1/nothing-here', key }), 'route_not_found');
      expectError(await api.call({ url: '/elsewhere', key, body: '{"broken' }), 'route_not_found');
    }
  });

  it('answers 404 to a method that an address does not have', async () => {
    expectError(await api.call({ method: 'PATCH', url: '/v1/gates', body: {} }), 'route_not_found');
  });

  it.each(['/v1/gates/%ZZ', '/v1/gates/%E0%A4%A', '/v1/gates/%FF', '/%', '/v1/gates/%ED%A0%80'])(
    'refuses bad percent-encoding in %s',
    async (url) => {
      expectError(await api.call({ url }), 'invalid_request');
      expectError(await api.call({ url, key: null }), 'invalid_request');
    },
  );

  it('refuses a part of the path that is over-long, and takes the longest as an id that is not there', async () => {
    const longest = 'a'.repeat(limits.pathParamCharsMax);
    expectError(await api.call({ url: `/v1/gates/${longest}` }), 'gate_not_found');
    expectError(await api.call({ url: `/v1/gates/${longest}a` }), 'invalid_request');
  });

  it('refuses U+0000 in a parameter', async () => {
    expectError(await api.call({ url: '/v1/gates/gate_%00' }), 'invalid_request', 'id');
    expectError(await api.call({ url: '/v1/passports?issuer_id=%00' }), 'invalid_request', 'issuer_id');
  });

  it('answers HEAD like GET without a body', async () => {
    const reply = await api.call({ method: 'HEAD', url: '/v1/gates' });
    expect(reply.status).toBe(200);
    expect(reply.body).toBe('');
  });

  it('gives every answer a request id of its own, and takes none from the caller', async () => {
    const headers = { 'x-request-id': 'mine' };
    const ids = [
      await api.call({ url: '/v1/gates', headers }),
      await api.call({ url: '/livez', headers }),
      await api.call({ url: '/nowhere', headers }),
    ].map((reply) => reply.headers['x-request-id']);
    expect(new Set(ids).size).toBe(3);
    for (const id of ids) expect(id).toMatch(/^req_[0-9a-z]{26}$/);
  });
});

describe('query parameters', () => {
  it.each([
    ['limit', 'limit=0'],
    ['limit', 'limit=201'],
    ['limit', 'limit='],
    ['limit', 'limit=1e1'],
    ['limit', 'limit=0x10'],
    ['limit', 'limit=+5'],
    ['limit', 'limit= 5'],
    ['limit', 'limit=5.0'],
    ['limit', 'limit=ten'],
    ['limit', 'limit=1&limit=2'],
    ['limit', 'limit=99999999999999999999'],
    ['offset', 'offset=-1'],
    ['offset', 'offset=1000001'],
    ['stauts', 'stauts=revoked'],
  ])('names %s for ?%s', async (param, query) => {
    expectError(await api.call({ url: `/v1/gates?${query}` }), 'invalid_request', param);
  });

  it('takes the largest page', async () => {
    expect((await api.call({ url: '/v1/gates?limit=200&offset=1000000' })).body).toEqual({
      items: [],
      total: 0,
      limit: 200,
      offset: 1_000_000,
      next_cursor: null,
    });
  });
});

describe('bodies', () => {
  const post = (body: unknown, headers: Record<string, string> = {}): Promise<Reply> =>
    api.call({ method: 'POST', url: '/v1/issuers', body, headers });

  it.each([
    ['truncated', '{"name":'],
    ['with a trailing comma', '{"name":"a",}'],
    ['with a byte order mark', '\uFEFF{"name":"a"}'],
    ['of two values', '{} {}'],
    ['of NaN', '{"name":NaN}'],
  ])('refuses JSON that is %s', async (_what, body) => {
    expectError(await post(body), 'invalid_json');
  });

  it('refuses bytes that are not UTF-8', async () => {
    expectError(await post(Buffer.from([0x22, 0xff, 0x22])), 'invalid_json');
  });

  it.each(['[]', '"text"', '5', 'null', 'true'])('refuses %s where an object belongs', async (body) => {
    expectError(await post(body), 'invalid_request', 'body');
  });

  it.each([
    ['a __proto__ member', '{"name":"a","metadata":{"__proto__":{"isAdmin":true}}}', 'metadata'],
    ['a lone surrogate', '{"name":"\\ud800"}', 'name'],
    ['a lone surrogate in a name', '{"name":"a","metadata":{"\\udc00":1}}', 'metadata'],
    ['U+0000', '{"name":"a\\u0000b"}', 'name'],
    ['U+0000 in a name', '{"name":"a","metadata":{"\\u0000":1}}', 'metadata'],
    ['a number beyond the doubles', '{"name":"a","metadata":{"n":1e400}}', 'metadata.n'],
  ])('refuses %s', async (_what, body, param) => {
    expectError(await post(body), 'invalid_request', param);
  });

  it('refuses nesting of 1,000 and of one too many, and takes the deepest', async () => {
    const nested = (depth: number) =>
      `{"name":"a","metadata":{"n":${'['.repeat(depth)}${']'.repeat(depth)}}}`;
    expect((await post(nested(1_000))).body.error.code).toBe('invalid_request');
    expect((await post(nested(limits.jsonDepthMax - 1))).body.error.code).toBe('invalid_request');
    expect((await post(nested(limits.jsonDepthMax - 2))).status).toBe(201);
  });

  it('names an unknown field, a missing one and one of the wrong type', async () => {
    expectError(await post({ name: 'a', nmae: 'b' }), 'invalid_request', 'nmae');
    expectError(await post({}), 'invalid_request', 'name');
    expectError(await post({ name: 5 }), 'invalid_request', 'name');
    expectError(await post({ name: 'a', trust_tier: 'L9' }), 'invalid_request', 'trust_tier');
  });

  it('takes no body for an empty object', async () => {
    expectError(await api.call({ method: 'POST', url: '/v1/issuers' }), 'invalid_request', 'name');
    expectError(await post(''), 'invalid_request', 'name');
  });

  it.each(['text/plain', 'application/x-www-form-urlencoded', 'application/jsonp', ';;', ''])(
    'refuses the content type "%s"',
    async (type) => {
      expectError(await post('{"name":"a"}', { 'content-type': type }), 'invalid_request');
    },
  );

  it('takes parameters of the content type', async () => {
    const reply = await post('{"name":"a"}', { 'content-type': 'Application/JSON; charset=UTF-8' });
    expect(reply.status).toBe(201);
  });

  it('takes a body of exactly the limit and refuses one byte more, and one of 1 MB', async () => {
    const ofBytes = (bytes: number) => '{"name":"a"}'.padEnd(bytes, ' ');
    expect((await post(ofBytes(limits.bodyBytesMax))).status).toBe(201);
    expectError(await post(ofBytes(limits.bodyBytesMax + 1)), 'body_too_large');
    expectError(await post(ofBytes(1_000_000)), 'body_too_large');
    expectError(await post(ofBytes(limits.bodyDiscardBytesMax + 1)), 'body_too_large');
  });
});

describe('on the socket', () => {
  it.each([
    ['a chunked body of 1 MB', ' '.repeat(1_000_000), 'body_too_large'],
    ['broken JSON', '{', 'invalid_json'],
    ['a body that it may not even send', '{}', 'unauthorized'],
  ])('answers %s in full and keeps the connection', async (_what, body, code) => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    const key = code === 'unauthorized' ? 'nonsense' : api.adminKey;
    const first = await post(agent, key, body);
    expect(first.status).toBe(400 + Number(code === 'unauthorized'));
    expect(JSON.parse(first.body).error.code).toBe(code);
    const second = await post(agent, api.adminKey, '{"name":"a"}');
    expect(second.status).toBe(201);
    expect(second.isSameConnection).toBe(true);
    agent.destroy();
  });

  it.each([
    ['a request line that is none', 'NONSENSE\r\n\r\n'],
    ['a header block of 20 KB', `GET / HTTP/1.1\r\nHost: a\r\nX: ${'a'.repeat(20_000)}\r\n\r\n`],
    ['two lengths', 'POST /v1/gates HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n'],
  ])('answers 400 in the specified shape to %s', async (_what, bytes) => {
    const answer = await sendBytes(bytes);
    expect(answer).toMatch(/^HTTP\/1\.1 400 /);
    const [head = '', body = ''] = answer.split('\r\n\r\n');
    const { error } = JSON.parse(body);
    expect(error).toMatchObject({ code: 'invalid_request', status: 400 });
    expect(head).toContain(`x-request-id: ${error.request_id}`);
  });

  it('answers in the specified shape also after a good request', async () => {
    const answers = await sendBytes('GET /livez HTTP/1.1\r\nHost: a\r\n\r\n', 'NONSENSE\r\n\r\n');
    expect(answers).toMatch(/^HTTP\/1\.1 200 .*HTTP\/1\.1 400 .*invalid_request/s);
  });

  it('needs no Host, and refuses an expectation that it does not know in the ordinary way', async () => {
    const withoutHost = await sendBytes('GET /livez HTTP/1.1\r\nConnection: close\r\n\r\n');
    expect(withoutHost).toMatch(/^HTTP\/1\.1 200 /);
    const expecting = await sendBytes(
      'GET /v1/x HTTP/1.1\r\nHost: a\r\nExpect: wonders\r\nConnection: close\r\n\r\n',
    );
    expect(expecting).toMatch(/^HTTP\/1\.1 404 /);
    expect(expecting).toContain('route_not_found');
  });

  /** Without Content-Length, so that the server cannot know the size beforehand. */
  function post(agent: Agent, key: string, body: string) {
    return new Promise<{ status: number; body: string; isSameConnection: boolean }>((resolve, reject) => {
      const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
      const options = { host: '127.0.0.1', port, path: '/v1/issuers', method: 'POST', headers, agent };
      const request = httpRequest(options, (response) => {
        const status = response.statusCode ?? 0;
        text(response).then(
          (answer) => resolve({ status, body: answer, isSameConnection: request.reusedSocket }),
          reject,
        );
      });
      request.on('error', reject);
      for (let i = 0; i < body.length; i += 50_000) request.write(body.slice(i, i + 50_000));
      request.end();
    });
  }

  /**
   * `next` follows once something was answered to the first. Everything that came back until the end of the
   * connection.
   */
  async function sendBytes(first: string, next?: string): Promise<string> {
    const socket = connect(port, '127.0.0.1');
    socket.write(first);
    let answers = '';
    for await (const chunk of socket) {
      answers += chunk.toString();
      if (next !== undefined) socket.write(next);
      next = undefined;
    }
    return answers;
  }
});
