import { createHash, randomBytes } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { agentSigner } from '../../clients/node/src/agent.ts';
import { must } from '../../shared/errors/assert.ts';
import { freePort } from '../support/base/free-port.ts';
import { type RawAnswer, RawConnection } from '../support/base/raw-http.ts';
import { makeAgentKey } from '../support/data/proofs.ts';
import {
  type CountingService,
  type Question,
  type Served,
  type SidecarRelay,
  startCountingService,
  startSidecarRelay,
} from '../support/peers/proxied-ends.ts';
import { type ProxyName, proxyNames, type RunningProxy, startProxy } from '../support/peers/proxies.ts';
import { type Api, startOwnApi } from '../support/service/api.ts';
import { askForward } from '../support/service/forward-auth.ts';
import { startTestSidecar, type TestSidecar } from '../support/service/sidecar.ts';

// The files of deploy/proxies with the proxies of Debian's packages, a real service and a real sidecar.

const host = 'shop.example.com';
/** What docs/integrations/proxies.md has the sidecar trust. */
const trusted = ['x-forwarded-method', 'x-forwarded-uri', 'x-forwarded-host', 'x-gate-permission'];
const routes = [
  { methods: ['GET', 'HEAD'], path: '/orders/:id', permission_key: 'orders:read' },
  { path: '/any', permission_key: 'any:use' },
  { path: '/files/*', permission_key: 'files:read' },
  { path: '/admin/*', permission_key: 'admin:use' },
];

let api: Api;
let sidecar: TestSidecar;
let unready: TestSidecar;
let relay: SidecarRelay;
let service: CountingService;
let gateId: string;
/** Without allowed domains: Envoy names none. */
let openGateId: string;
const proxies = new Map<ProxyName, RunningProxy>();
/** `buyer` may do everything but /admin; the others are what `shown` says. */
const passports = { buyer: '', buyerId: '', other: '', weak: '', limited: '', revoked: '', forged: '' };

beforeAll(async () => {
  api = await startOwnApi();
  const forwardAuth = { trust: 'loopback', headers: trusted } as const;
  sidecar = await startTestSidecar({ api, forwardAuth });
  unready = await startTestSidecar({ api, forwardAuth, isCutOff: true });
  relay = await startSidecarRelay();
  service = await startCountingService();
  const gate = {
    name: 'Shop',
    trust_level: 'L1',
    constraints: { allowed_domains: [host] },
    routes,
  };
  gateId = (await api.call({ url: '/v1/gates', body: gate })).body.gate_id;
  openGateId = (await api.call({ url: '/v1/gates', body: { ...gate, constraints: {} } })).body.gate_id;
  const permissions = ['orders:read', 'any:use', 'files:read'];
  const buyer = await api.issuePassport({ permissions });
  const revoked = await api.issuePassport({ permissions });
  await api.call({ url: `/v1/passports/${revoked.passport_id}/revoke`, body: {} });
  passports.buyer = buyer.jwt;
  passports.buyerId = buyer.passport_id;
  passports.other = (await api.issuePassport({ permissions })).jwt;
  const constraints = { rate_limits: { requests_per_day: 1 } };
  passports.limited = (await api.issuePassport({ permissions, constraints })).jwt;
  passports.weak = (await api.issuePassport({ permissions: ['any:use'] })).jwt;
  passports.revoked = revoked.jwt;
  passports.forged = `${buyer.jwt.slice(0, -8)}AAAAAAAA`;
  await sidecar.caughtUp();
  const request = { permission_key: 'any:use', domain: host };
  expect((await sidecar.check(gateId, passports.limited, request)).body.decision).toBe('PERMIT');
  await relay.passTo(portOf(sidecar));
  const places = {
    gateId,
    sidecarPort: relay.port,
    servicePort: service.port,
  };
  for (const name of proxyNames) proxies.set(name, await startProxy(name, places));
});
afterAll(async () => {
  for (const proxy of proxies.values()) await proxy.stop();
  await relay?.close();
  await service?.close();
  for (const each of [sidecar, unready]) {
    await each?.close();
    each?.removeFolder();
  }
  await api?.close();
});
beforeEach(async () => {
  await relay.passTo(portOf(sidecar));
  service.served.splice(0);
  relay.questions.splice(0);
});

const portOf = ({ origin }: TestSidecar): number => Number(new URL(origin).port);

interface Ask {
  readonly method?: string;
  readonly target?: string;
  readonly version?: '1.0' | '1.1';
  readonly headers?: readonly (readonly [name: string, value: string])[];
  /** Null: none at all. Default: the one of the buyer in `X-Agent-Passport`. */
  readonly passport?: string | null;
  /** Null: none at all. */
  readonly host?: string | null;
  readonly body?: Buffer;
}

