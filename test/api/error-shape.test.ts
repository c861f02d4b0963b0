import { type AddressInfo, connect } from 'node:net';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { catalogue, type ErrorCode } from '../../shared/errors/catalogue.ts';
import { limits } from '../../shared/model/limits.ts';
import { type Api, startApi } from '../support/api.ts';

/** However a request is broken, down to its bytes: the one error body, under the request id of its header. */
let api: Api;
let port: number;
beforeAll(async () => {
  api = await startApi();
  await api.app.listen({ host: '127.0.0.1', port: 0 });
  port = (api.app.server.address() as AddressInfo).port;
});
afterAll(() => api.close());

const host = 'Host: a\r\nConnection: close\r\n';
const get = (target: string, headers = '') => `GET ${target} HTTP/1.1\r\n${host}${headers}\r\n`;
const post = (headers: string, body: string) =>
  `POST /v1/issuers HTTP/1.1\r\n${host}Authorization: Bearer KEY\r\n${headers}\r\n${body}`;
const json = 'Content-Type: application/json\r\n';
const sized = (body: string, headers = json) => post(`${headers}Content-Length: ${body.length}\r\n`, body);

const broken: readonly (readonly [what: string, code: ErrorCode, bytes: string])[] = [
  // Request lines.
  ['no HTTP', 'invalid_request', 'NONSENSE\r\n\r\n'],
  ['a method that HTTP does not have', 'invalid_request', `BREW /v1/gates HTTP/1.1\r\n${host}\r\n`],
  ['a method in lower case', 'invalid_request', `get /v1/gates HTTP/1.1\r\n${host}\r\n`],
  ['TRACE', 'route_not_found', `TRACE /v1/gates HTTP/1.1\r\n${host}\r\n`],
  ['OPTIONS', 'route_not_found', `OPTIONS /v1/gates HTTP/1.1\r\n${host}\r\n`],
  ['OPTIONS *', 'route_not_found', `OPTIONS * HTTP/1.1\r\n${host}\r\n`],
  ['a method of WebDAV', 'route_not_found', `PROPFIND /v1/gates HTTP/1.1\r\n${host}\r\n`],
  ['CONNECT', 'invalid_request', `CONNECT a:443 HTTP/1.1\r\n${host}\r\n`],
  ['no version', 'unauthorized', 'GET /v1/gates\r\n\r\n'],
  ['a version to come', 'invalid_request', `GET /v1/gates HTTP/4.2\r\n${host}\r\n`],
  ['HTTP/1.0', 'unauthorized', 'GET /v1/gates HTTP/1.0\r\n\r\n'],
  ['HTTP/1.0 to nowhere', 'route_not_found', 'GET /nowhere HTTP/1.0\r\n\r\n'],
  ['the preface of HTTP/2', 'invalid_request', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
  ['TLS', 'invalid_request', '\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03'],
  // Targets.
  ['bad percent-encoding', 'invalid_request', get('/v1/gates/%ZZ')],
  ['half a percent-encoding', 'invalid_request', get('/v1/gates/%')],
  ['bad percent-encoding in the query', 'invalid_request', get('/v1/discover?capability=%zz')],
  ['percent-encoded bytes that are no UTF-8', 'invalid_request', get('/v1/gates/%FF')],
  ['a path that climbs', 'route_not_found', get('/v1/../../etc/passwd')],
  ['an encoded path that climbs', 'invalid_request', get('/docs/static/%2e%2e/%2e%2e/package.json')],
  ['an empty segment', 'route_not_found', get('//v1//gates')],
  ['an empty id', 'route_not_found', get('/v1/gates/')],
  ['no path', 'invalid_request', get('')],
  ['a space in the path', 'invalid_request', get('/v1/gates/a b')],
  [
    'a part that is too long',
    'invalid_request',
    get(`/v1/gates/${'a'.repeat(limits.pathParamCharsMax + 1)}`),
  ],
  ['a target that is far too long', 'invalid_request', get(`/v1/gates/${'a'.repeat(20_000)}`)],
  // Headers.
  ['a header without a name', 'invalid_request', get('/livez', ': a\r\n')],
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
  ['a length that is no number', 'invalid_request', post('Content-Length: 0x2\r\n', '{}')],
  [
    'a length that no computer has',
    'invalid_request',
    post('Content-Length: 99999999999999999999\r\n', '{}'),
  ],
  [
    'length and chunks',
    'invalid_request',
    post('Content-Length: 2\r\nTransfer-Encoding: chunked\r\n', '2\r\n{}\r\n0\r\n\r\n'),
  ],
  ['a coding nobody knows', 'invalid_request', post(`${json}Transfer-Encoding: wonders\r\n`, '{}')],
  [
    'a chunk without a size',
    'invalid_request',
    post(`${json}Transfer-Encoding: chunked\r\n`, 'zz\r\n{}\r\n'),
  ],
  ['a packed body', 'unsupported_media_type', sized('\x1f\x8b\x08\0', `${json}Content-Encoding: gzip\r\n`)],
  // Bodies.
  ['broken JSON', 'invalid_json', sized('{"name":')],
  ['no content type', 'invalid_request', sized('{"name":"a"}', '')],
  ['an empty content type', 'invalid_request', sized('{"name":"a"}', 'Content-Type:\r\n')],
  ['a content type that is none', 'invalid_request', sized('{"name":"a"}', 'Content-Type: \x80;;;\r\n')],
  ['a form', 'invalid_request', sized('name=a', 'Content-Type: application/x-www-form-urlencoded\r\n')],
  [
    'a multipart form',
    'invalid_request',
    sized('--a--', 'Content-Type: multipart/form-data; boundary=a\r\n'),
  ],
  ['an empty body', 'invalid_request', sized('')],
  ['no body at all', 'invalid_request', post('', '')],
  ['white space for a body', 'invalid_json', sized(' ')],
  ['a body that is too large', 'body_too_large', sized(' '.repeat(limits.bodyBytesMax + 1))],
];

it.each(broken)('answers %s with %s', async (_what, code, bytes) => {
  const { status, headers, body } = await send(bytes.replace('KEY', api.adminKey));
  const { error } = JSON.parse(body);
  expect(error).toMatchObject({ code, status: catalogue[code].status });
  expect(Object.keys(error).filter((name) => name !== 'param')).toEqual([
    'code',
    'message',
    'status',
    'request_id',
  ]);
  expect(status).toBe(error.status);
  expect(headers.get('x-request-id')).toBe(error.request_id);
  expect(error.request_id).toMatch(/^req_[0-9a-z]{26}$/);
  expect(headers.get('content-type')).toBe('application/json; charset=utf-8');
  expect(headers.get('cache-control')).toBe('no-store');
});

it('answers a body that ends too early, once the sender has left its end of the connection', async () => {
  const { body } = await send(
    post(`${json}Content-Length: 100\r\n`, '{"name"').replace('KEY', api.adminKey),
    'half-close',
  );
  expect(JSON.parse(body).error.code).toBe('invalid_request');
});

it('gives head and body of a request one time together, which node:http would exchange for a longer one', () => {
  const { headersTimeout, requestTimeout } = api.app.server;
  expect(requestTimeout).toBe(limits.requestReadMsMax);
  expect(headersTimeout).toBeLessThanOrEqual(requestTimeout);
});

interface RawAnswer {
  readonly status: number;
  readonly headers: ReadonlyMap<string, string>;
  readonly body: string;
}

/** Sends these bytes, one character each, and reads until the connection ends. */
async function send(bytes: string, end: 'stay' | 'half-close' = 'stay'): Promise<RawAnswer> {
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
  if (end === 'stay') socket.write(bytes, 'latin1');
  else socket.end(bytes, 'latin1');
  const chunks: Buffer[] = [];
  for await (const chunk of socket) chunks.push(chunk);
  socket.destroy();
  const [head = '', ...rest] = Buffer.concat(chunks).toString('latin1').split('\r\n\r\n');
  const [statusLine = '', ...lines] = head.split('\r\n');
  const headers = lines.map((line) => {
    const colon = line.indexOf(':');
    return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()] as const;
  });
  return { status: Number(statusLine.split(' ')[1]), headers: new Map(headers), body: rest.join('\r\n\r\n') };
}
