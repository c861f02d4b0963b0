import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import {
  Client,
  ClientCredentialsProvider,
  type FetchLike,
  StreamableHTTPClientTransport,
} from '@modelcontextprotocol/client';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as TransportV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import * as jose from 'jose';
import Provider from 'oidc-provider';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { agentSigner } from '../../clients/node/src/agent.ts';
import { foreignPermissions } from '../../mcp-proxy/foreign-permissions.ts';
import { proxyLimits } from '../../mcp-proxy/limits.ts';
import { ProtectedResource } from '../../mcp-proxy/protected-resource.ts';
import { federatedPassportId } from '../../shared/crypto/federated-id.ts';
import type { IssuerId } from '../../shared/model/ids.ts';
import type { MonotonicMillis } from '../../shared/model/time.ts';
import { systemClock } from '../../shared/runtime/clock.ts';
import { freePort } from '../support/base/free-port.ts';
import { until } from '../support/base/until.ts';
import { makeAgentKey } from '../support/data/proofs.ts';
import { type ForeignProvider, startForeignProvider } from '../support/peers/foreign-issuer.ts';
import { type GuardedOptions, startGuarded } from './support/guarded.ts';
import { startRecorder, startSessionServer, startStatelessServer, text } from './support/mcp-servers.ts';
import { type ClientService, startClientService } from './support/service.ts';

/** guard-mcp as a protected resource: access tokens of a company's identity provider are passports. */
const publicUrl = new URL('http://127.0.0.1:8095/mcp');
const audience = publicUrl.href;

let service: ClientService;
let provider: ForeignProvider;
let gate: string;
let issuerId: IssuerId;
beforeAll(async () => {
  service = await startClientService({ outbound: { allowPrivate: true } });
  provider = await startForeignProvider();
  await provider.addKey('ES256');
  const created = await service.api.createIssuer({
    name: 'Company',
    federation: {
      ...{ type: 'oidc', issuer: provider.issuer, audiences: [audience] },
      claims: { permissions: '/roles' },
      permission_map: { Buyer: ['tools:pay'], Counter: ['tools:count'] },
    },
  });
  issuerId = created.issuer_id;
  const constraints = { spend_limits: { unpriced: 'permit' as const } };
  gate = (await service.agentTrust.gates.create({ name: 'Tools', trust_level: 'L1', constraints })).gate_id;
  await service.testSidecar.caughtUp();
});
afterAll(async () => {
  await service.close();
  await provider.close();
});

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

const tokenOf = (change: object = {}) =>
  provider.sign(
    { aud: audience, sub: `agent-${randomUUID()}`, roles: ['Buyer'], ...change },
    { typ: 'at+jwt' },
  );

const resourceFor = (authorizationServer = provider.issuer) =>
  new ProtectedResource({ publicUrl, authorizationServers: [authorizationServer], scopes: ['tools'] });

async function open(change: Partial<GuardedOptions> = {}, upstream = startStatelessServer) {
  const server = await upstream();
  closing.push(() => server.close());
  const resource = resourceFor();
  const proxy = await startGuarded({ service, gate, upstream: server.url, publicUrl, resource, ...change });
  closing.push(() => proxy.close());
  return { ran: server.ran, url: proxy.url, server };
}

const call = (id: number, name = 'pay') => ({
  ...{ jsonrpc: '2.0', id, method: 'tools/call' },
  params: { name, arguments: { amount: 1 } },
});
const send = (url: string, message: unknown, headers: Record<string, string> = {}) =>
  fetch(url, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      ...headers,
    },
    body: JSON.stringify(message),
  });
const bearer = (token: string) => ({ authorization: `Bearer ${token}` });
const metadataUrl = 'http://127.0.0.1:8095/.well-known/oauth-protected-resource/mcp';