interface Came {
  readonly answer: RawAnswer | null;
  /** What reached the service, and what the sidecar was asked. */
  readonly served: readonly Served[];
  readonly questions: readonly Question[];
}

/** One request on a connection of its own, in exactly these bytes. */
async function ask(proxy: RunningProxy, asked: Ask): Promise<Came> {
  const answer = await answerTo(proxy, headOf(asked), asked);
  return { answer, served: service.served.splice(0), questions: relay.questions.splice(0) };
}

async function answerTo(
  { port }: RunningProxy,
  head: string,
  { method, body }: Ask = {},
): Promise<RawAnswer | null> {
  const connection = await RawConnection.open(port);
  await connection.send(head);
  if (body !== undefined) void connection.send(body);
  const answer = await connection.next({ isHead: method === 'HEAD' });
  await connection.leave();
  return answer;
}

function headOf(asked: Ask): string {
  const { method = 'GET', target = '/orders/1', version = '1.1', headers = [], body } = asked;
  const { passport = passports.buyer } = asked;
  const lines = [
    ...(asked.host === null ? [] : [['Host', asked.host ?? host]]),
    ['Connection', 'close'],
    ...(passport === null ? [] : [['X-Agent-Passport', passport]]),
    ...(body === undefined ? [] : [['Content-Length', String(body.byteLength)]]),
    ...headers,
  ];
  return `${method} ${target} HTTP/${version}\r\n${lines.map((line) => `${line.join(': ')}\r\n`).join('')}\r\n`;
}

const valuesOf = (headers: Served['headers'], name: string): readonly string[] =>
  headers.filter(([each]) => each === name).map(([, value]) => value);

