import { Agent, request as httpRequest } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { beforeAll, describe, expect, it } from 'vitest';
import { must } from '../../shared/errors/assert.ts';
import { catalogue, type ErrorCode } from '../../shared/errors/catalogue.ts';
import { limits } from '../../shared/model/limits.ts';
import { RawConnection } from '../support/base/raw-http.ts';
import { type Reply, startOwnApi } from '../support/service/api.ts';
import { expectError } from '../support/service/expect-error.ts';
import { useApi } from '../support/service/use-api.ts';

/** However a request is broken, down to its bytes: the one error body, under the request id of its header. */
const api = useApi(startOwnApi);
let port: number;
beforeAll(async () => {
  await api.app.listen({ host: '127.0.0.1', port: 0 });
  port = (api.app.server.address() as AddressInfo).port;
});

const host = 'Host: a\r\nConnection: close\r\n';
const get = (target: string, headers = '') => `GET ${target} HTTP/1.1\r\n${host}${headers}\r\n`;
const post = (headers: string, body: string) =>
  `POST /v1/issuers HTTP/1.1\r\n${host}Authorization: Bearer KEY\r\n${headers}\r\n${body}`;
const json = 'Content-Type: application/json\r\n';
const chunks = 'Transfer-Encoding: chunked\r\n';
const gateOf = (length: number) => `/v1/gates/${'a'.repeat(length)}`;
const sized = (body: string, headers = json) => post(`${headers}Content-Length: ${body.length}\r\n`, body);

