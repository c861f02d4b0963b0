import type { OAuthClientProvider } from '@modelcontextprotocol/sdk/client/auth.js';
import { UnauthorizedError } from '@modelcontextprotocol/sdk/client/auth.js';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { oauthLimits } from '../../control-plane/oauth/limits.ts';
import { authorization, Browser, startTools, type Tools } from '../support/tools.ts';

let tools: Tools;
beforeAll(async () => {
  tools = await startTools();
});
afterAll(() => tools.close());

const redirectUri = 'http://127.0.0.1:7777/callback';

const register = async (
  body: unknown,
  at = tools,
): Promise<{ status: number; headers: Headers; body: Registered }> => {
  const response = await at.fetch(`${at.origin}/oauth/register`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  });
  return { status: response.status, headers: response.headers, body: (await response.json()) as Registered };
};
interface Registered {
  readonly client_id: string;
  readonly [member: string]: unknown;
}

/** What the official client keeps between two of its starts. */
function clientOf(at: Tools) {
  const stored: {
    information?: Parameters<NonNullable<OAuthClientProvider['saveClientInformation']>>[0];
    tokens?: Parameters<OAuthClientProvider['saveTokens']>[0];
    verifier: string;
    authorizeAt: URL | null;
  } = { verifier: '', authorizeAt: null };
  const provider: OAuthClientProvider = {
    redirectUrl: redirectUri,
    clientMetadata: {
      client_name: 'The older official client',
      redirect_uris: [redirectUri],
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
      token_endpoint_auth_method: 'client_secret_post',
    },
    clientInformation: () => stored.information,
    saveClientInformation: (information) => {
      stored.information = information;
    },
    tokens: () => stored.tokens,
    saveTokens: (tokens) => {
      stored.tokens = tokens;
    },
    redirectToAuthorization: (url) => {
      stored.authorizeAt = url;
    },
    saveCodeVerifier: (verifier) => {
      stored.verifier = verifier;
    },
    codeVerifier: () => stored.verifier,
  };
  const transport = () =>
    new StreamableHTTPClientTransport(new URL(at.mcpUrl), {
      authProvider: provider,
      fetch: (url, init) => at.fetch(url, init),
    });
  return { stored, transport };
}

describe('@modelcontextprotocol/sdk 1.x, which knows no metadata documents', () => {
  it('discovers, registers, asks a person on the real page, and lists and calls the tools', async () => {
    const key = await tools.api.createKey({ scopes: ['admin:*'] });
    const { stored, transport } = clientOf(tools);
    const client = new Client({ name: 'test', version: '1' });
    const first = transport();
    // Its types allow an undefined session id where those of the interface do not.
    await expect(client.connect(first as Parameters<Client['connect']>[0])).rejects.toThrow(
      UnauthorizedError,
    );
    expect(stored.information?.client_id).toMatch(/^client_/);
    if (stored.authorizeAt === null) throw new Error('the client did not ask for a person');
    // Keys are not among what it is offered: it did not ask for them by name.
    expect(stored.authorizeAt.searchParams.get('scope') ?? '').not.toMatch(/keys:manage|admin/);
    const browser = new Browser(tools);
    const { html } = await browser.openConsent(stored.authorizeAt);
    expect(html).toContain('The older official client asks for access');
    expect(html).toContain('nobody has checked who it is');
    expect(html).not.toContain('keys:manage');
    const back = await new Browser(tools).consent(stored.authorizeAt, key.key);
    await first.finishAuth(back.searchParams.get('code') ?? '');
    await client.connect(transport() as Parameters<Client['connect']>[0]);

    const { tools: listed } = await client.listTools();
    expect(listed.map(({ name }) => name)).toContain('resolve_approval');
    const made = await client.callTool({
      name: 'create_passport',
      arguments: { agent_id: 'sdk', permissions: [] },
    });
    expect(made.isError ?? false, JSON.stringify(made.content)).toBe(false);
    const { entries } = (await tools.api.call({ url: '/v1/audit?operation=issuePassport' })).body;
    expect(entries[0].actor).toEqual({
      type: 'access_token',
      id: key.keyId,
      client_id: stored.information?.client_id,
    });
    await client.close();
  });
});