/** As the page shows it: what the agent got, and whether the service was reached. */
function outcomeOf({ answer, served }: Came): string {
  const status = answer === null ? 'closed' : String(answer.status);
  const reason = answer?.headers.get('x-gate-reason') ?? '';
  return `${status}${reason === '' ? '' : ` \`${reason}\``}${served.length === 0 ? '' : ', served'}`;
}

/**
 * What holds for every request, whatever its bytes: the sidecar was asked at this gate alone and without a
 * body; what reached the service was permitted under the same method and path, and has the ids of that
 * decision and nothing else that a gate, a proxy or a passport could say.
 */
function mustBeSafe({ answer, served, questions }: Came): void {
  for (const { line, headers } of questions) {
    expect(line).toMatch(new RegExp(`^(?:GET|HEAD) /${gateId}(?:\\?[^ ]*)? HTTP/1\\.1$`));
    const names = headers.map(([name]) => name);
    expect(names.filter((name) => name === 'content-length' || name === 'transfer-encoding')).toEqual([]);
    for (const name of trusted) expect(valuesOf(headers, name).length).toBeLessThanOrEqual(1);
    expect(valuesOf(headers, 'x-gate-permission')).toEqual([]);
    expect(valuesOf(headers, 'cookie')).toEqual([]);
  }
  expect(questions.length).toBeLessThanOrEqual(1);
  expect(served.length).toBeLessThanOrEqual(1);
  const [reached] = served;
  if (reached === undefined) {
    expect(answer?.status ?? 400).toBeGreaterThanOrEqual(400);
    return;
  }
  const [question] = questions;
  const { method, target, headers } = reached;
  const asked = must(question, 'the sidecar was asked').headers;
  expect(valuesOf(asked, 'x-forwarded-method')).toEqual([method]);
  expect(valuesOf(asked, 'x-forwarded-uri')).toEqual([pathOf(target)]);
  expect(valuesOf(headers, 'x-passport-id')).toEqual([passports.buyerId]);
  expect(valuesOf(headers, 'x-attestation-id')).toEqual([expect.stringMatching(/^att_[a-z0-9]+$/i)]);
  const said = headers
    .map(([name]) => name)
    .filter((name) => {
      const read = name.replaceAll(/[^a-z0-9]/g, '-');
      return speaksForOthers.test(read) || forPath.has(read);
    });
  expect(said.filter((name) => !setByProxies.has(name))).toEqual([]);
  for (const name of setByProxies) expect(valuesOf(headers, name).length).toBeLessThanOrEqual(1);
  expect(headers.filter(([name, value]) => name.includes('passport') && value.includes('.'))).toEqual([]);
  expect(headers.filter(([, value]) => value.startsWith('Passport '))).toEqual([]);
  expect(valuesOf(headers, 'connection').filter((value) => /x-/i.test(value))).toEqual([]);
  expect(valuesOf(headers, 'upgrade').filter((value) => value !== 'websocket')).toEqual([]);
}

/** Of an absolute target, what follows its host. */
const pathOf = (target: string): string => target.replace(/^http:\/\/[^/]*/, '');
/**
 * Beside the usual ones, headers that some framework, server or add-on takes for the path, a part of it, or
 * the method: gunicorn, Symfony, Laminas, Rack, Flask behind a proxy, ASP.NET, Spring, add-ons of Home
 * Assistant, and programs that expect Envoy, Traefik or IIS in front of them.
 */
const othersForPath = [
  ...['X-Forwarded-Path', 'X-Forwarded-PathBase', 'X-Forwarded-Script-Name', 'X-Forwarded-URL'],
  ...['X-Original-Path', 'X-Original-Host', 'X-Rewrite-URI', 'X-Rewrite-Path', 'X-Envoy-Original-Path'],
  ...['X-Replaced-Path', 'X-Request-URI', 'X-Request-URL', 'X-Request-Path', 'X-Request-Method'],
  ...['X-Script-Name', 'X-Path-Info', 'X-Base-Path', 'X-Ingress-Path', 'X-Waws-Unencoded-URL'],
  ...['X-Accel-Mapping', 'X-Sendfile-Type', 'X-Method', 'Script-Name', 'Path-Info', 'Request-URI'],
  'Unencoded-URL',
];

const speaksForOthers =
  /^(?:x-(?:gate|forwarded|original|rewrite|http-method|method|passport|attestation|agent-passport)|forwarded$)/;
const forPath: ReadonlySet<string> = new Set(othersForPath.map((name) => name.toLowerCase()));
const setByProxies: ReadonlySet<string> = new Set([
  'x-passport-id',
  'x-attestation-id',
  'x-forwarded-for',
  'x-forwarded-host',
  'x-forwarded-proto',
]);

interface Surface {
  /** As the page names it. */
  readonly tried: string;
  readonly ask: () => Ask;
  /** False: it must not reach the service. True: it must. Null: either, where the proxies differ. */
  readonly isServed: boolean | null;
}

const denied = () => ({ target: '/admin/reset', method: 'POST', passport: passports.weak });
const twice = (name: string, ...values: readonly [string, string]) =>
  values.map((value) => [name, value] as const);

const paths: readonly (readonly [what: string, target: string])[] = [
  ['an encoded slash', '/files/a%2f..%2f..%2fadmin%2freset'],
  ['a doubly encoded slash', '/files/%252e%252e%252fadmin'],
  ['dot segments', '/files/../admin/reset'],
  ['encoded dot segments', '/files/%2e%2e/admin/reset'],
  ['a dot segment with a parameter', '/files/..;/admin/reset'],
  ['two slashes', '//admin/reset'],
  ['two slashes inside', '/files//admin'],
  ['a backslash', '/files\\..\\admin'],
  ['an encoded backslash', '/files%5c..%5cadmin'],
  ['an encoded zero byte', '/files/a%00b'],
  ['a number sign', '/files/a#/../../admin'],
  ['encoding that is broken', '/files/%zz'],
  ['a byte above ASCII', '/files/\u00e4'],
  ['a dot at its end', '/files/admin.'],
  ['an encoded dot at its end', '/files/admin%2e'],
  ['a blank at its end', '/files/admin%20'],
  ['a full-width letter', '/files/%EF%BD%81dmin'],
  ['a dotless i', '/files/adm%C4%B1n'],
  ['a soft hyphen', '/files/ad%C2%ADmin'],
  ['a zero-width space', '/files/ad%E2%80%8Bmin'],
  ['the id of another gate', '/gate_01hzzzzzzzzzzzzzzzzzzzzzzz/orders/1'],
  ['the own id of the gate', '/GATE/any'],
  ['the place at which nginx asks', '/.agent-trust'],
  ['the asterisk', '*'],
];

const of = (tried: string, isServed: boolean | null, asked: () => Ask): Surface => ({
  tried,
  isServed,
  ask: asked,
});

const surfaces: readonly Surface[] = [
  of('a passport that is permitted', true, () => ({})),
  of('the same in `Authorization: Passport`', true, () => ({
    passport: null,
    headers: [['Authorization', `Passport ${passports.buyer}`]],
  })),
  of('a path that its passport does not permit', false, denied),
  of('a path without a route', false, () => ({ target: '/nowhere' })),
  of('a host that the gate does not allow', false, () => ({ host: 'evil.example' })),
  of('no passport', false, () => ({ passport: null })),
  of('a forged passport', false, () => ({ passport: passports.forged })),
  of('a revoked passport', false, () => ({ passport: passports.revoked })),
  of('two passports, one in each header', false, () => ({
    headers: [['Authorization', `Passport ${passports.other}`]],
  })),
  of('`X-Agent-Passport` twice, the first one good', null, () => ({
    passport: null,
    headers: twice('X-Agent-Passport', passports.buyer, passports.other),
  })),
  of('`X-Agent-Passport` twice, the second one good', false, () => ({
    passport: null,
    headers: twice('X-Agent-Passport', passports.forged, passports.buyer),
  })),
  of('`Authorization` twice: another scheme, then a passport', null, () => ({
    passport: null,
    headers: twice('Authorization', 'Bearer app', `Passport ${passports.buyer}`),
  })),
  ...(
    [
      ['X-Gate-Permission', 'any:use'],
      ['X-Gate-Amount', '0'],
      ['X-Gate-Decision', 'PERMIT'],
      ['X-Passport-Id', 'pass_other'],
      ['X-Forwarded-Uri', '/any'],
      ['X-Forwarded-Method', 'GET'],
      ['X-Original-URI', '/any'],
      ['X-Original-URL', '/any'],
      ['X-Original-Method', 'GET'],
    ] as const
  ).map(([name, value]) =>
    of(`\`${name}\` of the agent's own, once and twice, to pass a refusal`, false, () => ({
      ...denied(),
      headers: [[name, value], ...twice(name, value, `${value}x`)],
    })),
  ),
  of('`X-Forwarded-Method: GET` for a DELETE', false, () => ({
    method: 'DELETE',
    headers: [['X-Forwarded-Method', 'GET']],
  })),
  of('`X-Forwarded-Host` of the shop at another host', false, () => ({
    host: 'evil.example',
    headers: [['X-Forwarded-Host', host]],
  })),
  of('all of these headers, also with `_`, beside a permitted request', true, () => ({
    headers: [
      ...['X-Gate-Permission', 'X-Gate-Decision', 'X-Gate-Reason', 'X-Gate-Amount', 'X-Passport-Id'],
      ...['X-Attestation-Id', 'X-Forwarded-Uri', 'X-Forwarded-Method', 'X-Forwarded-Host', 'Forwarded'],
      ...['X-Forwarded-For', 'X-Forwarded-Prefix', 'X-Original-URI', 'X-Original-Method', 'X-Original-URL'],
      ...['X-Rewrite-URL', 'X-HTTP-Method-Override', 'X-HTTP-Method', 'X-Method-Override'],
    ].flatMap((name) => [
      ...twice(name, 'one', 'two'),
      [name.replaceAll('-', '_'), 'three'] as const,
      [name.replace(/-(?=[^-]*$)/, '_'), 'four'] as const,
    ]),
  })),
  of(
    'headers that some programs take for the path or the method, also with `_`, beside a permitted request',
    true,
    () => ({
      headers: othersForPath.flatMap((name) => [
        [name, '/admin/reset'] as const,
        [name.replaceAll('-', '_').toUpperCase(), '/files'] as const,
      ]),
    }),
  ),
  of('these headers with other characters in place of `-`, beside a permitted request', true, () => ({
    headers: [..."!#$%&'*+.^_`|~"].flatMap((character) => [
      ['X-Passport-Id'.replaceAll('-', character), 'one'] as const,
      ['X-Passport-Id'.replace('-', character), 'two'] as const,
      ['X-Passport-Id'.replace('-Id', `${character}Id`), 'three'] as const,
      ['X-HTTP-Method-Override'.replaceAll('-', character), 'DELETE'] as const,
    ]),
  })),
  of('`Connection` with the names of our headers, which a proxy would drop', true, () => ({
    headers: [['Connection', 'X-Passport-Id, X-Attestation-Id, X-Agent-Passport']],
  })),
  of('the same beside `Connection: Upgrade`', true, () => ({
    headers: twice('Connection', 'Upgrade', 'X-Passport-Id, X-Attestation-Id'),
  })),
  of('`Upgrade: h2c`, after which the gate would see nothing', true, () => ({
    headers: [
      ['Connection', 'Upgrade'],
      ['Upgrade', 'h2c'],
      ['HTTP2-Settings', 'AAMAAABkAAQAAP__'],
    ],
  })),
  of('`Upgrade` twice, to `h2c` and to a WebSocket', null, () => ({
    headers: [
      ['Connection', 'Upgrade'],
      ...twice('Upgrade', 'h2c', 'websocket'),
      ['Sec-WebSocket-Key', 'dGhlIHNhbXBsZSBub25jZQ=='],
      ['Sec-WebSocket-Version', '13'],
    ],
  })),
  of('`Host` twice', false, () => ({ headers: [['Host', 'evil.example']] })),
  ...paths.map(([what, target]) =>
    of(`a path with ${what}`.replace('a path with the', 'as its path, the'), false, () => ({
      target: target.replace('GATE', gateId),
    })),
  ),
  of('a whole URL as its target', true, () => ({ target: `http://${host}/orders/1` })),
  of('a whole URL of another host as its target', null, () => ({ target: 'http://evil.example/orders/1' })),
  of('a query with a path in it', true, () => ({ target: '/any?next=/../admin//%2f' })),
  ...['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'].map((method) =>
    of(`${method}, permitted`, true, () => ({
      ...{ method, target: '/any', ...(method === 'POST' && { body: Buffer.from('x') }) },
    })),
  ),
  of('HTTP/1.0 without `Host`', false, () => ({ version: '1.0', host: null })),
  of('the allowed host with a port', true, () => ({ host: `${host}:8000` })),
  of('HTTP/1.0', true, () => ({ version: '1.0' })),
  of('a cookie of 12 KiB', true, () => ({ headers: [['Cookie', `a=${'b'.repeat(12 * 1024)}`]] })),
  of('16 KiB of other headers', null, () => ({
    headers: [1, 2, 3, 4].map((n) => [`X-App-${n}`, 'b'.repeat(4 * 1024)] as const),
  })),
  of('`Content-Length` beside `Transfer-Encoding`', null, () => ({
    method: 'POST',
    target: '/any',
    body: Buffer.from('0\r\n\r\n'),
    headers: [['Transfer-Encoding', 'chunked']],
  })),
];