const broken: readonly (readonly [what: string, code: ErrorCode, bytes: string])[] = [
  // Request lines.
  ['no HTTP', 'invalid_request', 'NONSENSE\r\n\r\n'],
  ['a method that HTTP does not have', 'invalid_request', `BREW /v1/gates HTTP/1.1\r\n${host}\r\n`],
  ['TRACE', 'route_not_found', `TRACE /v1/gates HTTP/1.1\r\n${host}\r\n`],
  ['OPTIONS *', 'route_not_found', `OPTIONS * HTTP/1.1\r\n${host}\r\n`],
  ['CONNECT', 'invalid_request', `CONNECT a:443 HTTP/1.1\r\n${host}\r\n`],
  ['no version', 'unauthorized', 'GET /v1/gates\r\n\r\n'],
  ['a version to come', 'invalid_request', `GET /v1/gates HTTP/4.2\r\n${host}\r\n`],
  ['HTTP/1.0', 'unauthorized', 'GET /v1/gates HTTP/1.0\r\n\r\n'],
  ['the preface of HTTP/2', 'invalid_request', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
  ['TLS', 'invalid_request', '\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03'],
  // Targets.
  ['bad percent-encoding', 'invalid_request', get('/v1/gates/%ZZ')],
  ['bad percent-encoding in the query', 'invalid_request', get('/v1/discover?capability=%zz')],
  ['percent-encoded bytes that are no UTF-8', 'invalid_request', get('/v1/gates/%FF')],
  ['a path that climbs', 'route_not_found', get('/v1/../../etc/passwd')],
  ['an encoded path that climbs', 'invalid_request', get('/docs/static/%2e%2e/%2e%2e/package.json')],
  ['an empty segment', 'route_not_found', get('//v1//gates')],
  ['no path', 'invalid_request', get('')],
  ['a space in the path', 'invalid_request', get('/v1/gates/a b')],
  ['a part that is too long', 'invalid_request', get(gateOf(limits.pathParamCharsMax + 1))],
  ['a target that is far too long', 'invalid_request', get(gateOf(20_000))],
  // Headers.
  ['a header without a colon', 'invalid_request', get('/livez', 'nonsense\r\n')],
  ['a space before the colon', 'invalid_request', get('/livez', 'X : a\r\n')],
  ['NUL in a header', 'invalid_request', get('/livez', 'X: a\0b\r\n')],
  ['a header block of 20 KB', 'invalid_request', get('/livez', `X: ${'a'.repeat(20_000)}\r\n`)],
  ['an expectation', 'route_not_found', get('/nowhere', 'Expect: wonders\r\n')],
  ['a wish to upgrade', 'route_not_found', get('/nowhere', 'Upgrade: websocket\r\n')],
  ['a key in a strange alphabet', 'unauthorized', get('/v1/gates', 'Authorization: Bearer \xe4\xf6\xfc\r\n')],
  // Lengths and codings.
  ['two lengths', 'invalid_request', post('Content-Length: 1\r\nContent-Length: 2\r\n', '{}')],
  ['a length below zero', 'invalid_request', post('Content-Length: -1\r\n', '{}')],
  ['length and chunks', 'invalid_request', post(`Content-Length: 2\r\n${chunks}`, '2\r\n{}\r\n0\r\n\r\n')],
  ['a coding nobody knows', 'invalid_request', post(`${json}Transfer-Encoding: wonders\r\n`, '{}')],
  ['a chunk without a size', 'invalid_request', post(`${json}${chunks}`, 'zz\r\n{}\r\n')],
  ['a packed body', 'unsupported_media_type', sized('\x1f\x8b\x08\0', `${json}Content-Encoding: gzip\r\n`)],
  // Bodies.
  ['broken JSON', 'invalid_json', sized('{"name":')],
  ['no content type', 'invalid_request', sized('{"name":"a"}', '')],
  ['a content type that is none', 'invalid_request', sized('{"name":"a"}', 'Content-Type: \x80;;;\r\n')],
  ['a form', 'invalid_request', sized('name=a', 'Content-Type: application/x-www-form-urlencoded\r\n')],
  ['no body at all', 'invalid_request', post('', '')],
  ['white space for a body', 'invalid_json', sized(' ')],
  ['a body that is too large', 'body_too_large', sized(' '.repeat(limits.bodyBytesMax + 1))],
];

it.each(broken)('answers %s with %s', async (_what, code, bytes) => {
  const { status, headers, body } = await sendRaw(bytes.replace('KEY', api.adminKey));
  const { error } = JSON.parse(body);
  expect(error).toMatchObject({ code, status: catalogue[code].status });
  const names = Object.keys(error).filter((name) => name !== 'param');
  expect(names).toEqual(['code', 'message', 'status', 'request_id']);
  expect(status).toBe(error.status);
  expect(headers.get('x-request-id')).toBe(error.request_id);
  expect(error.request_id).toMatch(/^req_[0-9a-z]{26}$/);
  expect(headers.get('content-type')).toBe('application/json; charset=utf-8');
  expect(headers.get('cache-control')).toBe('no-store');
});

it('answers a body that ends too early, once the sender has left its end of the connection', async () => {
  const connection = await RawConnection.open(port);
  await connection.send(post(`${json}Content-Length: 100\r\n`, '{"name"').replace('KEY', api.adminKey));
  await connection.leave('half-close');
  const answer = await connection.next();
  expect(JSON.parse(answer?.body ?? '{}').error.code).toBe('invalid_request');
});

it('gives head and body of a request one time together, which node:http would exchange for a longer one', () => {
  const { headersTimeout, requestTimeout } = api.app.server;
  expect(requestTimeout).toBe(limits.requestReadMsMax);
  expect(headersTimeout).toBeLessThanOrEqual(requestTimeout);
});

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

  it('takes the longest part of a path as an id that is not there', async () => {
    expectError(await api.call({ url: gateOf(limits.pathParamCharsMax) }), 'gate_not_found');
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
    ['limit', 'limit=1e1'],
    ['limit', 'limit=5.0'],
    ['limit', 'limit=1&limit=2'],
    ['offset', 'offset=-1'],
    ['offset', 'offset=1000001'],
    ['stauts', 'stauts=revoked'],
  ])('names %s for ?%s', async (param, query) => {
    expectError(await api.call({ url: `/v1/gates?${query}` }), 'invalid_request', param);
  });

  it('takes the largest page', async () => {
    const page = { items: [], total: 0, limit: 200, offset: 1_000_000, next_cursor: null };
    expect((await api.call({ url: '/v1/gates?limit=200&offset=1000000' })).body).toEqual(page);
  });
});

