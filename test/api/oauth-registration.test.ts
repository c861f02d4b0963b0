import type { OAuthClientProvider } from '@modelcontextprotocol/sdk/client/auth.js';
import { UnauthorizedError } from '@modelcontextprotocol/sdk/client/auth.js';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { describe, expect, it } from 'vitest';
import { oauthLimits } from '../../control-plane/oauth/limits.ts';
import { authorization, Browser, startTools, type Tools } from '../support/service/tools.ts';
import { useStarted } from '../support/service/use-api.ts';

const tools = useStarted(startTools);

const redirectUri = 'http://127.0.0.1:7777/callback';

const register = async (
  body: unknown = { redirect_uris: [redirectUri] },
  { fetch, origin }: Pick<Tools, 'fetch' | 'origin'> = tools,
): Promise<{ status: number; headers: Headers; body: Registered }> => {
  const response = await fetch(`${origin}/oauth/register`, {
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
function clientOf() {
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
    saveClientInformation: (information) => void Object.assign(stored, { information }),
    tokens: () => stored.tokens,
    saveTokens: (tokens) => void Object.assign(stored, { tokens }),
    redirectToAuthorization: (authorizeAt) => void Object.assign(stored, { authorizeAt }),
    saveCodeVerifier: (verifier) => void Object.assign(stored, { verifier }),
    codeVerifier: () => stored.verifier,
  };
  const transport = () =>
    new StreamableHTTPClientTransport(new URL(tools.mcpUrl), {
      authProvider: provider,
      fetch: (url, init) => tools.fetch(url, init),
    });
  return { stored, transport };
}

it('@modelcontextprotocol/sdk 1.x, which knows no metadata documents, discovers, registers, asks a person on the real page, and lists and calls the tools', async () => {
  const key = await tools.api.createKey({ scopes: ['admin:*'] });
  const { stored, transport } = clientOf();
  const client = new Client({ name: 'test', version: '1' });
  const first = transport();
  // Its types allow an undefined session id where those of the interface do not.
  await expect(client.connect(first as Parameters<Client['connect']>[0])).rejects.toThrow(UnauthorizedError);
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
    ...{ type: 'access_token', id: key.keyId, client_id: stored.information?.client_id },
  });
  await client.close();
});

describe('registration', () => {
  it('makes a public client of any registration', async () => {
    const asked = {
      redirect_uris: ['https://app.example/cb', 'http://localhost/cb', 'http://[::1]:9/cb'],
      ...{ client_name: ' Des\u202ek\u0007 ', token_endpoint_auth_method: 'client_secret_basic' },
      ...{ grant_types: ['implicit'], jwks_uri: 'https://internal.example/keys' },
    };
    const { status, body } = await register(asked);
    expect(status).toBe(201);
    expect(body).toEqual({
      client_id: expect.stringMatching(/^client_[\w-]{22}$/),
      ...{ client_id_issued_at: expect.any(Number), client_name: 'Desk' },
      ...{ redirect_uris: asked.redirect_uris, token_endpoint_auth_method: 'none' },
      ...{ grant_types: ['authorization_code', 'refresh_token'], response_types: ['code'] },
    });
  });

  const refused: readonly [string, unknown][] = [
    ['none', {}],
    ['http that is not loopback', { redirect_uris: ['http://a.example/cb'] }],
    ['another scheme', { redirect_uris: ['https://a.example', 'javascript:alert(1)'] }],
    ['too many', { redirect_uris: Array(oauthLimits.redirectUrisMax + 1).fill('https://a.example') }],
    [
      'one that is too long',
      { redirect_uris: [`https://a.example/${'x'.repeat(oauthLimits.redirectUriCharsMax)}`] },
    ],
    ['a backslash', { redirect_uris: ['https://a.example\\@evil.example/cb'] }],
    ['a user', { redirect_uris: ['https://a.example@evil.example/cb'] }],
    ['a blank', { redirect_uris: ['https://a.example/cb '] }],
    ['loopback in another spelling', { redirect_uris: ['http://127.1/cb'] }],
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
    const { body } = await register();
    const form = { grant_type: 'client_credentials', client_id: body.client_id };
    const response = await tools.form('/oauth/token', form);
    expect(response.status).toBe(400);
    const { url } = authorization(tools, { clientId: body.client_id, redirectUri: 'https://evil.example/' });
    expect((await new Browser(tools).open(url)).status).toBe(400);
  });
});

describe('the life of a registration', () => {
  let clientId = '';
  const ask = () => authorization(tools, { clientId, redirectUri }).url;
  const isKnown = async () => (await new Browser(tools).open(ask())).status === 303;

  it('ends after a day without consent, and its row goes with the next one', async () => {
    tools.api.stopClock();
    clientId = (await register()).body.client_id;
    tools.api.advance(oauthLimits.registrationKeptMs - 60_000);
    expect(await isKnown()).toBe(true);
    tools.api.advance(60_000);
    expect(await isKnown()).toBe(false);
    await register();
    expect(await tools.api.deps.sql`SELECT 1 FROM oauth_clients WHERE client_id = ${clientId}`).toHaveLength(
      0,
    );
  });

  it('lasts as long as what a person gave it', async () => {
    clientId = (await register()).body.client_id;
    const key = await tools.api.createKey({ scopes: ['passports:read'] });
    await new Browser(tools).consent(ask(), key.key);
    tools.api.advance(oauthLimits.grantMs - 60_000);
    expect(await isKnown()).toBe(true);
    tools.api.advance(60_000);
    expect(await isKnown()).toBe(false);
  });

  it('is bounded for one address, which learns when it may try again', async () => {
    const fresh = await startTools();
    for (let count = 0; count < oauthLimits.registrationsPerAddressMax; count += 1)
      expect((await register(undefined, fresh)).status).toBe(201);
    const { status, headers } = await register(undefined, fresh);
    await fresh.close();
    expect(status).toBe(429);
    expect(Number(headers.get('retry-after'))).toBeGreaterThan(3_000);
  });
});