/** By surface and proxy, for the page. */
const outcomes = new Map<string, string>();
const proxyOf = (name: ProxyName): RunningProxy => must(proxies.get(name), 'started');
const note = (tried: string, name: ProxyName, outcome: string) => outcomes.set(`${tried} ${name}`, outcome);

describe.each(proxyNames)('%s', (name) => {
  it.each(surfaces)('answers: $tried', async ({ tried, ask: make, isServed }) => {
    const came = await ask(proxyOf(name), make());
    mustBeSafe(came);
    if (isServed !== null) expect(came.served.length > 0, outcomeOf(came)).toBe(isServed);
    note(tried, name, outcomeOf(came));
  });

  it("passes the gate's answer to the agent", async () => {
    const { answer } = await ask(proxyOf(name), { passport: passports.forged });
    expect(answer?.status).toBe(401);
    expect(answer?.headers.get('www-authenticate')).toBe('Passport');
    expect(answer?.headers.get('x-gate-decision')).toBe('BLOCK');
    expect(answer?.headers.get('x-attestation-id')).toMatch(/^att_/);
    const limited = await ask(proxyOf(name), { passport: passports.limited, target: '/any' });
    expect(limited.answer?.status).toBe(403);
    expect(limited.answer?.headers.get('x-gate-reason')).toBe('rate_limit_exceeded');
    expect(Number(limited.answer?.headers.get('retry-after'))).toBeGreaterThan(0);
  });

  it('answers a trouble of the service with 503, and when to try again', async () => {
    const rate = { rate_limits: { requests_per_day: 5 } };
    const issued = await api.issuePassport({ permissions: ['any:use'], constraints: rate });
    sidecar.link.cut();
    const came = await ask(proxyOf(name), { passport: issued.jwt, target: '/any' });
    sidecar.link.restore();
    mustBeSafe(came);
    expect(outcomeOf(came)).toBe('503 `quota_unavailable`');
    expect(came.answer?.headers.get('x-gate-decision')).toBe('BLOCK');
    expect(came.answer?.headers.get('retry-after')).toBe('1');
    expect(came.answer?.headers.get('content-type')).toMatch(/^application\/json/);
    await sidecar.caughtUp();
  });

  it('leaves an Authorization of the service alone, and does not show it to the sidecar', async () => {
    const came = await ask(proxyOf(name), { headers: [['Authorization', 'Bearer app']] });
    mustBeSafe(came);
    expect(came.served.map(({ headers }) => valuesOf(headers, 'authorization'))).toEqual([['Bearer app']]);
    if (name === 'caddy') return;
    expect(came.questions.map(({ headers }) => valuesOf(headers, 'authorization'))).toEqual([[]]);
  });

  it('passes a body of 4 MiB on unchanged, with a length and in chunks', async () => {
    const body = randomBytes(4 * 1024 * 1024);
    const bodySha256 = createHash('sha256').update(body).digest('hex');
    const sized = await ask(proxyOf(name), { method: 'POST', target: '/any', body });
    mustBeSafe(sized);
    expect(sized.served).toMatchObject([{ method: 'POST', bodySha256 }]);
    const chunked = Buffer.concat([
      Buffer.from(`${body.byteLength.toString(16)}\r\n`),
      body,
      Buffer.from('\r\n0\r\n\r\n'),
    ]);
    const headers = [['Transfer-Encoding', 'chunked']] as const;
    const head = headOf({ method: 'POST', target: '/any', headers });
    expect((await answerTo(proxyOf(name), head, { body: chunked }))?.status).toBe(200);
    expect(service.served).toMatchObject([{ method: 'POST', bodySha256 }]);
  });

  const passesWebSockets = name !== 'nginx';
  it(`${passesWebSockets ? 'passes' : 'does not pass'} a permitted WebSocket on`, async () => {
    const headers = [
      ['Connection', 'keep-alive, Upgrade'],
      ['Upgrade', 'WebSocket'],
      ['Sec-WebSocket-Key', 'dGhlIHNhbXBsZSBub25jZQ=='],
      ['Sec-WebSocket-Version', '13'],
    ] as const;
    const came = await ask(proxyOf(name), { headers });
    mustBeSafe(came);
    const upgrades = came.served.map((each) => valuesOf(each.headers, 'upgrade'));
    expect(upgrades).toEqual([passesWebSockets ? ['websocket'] : []]);
    const connections = came.served.map((each) => valuesOf(each.headers, 'connection').join().toLowerCase());
    expect(connections).toEqual([passesWebSockets ? 'upgrade' : '']);
  });

  it('asks for one permission in all cases where the file names it', async () => {
    const places = { gateId, sidecarPort: relay.port, servicePort: service.port };
    const proxy = await startProxy(name, { ...places, permission: 'orders:read' });
    const headers = [['X-Gate-Permission', 'any:use']] as const;
    const permitted = await ask(proxy, { target: '/nowhere', headers });
    const refused = await ask(proxy, { target: '/any', passport: passports.weak, headers });
    await proxy.stop();
    for (const { questions } of [permitted, refused]) {
      expect(questions.map((each) => valuesOf(each.headers, 'x-gate-permission'))).toEqual([['orders:read']]);
    }
    expect([permitted, refused].map(outcomeOf)).toEqual(['200, served', '403 `permission_not_granted`']);
    expect(permitted.served.map((each) => valuesOf(each.headers, 'x-gate-permission'))).toEqual([[]]);
  });

  it('asks for no body before the gate has permitted', async () => {
    const headers = [
      ['Content-Length', '1048576'],
      ['Expect', '100-continue'],
    ] as const;
    // Not 100, and without a byte of the body.
    expect((await answerTo(proxyOf(name), headOf({ ...denied(), headers })))?.status).toBe(403);
    expect(service.served).toEqual([]);
  });

  it('keeps its connection to the sidecar', async () => {
    const before = relay.connections;
    // Caddy ends it where an answer has a body that it does not pass on.
    const asked: Ask = name === 'caddy' ? { passport: null } : {};
    for (let i = 0; i < 10; i += 1) await ask(proxyOf(name), asked);
    // Of several threads or workers, each has its own.
    expect(relay.connections - before).toBeLessThanOrEqual(4);
  });

  it('decides each of many requests at once, and goes on', async () => {
    const kinds: readonly Ask[] = [{ target: '/any' }, { passport: null }, denied()];
    const asked = await Promise.all(
      Array.from({ length: 150 }, async (_, i) => {
        const answer = await answerTo(proxyOf(name), headOf(kinds[i % kinds.length] ?? {}));
        return `${answer?.status} ${answer?.headers.get('x-gate-reason') ?? ''}`;
      }),
    );
    const expected = ['200 ', '401 passport_missing', '403 permission_not_granted'];
    expect(asked).toEqual(Array.from({ length: 150 }, (_, i) => expected[i % kinds.length]));
    expect(service.served).toHaveLength(50);
    expect(relay.questions).toHaveLength(150);
    service.served.splice(0);
    relay.questions.splice(0);
    expect(outcomeOf(await ask(proxyOf(name), {}))).toBe('200, served');
  });
});