describe('bodies', () => {
  const send = (body: unknown, headers: Record<string, string> = {}): Promise<Reply> =>
    api.call({ method: 'POST', url: '/v1/issuers', body, headers });

  it('refuses bytes that are not UTF-8', async () => {
    expectError(await send(Buffer.from([0x22, 0xff, 0x22])), 'invalid_json');
  });

  it.each(['[]', 'null'])('refuses %s where an object belongs', async (body) => {
    expectError(await send(body), 'invalid_request', 'body');
  });

  it.each([
    ['a __proto__ member', '{"name":"a","metadata":{"__proto__":{"isAdmin":true}}}', 'metadata'],
    ['U+0000', '{"name":"a\\u0000b"}', 'name'],
    ['U+0000 in a name', '{"name":"a","metadata":{"\\u0000":1}}', 'metadata'],
  ])('refuses %s', async (_what, body, param) => {
    expectError(await send(body), 'invalid_request', param);
  });

  it('names an unknown field, a missing one and one of the wrong type', async () => {
    expectError(await send({ name: 'a', nmae: 'b' }), 'invalid_request', 'nmae');
    expectError(await send({}), 'invalid_request', 'name');
    expectError(await send({ name: 5 }), 'invalid_request', 'name');
    expectError(await send({ name: 'a', trust_tier: 'L9' }), 'invalid_request', 'trust_tier');
  });

  it('takes no body for an empty object', async () => {
    expectError(await api.call({ method: 'POST', url: '/v1/issuers' }), 'invalid_request', 'name');
    expectError(await send(''), 'invalid_request', 'name');
  });

  it('takes parameters of the content type', async () => {
    const reply = await send('{"name":"a"}', { 'content-type': 'Application/JSON; charset=UTF-8' });
    expect(reply.status).toBe(201);
  });

  it('takes a body of exactly the limit and refuses one byte more, and one of 1 MB', async () => {
    const ofBytes = (bytes: number) => '{"name":"a"}'.padEnd(bytes, ' ');
    expect((await send(ofBytes(limits.bodyBytesMax))).status).toBe(201);
    expectError(await send(ofBytes(limits.bodyBytesMax + 1)), 'body_too_large');
    expectError(await send(ofBytes(1_000_000)), 'body_too_large');
    expectError(await send(ofBytes(limits.bodyDiscardBytesMax + 1)), 'body_too_large');
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
    const first = await chunked(agent, key, body);
    expect(first.status).toBe(400 + Number(code === 'unauthorized'));
    expect(JSON.parse(first.body).error.code).toBe(code);
    const second = await chunked(agent, api.adminKey, '{"name":"a"}');
    expect(second.status).toBe(201);
    expect(second.isSameConnection).toBe(true);
    agent.destroy();
  });

  it('answers in the specified shape also after a good request', async () => {
    const connection = await RawConnection.open(port);
    expect(await connection.ask('GET /livez HTTP/1.1\r\nHost: a\r\n\r\n')).toMatchObject({ status: 200 });
    const broken = await connection.ask('NONSENSE\r\n\r\n');
    expect(broken).toMatchObject({ status: 400, body: expect.stringContaining('invalid_request') });
    await connection.leave();
  });

  it('needs no Host', async () => {
    expect((await sendRaw('GET /livez HTTP/1.1\r\nConnection: close\r\n\r\n')).status).toBe(200);
  });

  /** Without Content-Length, so that the server cannot know the size beforehand. */
  function chunked(agent: Agent, key: string, body: string) {
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
});

/** Sends these bytes, one character each, on a connection of their own. */
async function sendRaw(bytes: string) {
  const connection = await RawConnection.open(port);
  const answer = await connection.ask(bytes);
  await connection.leave();
  return must(answer, 'an answer to each request');
}