describe('registration', () => {
  it('makes a public client of any registration', async () => {
    const asked = {
      redirect_uris: ['https://app.example/cb', 'http://localhost/cb', 'http://[::1]:9/cb'],
      client_name: ' Des\u202ek\u0007 ',
      token_endpoint_auth_method: 'client_secret_basic',
      grant_types: ['implicit'],
      jwks_uri: 'https://internal.example/keys',
    };
    const { status, body } = await register(asked);
    expect(status).toBe(201);
    expect(body).toEqual({
      client_id: expect.stringMatching(/^client_[\w-]{22}$/),
      client_id_issued_at: expect.any(Number),
      client_name: 'Desk',
      redirect_uris: asked.redirect_uris,
      token_endpoint_auth_method: 'none',
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
    });
  });

  const refused: readonly [string, unknown][] = [
    ['none', {}],
    ['an empty list', { redirect_uris: [] }],
    ['a text', { redirect_uris: 'https://a.example' }],
    ['http that is not loopback', { redirect_uris: ['http://a.example/cb'] }],
    ['a name that begins like loopback', { redirect_uris: ['http://localhost.a.example/cb'] }],
    ['another scheme', { redirect_uris: ['https://a.example', 'javascript:alert(1)'] }],
    ['an app', { redirect_uris: ['com.example.app:/cb'] }],
    ['a fragment', { redirect_uris: ['https://a.example/#x'] }],
    ['too many', { redirect_uris: Array(oauthLimits.redirectUrisMax + 1).fill('https://a.example') }],
    [
      'one that is too long',
      { redirect_uris: [`https://a.example/${'x'.repeat(oauthLimits.redirectUriCharsMax)}`] },
    ],
    ['a backslash', { redirect_uris: ['https://a.example\\@evil.example/cb'] }],
    ['a user', { redirect_uris: ['https://a.example@evil.example/cb'] }],
    ['a blank', { redirect_uris: ['https://a.example/cb '] }],
    ['loopback in another spelling', { redirect_uris: ['http://127.1/cb'] }],
    ['no host', { redirect_uris: ['https:/a.example/cb'] }],
    ['no object', []],
    ['null', 'null'],
  ];
  it.each(refused)('refuses %s for redirects', async (_what, body) => {
    expect(await register(body)).toMatchObject({ status: 400, body: { error: 'invalid_redirect_uri' } });
  });

  it('refuses a body that is no JSON, or too large', async () => {
    const large = {
      redirect_uris: ['https://a.example'],
      client_name: 'x'.repeat(oauthLimits.clientDocumentBytesMax),
    };
    for (const body of ['{', large])
      expect(await register(body)).toMatchObject({ status: 400, body: { error: 'invalid_client_metadata' } });
  });

  it('gives nothing but what a person lets it have: its id alone opens nothing', async () => {
    const { body } = await register({ redirect_uris: [redirectUri] });
    const response = await tools.fetch(`${tools.origin}/oauth/token`, {
      method: 'POST',
      body: new URLSearchParams({ grant_type: 'client_credentials', client_id: body.client_id }),
    });
    expect(response.status).toBe(400);
    const { url } = authorization(tools, { clientId: body.client_id, redirectUri: 'https://evil.example/' });
    expect((await new Browser(tools).open(url)).status).toBe(400);
  });
});

describe('the life of a registration', () => {
  let own: Tools;
  let clientId: string;
  const ask = () => authorization(own, { clientId, redirectUri }).url;
  const isKnown = async () => (await new Browser(own).open(ask())).status === 303;
  beforeEach(async () => {
    own = await startTools();
    ({ client_id: clientId } = (await register({ redirect_uris: [redirectUri] }, own)).body);
    return () => own.close();
  });

  it('ends after a day without consent, and its row goes with the next one', async () => {
    own.api.stopClock();
    own.api.advance(oauthLimits.registrationKeptMs - 60_000);
    expect(await isKnown()).toBe(true);
    own.api.advance(60_000);
    expect(await isKnown()).toBe(false);
    await register({ redirect_uris: [redirectUri] }, own);
    expect(await own.api.deps.sql`SELECT 1 FROM oauth_clients WHERE client_id = ${clientId}`).toHaveLength(0);
  });

  it('lasts as long as what a person gave it', async () => {
    const key = await own.api.createKey({ scopes: ['passports:read'] });
    await new Browser(own).consent(ask(), key.key);
    own.api.stopClock();
    own.api.advance(oauthLimits.grantMs - 60_000);
    expect(await isKnown()).toBe(true);
    own.api.advance(60_000);
    expect(await isKnown()).toBe(false);
  });

  it('is bounded for one address, which learns when it may try again', async () => {
    const statuses: number[] = [];
    for (let n = 1; n < oauthLimits.registrationsPerAddressMax; n += 1)
      statuses.push((await register({ redirect_uris: [redirectUri] }, own)).status);
    expect(new Set(statuses)).toEqual(new Set([201]));
    const { status, headers } = await register({ redirect_uris: [redirectUri] }, own);
    expect(status).toBe(429);
    expect(Number(headers.get('retry-after'))).toBeGreaterThan(3_000);
  });
});