describe('a sidecar that does not decide', () => {
  const failures: readonly (readonly [tried: string, arrange: () => unknown])[] = [
    ['the sidecar is stopped', () => relay.refuse()],
    ['the sidecar answers late', () => relay.hold()],
    ['the sidecar is not ready', () => relay.passTo(portOf(unready))],
    ['something else listens in its place', () => relay.passTo(service.port)],
  ];
  // All proxies at once: a deadline is waited for once.
  it.each(failures)('lets nothing pass: %s', async (tried, arrange) => {
    await arrange();
    await Promise.all(
      proxyNames.map(async (name) => {
        const answer = await answerTo(proxyOf(name), headOf({}));
        expect(answer?.status, name).toBe(503);
        expect(answer?.headers.get('retry-after'), name).toBe('1');
        expect(answer?.headers.get('content-type'), name).toMatch(/^application\/json/);
        // Of the sidecar itself, where it says so: an error.
        const body = JSON.parse(answer?.body.toString() ?? '');
        expect(body.decision ?? body.error.code, name).toMatch(/^UNAVAILABLE$|^service_unavailable$/);
        const reason = answer?.headers.get('x-gate-reason');
        note(tried, name, reason ? `${answer?.status} \`${reason}\`` : String(answer?.status));
      }),
    );
    // The service gets the questions where it listens in the sidecar's place, and nothing else.
    expect(service.served.map(({ target }) => target).filter((target) => target === '/orders/1')).toEqual([]);
  });

  it('is forgotten as soon as it decides again', async () => {
    await relay.refuse();
    for (const name of proxyNames) {
      expect((await ask(proxyOf(name), {})).answer?.status, name).toBeGreaterThanOrEqual(500);
    }
    await relay.passTo(portOf(sidecar));
    for (const name of proxyNames) expect(outcomeOf(await ask(proxyOf(name), {})), name).toBe('200, served');
  });
});