describe('the proxy as a protected resource', () => {
  it('leads from a 401 to its metadata, at both of its addresses', async () => {
    const { url, ran } = await open();
    for (const message of [call(1), { jsonrpc: '2.0', id: 1, method: 'initialize', params: {} }]) {
      const response = await send(url, message);
      expect(response.status).toBe(401);
      expect(response.headers.get('www-authenticate')).toBe(`Bearer resource_metadata="${metadataUrl}"`);
    }
    expect((await fetch(url, { headers: { accept: 'text/event-stream' } })).status).toBe(401);
    expect((await send(url, call(1), { authorization: 'Basic YTpi' })).status).toBe(401);
    const { origin } = new URL(url);
    for (const path of ['', '/mcp']) {
      const response = await fetch(`${origin}/.well-known/oauth-protected-resource${path}`);
      expect(response.headers.get('content-type')).toBe('application/json');
      expect(await response.json()).toEqual({
        resource: audience,
        authorization_servers: [provider.issuer],
        scopes_supported: ['tools'],
        bearer_methods_supported: ['header'],
        dpop_signing_alg_values_supported: ['EdDSA', 'Ed25519', 'ES256'],
      });
    }
    expect(ran).toEqual([]);
  });

  it('has none of it where no authorization server is named', async () => {
    const { url } = await open({ resource: undefined as never });
    const { origin } = new URL(url);
    expect((await fetch(`${origin}/.well-known/oauth-protected-resource/mcp`)).status).toBe(404);
    const response = await send(url, call(1));
    expect([response.status, response.headers.get('www-authenticate')]).toEqual([401, 'Passport']);
    expect(await response.text()).toContain('passport_missing');
    // The token is the server's own.
    expect(await (await send(url, call(1), bearer(await tokenOf()))).text()).toContain('passport_missing');
  });

  it('takes a token as the passport of its subject, and the server never sees it', async () => {
    const recorder = await startRecorder((_request, response) =>
      response
        .writeHead(200, { 'content-type': 'application/json' })
        .end('{"jsonrpc":"2.0","id":1,"result":{}}'),
    );
    closing.push(() => recorder.close());
    const proxy = await startGuarded({
      service,
      gate,
      upstream: recorder.url,
      publicUrl,
      resource: resourceFor(),
    });
    closing.push(() => proxy.close());
    const sub = `agent-${randomUUID()}`;
    const token = await tokenOf({ sub });
    for (const headers of [
      bearer(token),
      { authorization: `bearer  ${token}` },
      { authorization: `Passport ${token}` },
      { 'x-agent-passport': token },
    ])
      expect((await send(proxy.url, call(1), headers)).status).toBe(200);
    // What no reader takes for a token is not the server's either.
    const odd = { 'x-agent-passport': token, authorization: 'Bearer a-token with blanks' };
    expect((await send(proxy.url, call(1), odd)).status).toBe(200);
    const received = JSON.stringify(recorder.recorded);
    expect(recorder.recorded).toHaveLength(5);
    expect(received).not.toContain(token);
    expect(received).not.toContain('a-token');
    const passport = `/v1/passports/${federatedPassportId(issuerId, sub)}`;
    await until(async () => (await service.api.call({ url: passport })).status === 200, {
      what: 'the passport of the subject',
    });
  });

  it.each<[string, () => Promise<string>, string]>([
    ['has expired', () => tokenOf({ iat: 1_700_000_000, exp: 1_700_003_600 }), 'passport_expired'],
    ['is no token', async () => 'nonsense', 'passport_malformed'],
    ['is signed by another', async () => `${(await tokenOf()).slice(0, -8)}AAAAAAAA`, 'passport_'],
  ])('answers 401 where a token %s', async (_what, make, reason) => {
    const { url, ran } = await open();
    const response = await send(url, call(1), bearer(await make()));
    expect(response.status).toBe(401);
    const challenge = response.headers.get('www-authenticate');
    expect(challenge).toContain(`resource_metadata="${metadataUrl}", error="invalid_token"`);
    expect(challenge).toContain(`error_description="${reason}`);
    expect(ran).toEqual([]);
  });

  it('takes the proof of a token that is bound to a key, as RFC 9449 sends both', async () => {
    const constraints = {
      proof_of_possession: 'required' as const,
      spend_limits: { unpriced: 'permit' as const },
    };
    const made = await service.agentTrust.gates.create({ name: 'Proven', trust_level: 'L1', constraints });
    await service.testSidecar.caughtUp();
    const { url, ran } = await open({ gate: made.gate_id });
    const { privateKey, publicJwk } = makeAgentKey('p256');
    const token = await tokenOf({ cnf: { jwk: publicJwk } });
    const signer = agentSigner(token, privateKey, { proof: 'dpop' });
    const proven = (target: string) => ({
      authorization: `DPoP ${token}`,
      dpop: signer({ method: 'POST', url: target })['dpop'] ?? '',
    });
    const good = proven(publicUrl.href);
    expect(await (await send(url, call(1), good)).text()).toContain('"pay"');
    expect(await (await send(url, call(1), good)).text()).toContain('proof_replayed');
    const elsewhere = proven('https://elsewhere.example/mcp');
    expect(await (await send(url, call(1), elsewhere)).text()).toContain('proof_invalid');
    expect(await (await send(url, call(1), bearer(token))).text()).toContain('proof_missing');
    expect(ran).toEqual(['pay']);
  });
});

describe('lists', () => {
  const listed = async (url: string, token: string): Promise<{ names: string[]; meta: string }> => {
    const client = new ClientV1({ name: 'agent', version: '1' });
    const transport = new TransportV1(new URL(url), { requestInit: { headers: bearer(token) } });
    await client.connect(transport as Parameters<ClientV1['connect']>[0]);
    closing.push(() => client.close());
    const first = await client.listTools();
    const rest =
      first.nextCursor === undefined ? [] : (await client.listTools({ cursor: first.nextCursor })).tools;
    return { names: [...first.tools, ...rest].map(({ name }) => name), meta: JSON.stringify(first._meta) };
  };

  it('show what the claims of a token permit', async () => {
    const { url } = await open({}, startSessionServer);
    expect((await listed(url, await tokenOf({ roles: ['Buyer', 'Counter'] }))).names).toEqual([
      'pay',
      'count',
    ]);
    expect((await listed(url, await tokenOf({ roles: ['Counter'] }))).names).toEqual(['count']);
    expect((await listed(url, await tokenOf({ roles: [] }))).names).toEqual([]);
    await expect(listed(url, await tokenOf({ aud: 'elsewhere' }))).rejects.toThrow();
  });

  it('ask the control plane once for each token, and of many at once only some', async () => {
    const { issuers } = service.agentTrust;
    let [lists, tries] = [0, 0];
    let nowMs = 1;
    const read = foreignPermissions(
      {
        list: (...args) => {
          lists += 1;
          return issuers.list(...args);
        },
        tryToken: (...args) => {
          tries += 1;
          return issuers.tryToken(...args);
        },
      },
      { now: systemClock.now, monotonic: () => nowMs as MonotonicMillis },
    );
    const token = await tokenOf();
    for (let i = 0; i < 3; i++) expect(await read(token)).toMatchObject({ kind: 'granted' });
    expect([lists, tries]).toEqual([1, 1]);
    // One that no issuer fits has the list read again, but not at once.
    const strange = await tokenOf({ iss: 'https://elsewhere.example' });
    expect(await read(strange)).toMatchObject({ reason: 'issuer_unknown' });
    expect([lists, tries]).toEqual([1, 1]);
    nowMs += proxyLimits.keysPauseMs + 1;
    expect(await read(strange)).toMatchObject({ reason: 'issuer_unknown' });
    expect([lists, tries]).toEqual([2, 1]);
    const most = proxyLimits.foreignTokensAtOnceMax;
    const flood = await Promise.all(Array.from({ length: 2 * most }, () => tokenOf()));
    const answers = await Promise.all(flood.map(read));
    expect(answers.filter(({ kind }) => kind === 'granted')).toHaveLength(most);
    expect(tries).toBe(1 + most);
    // Forgotten in time: permissions change.
    nowMs += proxyLimits.keysMsMax + 1;
    await read(token);
    expect(tries).toBe(2 + most);
  });
});

it('serves a client of the MCP SDK that gets its token from oidc-provider, from the first 401 on', async () => {
  const port = await freePort();
  const issuer = `http://127.0.0.1:${port}`;
  const { privateKey } = await jose.generateKeyPair('RS256', { extractable: true });
  const company = new Provider(issuer, {
    clients: [
      {
        ...{ client_id: 'assistant', client_secret: 'a-secret-of-the-client', redirect_uris: [] },
        ...{ grant_types: ['client_credentials'], response_types: [] },
      },
    ],
    jwks: { keys: [{ ...(await jose.exportJWK(privateKey)), kid: 'one', alg: 'RS256', use: 'sig' }] },
    features: {
      devInteractions: { enabled: false },
      clientCredentials: { enabled: true },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: (_ctx, resource) => ({
          ...{ scope: 'tools', audience: resource, accessTokenFormat: 'jwt', accessTokenTTL: 300 },
          jwt: { sign: { alg: 'RS256' } },
        }),
      },
    },
  });
  const server = createServer(company.callback()).listen(port, '127.0.0.1');
  closing.push(() => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  });
  await service.api.createIssuer({
    name: 'oidc-provider',
    federation: { ...{ type: 'oidc', issuer, audiences: [audience] }, permissions: ['tools:pay'] },
  });
  await service.testSidecar.caughtUp();
  const { url, ran } = await open({ resource: resourceFor(issuer) });
  // The proxy is reached at its public address, as by a reverse proxy in front.
  const here: FetchLike = (input, init) =>
    fetch(String(input).replace('http://127.0.0.1:8095', new URL(url).origin), init);
  const authProvider = new ClientCredentialsProvider({
    ...{ clientId: 'assistant', clientSecret: 'a-secret-of-the-client', scope: 'tools' },
    expectedIssuer: issuer,
  });
  const client = new Client({ name: 'assistant', version: '1' });
  await client.connect(new StreamableHTTPClientTransport(publicUrl, { authProvider, fetch: here }));
  closing.push(() => client.close());
  expect(await client.callTool({ name: 'pay', arguments: { amount: 1 } })).toMatchObject(text('pay'));
  expect(ran).toEqual(['pay']);
});