describe('a service that gives no answer', () => {
  it('is 502, and no word of a decision that is missing', async () => {
    const places = { gateId, sidecarPort: relay.port, servicePort: await freePort() };
    await Promise.all(
      proxyNames.map(async (name) => {
        const proxy = await startProxy(name, places);
        const { answer, questions } = await ask(proxy, {});
        await proxy.stop();
        expect(answer?.status, name).toBe(502);
        expect(answer?.headers.get('content-type'), name).toMatch(/^application\/json/);
        expect(answer?.headers.get('retry-after'), name).toBeUndefined();
        const { decision, detail } = JSON.parse(answer?.body.toString() ?? '');
        expect([decision, detail], name).toEqual([
          'PERMIT',
          expect.stringMatching(/service .* gave no answer/),
        ]);
        expect(questions.length, name).toBeLessThanOrEqual(proxyNames.length);
        note('the service is stopped', name, outcomeOf({ answer, served: [], questions }));
      }),
    );
  });
});

// Debian has no Traefik and no Envoy: these are the requests that they send by their source with our files.
describe('a request in the shape of', () => {
  interface Original {
    readonly method?: string;
    readonly target?: string;
    readonly host?: string;
    readonly passport?: string;
    readonly headers?: readonly (readonly [name: string, value: string])[];
  }
  const read = (file: string) =>
    parse(readFileSync(new URL(`../../deploy/proxies/${file}`, import.meta.url), 'utf8'));
  const sentBy = ({ passport = passports.buyer, headers = [] }: Original) =>
    [['X-Agent-Passport', passport] as const, ...headers].map(
      ([name, value]) => [name.toLowerCase(), value] as const,
    );
  const only = (names: readonly string[], headers: ReturnType<typeof sentBy>) => {
    const kept = new Set(names.map((name) => name.toLowerCase()));
    return headers.filter(([name]) => kept.has(name));
  };

  /**
   * `pkg/middlewares/auth/forward.go` and `pkg/middlewares/headers/header.go` of Traefik 3.7.9: a GET at the
   * address, of the headers those that are named, and the `X-Forwarded-*` of the request.
   */
  const traefik = (original: Original) => {
    const { clear, gate } = read('traefik.dynamic.yml').http.middlewares;
    expect(gate.forwardAuth.trustForwardHeader).toBe(false);
    const cleared = Object.entries(clear.headers.customRequestHeaders)
      .filter(([, value]) => value === '')
      .map(([name]) => name.toLowerCase());
    const sent = sentBy(original).filter(([name]) => !cleared.includes(name));
    return {
      method: 'GET',
      target: new URL(gate.forwardAuth.address).pathname.replace('gate_REPLACE_ME', gateId),
      headers: [
        ...only(gate.forwardAuth.authRequestHeaders, sent),
        ['X-Forwarded-For', '127.0.0.1'],
        ['X-Forwarded-Host', original.host ?? host],
        ['X-Forwarded-Method', original.method ?? 'GET'],
        ['X-Forwarded-Port', '8000'],
        ['X-Forwarded-Proto', 'http'],
        ['X-Forwarded-Uri', original.target ?? '/orders/1'],
        ['Accept-Encoding', 'gzip'],
      ] as const,
    };
  };
  /**
   * `source/extensions/filters/common/ext_authz/ext_authz_http_impl.cc` of Envoy 1.26: the method, the prefix
   * and then the path, of the headers those that are allowed and `Authorization`, and what its client adds.
   */
  const envoy = (original: Original) => {
    const [listener] = read('envoy.yaml').static_resources.listeners;
    const [authz] = listener.filter_chains[0].filters[0].typed_config.http_filters;
    const { failure_mode_allow, http_service } = authz.typed_config;
    expect(failure_mode_allow).toBe(false);
    const { patterns } = http_service.authorization_request.allowed_headers;
    const allowed = patterns.map(({ exact }: { readonly exact: string }) => exact);
    const prefix = http_service.path_prefix.replace('gate_REPLACE_ME', openGateId);
    return {
      method: original.method ?? 'GET',
      target: `${prefix}${original.target ?? '/orders/1'}`,
      headers: [
        ['content-length', '0'],
        ...only([...allowed, 'authorization'], sentBy(original)),
        ['x-envoy-internal', 'true'],
        ['x-forwarded-for', '127.0.0.1'],
        ['x-envoy-expected-rq-timeout-ms', '4000'],
      ] as const,
    };
  };
  const shapes = [
    { proxy: 'Traefik', shape: traefik },
    { proxy: 'Envoy', shape: envoy },
  ];

  it.each(shapes)('$proxy is decided by method and path', async ({ shape }) => {
    const decided = async (original: Original) => {
      const answer = await askForward(sidecar, shape(original));
      return `${answer?.status} ${answer?.decision} ${answer?.reason}`;
    };
    expect(await decided({})).toBe('200 PERMIT ');
    for (const method of ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']) {
      expect(await decided({ method, target: '/any?next=/../x' }), method).toBe('200 PERMIT ');
    }
    expect(await decided({ method: 'DELETE' })).toBe('403 BLOCK permission_missing');
    const own = ['X-Gate-Permission', 'X-Forwarded-Uri', 'X-Forwarded-Method', 'X-Original-URI'];
    const headers = own.map((name) => [name, name === own[0] ? 'any:use' : '/any'] as const);
    expect(await decided({ ...denied(), headers })).toBe('403 BLOCK permission_not_granted');
    expect(await decided({ passport: passports.revoked })).toBe('401 BLOCK passport_revoked');
    expect(await decided({ passport: passports.forged })).toBe('401 BLOCK passport_signature_invalid');
    for (const target of [
      '/files/../admin/x',
      '/files/a%2fb',
      '//admin',
      '/files/..%5cadmin',
      '/files/a;b',
    ]) {
      expect(await decided({ target }), target).toBe('403 BLOCK permission_missing');
    }
  });

  it('Traefik is decided by the host of the request', async () => {
    const answer = await askForward(sidecar, traefik({ host: 'evil.example' }));
    expect([answer?.status, answer?.reason]).toEqual([403, 'domain_not_allowed']);
  });

  it('Envoy, with two passports, is refused', async () => {
    const headers = [['authorization', `Passport ${passports.other}`]] as const;
    const answer = await askForward(sidecar, envoy({ headers }));
    expect([answer?.status, answer?.reason]).toEqual([401, 'passport_ambiguous']);
  });
});

describe('proofs of possession', () => {
  const provenPassport = async () => {
    const { privateKey, publicJwk } = makeAgentKey();
    const constraints = { proof_of_possession: 'required' };
    const issued = { permissions: ['orders:read'], public_key: publicJwk, constraints };
    const { jwt } = await api.issuePassport(issued);
    return (proof: 'dpop' | 'httpsig', at = host) =>
      Object.entries(
        agentSigner(jwt, privateKey, { proof, signatureAgent: 'https://agent.example' })({
          ...{ method: 'GET', url: `https://${at}/orders/1`, hasAuthorization: true },
        }),
      );
  };

  it.each(proxyNames)('reach the sidecar through %s', async (name) => {
    const sign = await provenPassport();
    const proxy = must(proxies.get(name), 'it runs');
    const outcome = async (headers: Ask['headers'] = [], at = host) =>
      outcomeOf(await ask(proxy, { passport: null, headers, host: at }));
    for (const proof of ['dpop', 'httpsig'] as const) {
      const signed = sign(proof);
      expect(await outcome(signed)).toBe('200, served');
      expect(await outcome(signed)).toBe('403 `proof_replayed`');
      expect(await outcome(sign(proof, 'other.example'))).toBe('403 `proof_invalid`');
      // A proof for the thief's own server, which sends it on under the name of that server.
      expect(await outcome(sign(proof, 'evil.example'), 'evil.example')).toBe('403 `domain_not_allowed`');
    }
    const [passport] = sign('dpop').filter(([header]) => header === 'x-agent-passport');
    expect(await outcome([must(passport, 'it is shown')])).toBe('403 `proof_missing`');
  });
});

const page = new URL('../../docs/integrations/proxies.md', import.meta.url);

it('holds the table of the page (UPDATE_DOCS=1 writes it)', () => {
  const text = readFileSync(page, 'utf8');
  const all = [...new Set([...outcomes.keys()].map((key) => key.slice(0, key.lastIndexOf(' '))))];
  const head = proxyNames.map((name) => `${titles[name]} ${proxyOf(name).version}`);
  const rows = all.map((tried) => [tried, ...proxyNames.map((name) => outcomes.get(`${tried} ${name}`))]);
  const lines = [['tried', ...head], ['---', ...head.map(() => '---')], ...rows];
  const table = lines.map((cells) => `| ${cells.join(' | ')} |`).join('\n');
  const place = /(<!-- tried -->\n)[\s\S]*?(<!-- \/tried -->)/;
  expect(text).toMatch(place);
  const wanted = text.replace(place, (_all, begin, end) => `${begin}${table}\n${end}`);
  if (process.env['UPDATE_DOCS'] === '1') writeFileSync(page, wanted);
  else expect(text).toBe(wanted);
});

const titles = { nginx: 'nginx', caddy: 'Caddy', haproxy: 'HAProxy' } as const;
