import { describe, expect, it } from 'vitest';
import { oauthLimits } from '../../control-plane/oauth/limits.ts';
import { hourMs, minuteMs, renderTime, type UnixMillis } from '../../shared/model/time.ts';
import { goToNextMinute } from '../support/service/approvals.ts';
import { expectError } from '../support/service/expect-error.ts';
import { startTools } from '../support/service/tools.ts';
import { useStarted } from '../support/service/use-api.ts';

const tools = useStarted(startTools);

const json = async (response: Response) => ({
  status: response.status,
  body: JSON.parse(await response.text()),
});
const read = async (url: string) => json(await tools.fetch(tools.origin + url));
const asReply = async (response: Response) => ({
  status: response.status,
  headers: Object.fromEntries(response.headers),
  body: JSON.parse(await response.text()),
});
const inOneHour = () => renderTime((tools.api.deps.clock.now() + hourMs) as UnixMillis);

describe('the metadata', () => {
  it('leads from a refused call to the authorization server', async () => {
    const refused = await tools.post(null, {});
    expect(refused.headers.get('www-authenticate')).toBe(
      `Bearer realm="agent-trust", resource_metadata="${tools.origin}/.well-known/oauth-protected-resource/mcp"`,
    );
    expectError(await asReply(refused), 'unauthorized');
    const resource = await read('/.well-known/oauth-protected-resource/mcp');
    expect(resource.body).toMatchObject({ resource: tools.mcpUrl, authorization_servers: [tools.origin] });
    expect(await read('/.well-known/oauth-protected-resource')).toEqual(resource);
    const { body } = await read('/.well-known/oauth-authorization-server');
    expect(body).toMatchObject({
      ...{ issuer: tools.origin, authorization_endpoint: `${tools.origin}/oauth/authorize` },
      token_endpoint: `${tools.origin}/oauth/token`,
      revocation_endpoint: `${tools.origin}/oauth/revoke`,
      registration_endpoint: `${tools.origin}/oauth/register`,
      ...{ code_challenge_methods_supported: ['S256'], client_id_metadata_document_supported: true },
      authorization_grant_profiles_supported: ['urn:ietf:params:oauth:grant-profile:id-jag'],
    });
    expect(body.grant_types_supported).toContain('urn:ietf:params:oauth:grant-type:jwt-bearer');
    expect(body.scopes_supported).toEqual(resource.body.scopes_supported);
    expect(body.scopes_supported).toContain('passports:issue');
    // What makes keys is given only to a client that asks for it by name.
    expect(body.scopes_supported).not.toContain('keys:manage');
  });

  it("names addresses of PUBLIC_URL, whatever the request's headers", async () => {
    const headers = {
      host: 'evil.example',
      'x-forwarded-host': 'evil.example',
      forwarded: 'host=evil.example',
    };
    for (const url of ['/.well-known/oauth-authorization-server', '/.well-known/oauth-protected-resource']) {
      const { body } = await tools.api.call({ url, key: null, headers });
      expect(JSON.stringify(body)).not.toContain('evil');
    }
  });
});

describe('client credentials', () => {
  it('give a token with all scopes of the key, for ten minutes', async () => {
    const credentials = await tools.api.createKey({ scopes: ['passports:read', 'gates:read'] });
    const response = await tools.tokenOf(credentials);
    expect(response.headers.get('cache-control')).toBe('no-store');
    // RFC 6749 §5.1
    expect(response.headers.get('pragma')).toBe('no-cache');
    expect(await json(response)).toEqual({
      status: 200,
      body: {
        ...{ access_token: expect.stringMatching(/^[\w-]{43}$/), expires_in: 600 },
        ...{ scope: 'passports:read gates:read', token_type: 'Bearer' },
      },
    });
  });

  it.each([
    ['fewer scopes', 'passports:read', 'passports:read'],
    ['what a scope of the key implies', 'gates:read enforcement:check', 'gates:read enforcement:check'],
    ['a scope by its other name', 'passports:create', 'passports:issue'],
  ])('give %s where they are asked for', async (_what, scope, granted) => {
    const credentials = await tools.api.createKey({
      scopes: ['passports:read', 'passports:issue', 'gates:manage'],
    });
    expect((await json(await tools.tokenOf(credentials, { scope }))).body.scope).toBe(granted);
  });

  it.each([
    [{ scope: 'passports:revoke' }, 'invalid_scope'],
    [{ scope: 'gates:read passports:revoke' }, 'invalid_scope'],
    [{ scope: 'gates:read nonsense' }, 'invalid_scope'],
    [{ resource: 'https://elsewhere.example/mcp' }, 'invalid_target'],
    [{ resource: 'http://127.0.0.1:8080/mcp/' }, 'invalid_target'],
    [{ resource: 'no url' }, 'invalid_target'],
  ])('give no token for %j to a key that holds gates:read: %s', async (asked, error) => {
    const credentials = await tools.api.createKey({ scopes: ['gates:read'] });
    expect(await json(await tools.tokenOf(credentials, asked))).toMatchObject({
      status: 400,
      body: { error },
    });
  });

  it('are taken from the body too, and refused with another key, a hash, a deleted key or no secret', async () => {
    const { keyId, key } = await tools.api.createKey({ scopes: ['gates:read'] });
    const other = await tools.api.createKey({ scopes: ['gates:read'] });
    const [row] = await tools.api.deps.sql<{ keyHash: string }[]>`
      SELECT key_hash AS "keyHash" FROM api_keys WHERE key_id = ${keyId}`;
    const refused = async (credentials: { keyId: string; key: string }) =>
      expect(await json(await tools.tokenOf(credentials))).toMatchObject({
        status: 401,
        body: { error: 'invalid_client' },
      });
    await refused({ keyId, key: other.key });
    await refused({ keyId, key: row?.keyHash ?? '' });
    await refused({ keyId: 'key_00000000000000000000000000', key });
    const inBody = async (form: object) =>
      (await tools.form('/oauth/token', { grant_type: 'client_credentials', client_id: keyId, ...form }))
        .status;
    expect(await inBody({})).toBe(401);
    expect(await inBody({ client_secret: key })).toBe(200);
    expect((await tools.tokenOf({ keyId, key })).status).toBe(200);
    await tools.api.call({ method: 'DELETE', url: `/v1/api-keys/${keyId}` });
    await refused({ keyId, key });
  });

  it('open no other grant', async () => {
    const credentials = await tools.api.createKey({ scopes: ['gates:read'] });
    for (const grant_type of [
      'password',
      'authorization_code',
      'refresh_token',
      'urn:ietf:params:oauth:grant-type:device_code',
    ]) {
      const { status, body } = await json(
        await tools.tokenOf(credentials, { grant_type, code: 'x', refresh_token: 'x' }),
      );
      expect(status).toBe(400);
      expect(['unsupported_grant_type', 'unauthorized_client', 'invalid_request']).toContain(body.error);
    }
  });
});

describe('an access token', () => {
  const listed = async (token: string) => (await tools.call(token, 'list_passports')).status;

  it('is over when its time is', async () => {
    const token = await tools.accessTokenOf(await tools.api.createKey({ scopes: ['passports:read'] }));
    tools.api.advance(oauthLimits.accessTokenMs - minuteMs);
    expect(await listed(token)).toBe(200);
    tools.api.advance(minuteMs);
    const over = await tools.call(token, 'list_passports');
    expect(over.status).toBe(401);
    expect(over.headers.get('www-authenticate')).toContain('error="invalid_token"');
  });

  it('lasts no longer than its key says', async () => {
    const expires_at = renderTime((tools.api.deps.clock.now() + 2 * minuteMs) as UnixMillis);
    const response = await tools.tokenOf(
      await tools.api.createKey({ scopes: ['passports:read'], expires_at }),
    );
    const { expires_in, access_token } = (await json(response)).body;
    expect(expires_in).toBeGreaterThan(100);
    expect(expires_in).toBeLessThanOrEqual(120);
    tools.api.advance(2 * minuteMs);
    expect(await listed(access_token)).toBe(401);
  });

  it.each([
    ['deletion', (keyId: string) => ({ method: 'DELETE', url: `/v1/api-keys/${keyId}` })],
    ['rolling', (keyId: string) => ({ method: 'POST', url: `/v1/api-keys/${keyId}/roll` })],
  ])('ends with the %s of its key, at once', async (_what, change) => {
    const credentials = await tools.api.createKey({ scopes: ['passports:read'], expires_at: inOneHour() });
    const token = await tools.accessTokenOf(credentials);
    expect(await listed(token)).toBe(200);
    await tools.api.call(change(credentials.keyId));
    expect(await listed(token)).toBe(401);
  });

  it('is refused while its account is suspended', async () => {
    const { accountId, key } = await tools.api.createAccount();
    const token = await tools.accessTokenOf(await tools.api.createKey({ scopes: ['passports:read'] }, key));
    const set = (status: string) =>
      tools.api.call({ method: 'PUT', url: `/v1/accounts/${accountId}`, body: { status } });
    await set('suspended');
    expectError(await asReply(await tools.call(token, 'list_passports')), 'account_suspended');
    await set('active');
    expect(await listed(token)).toBe(200);
  });

  it('is refused at once after its own client has revoked it, and not after another one has', async () => {
    const own = await tools.api.createKey({ scopes: ['passports:read'] });
    const [token, other] = [await tools.accessTokenOf(own), await tools.accessTokenOf(own)];
    const revokeAs = ({ keyId, key }: typeof own) =>
      tools.form('/oauth/revoke', { token, client_id: keyId, client_secret: key });
    await revokeAs(await tools.api.createKey({ scopes: ['passports:read'] }));
    expect(await listed(token)).toBe(200);
    expect((await revokeAs(own)).status).toBe(200);
    expect([await listed(token), await listed(other)]).toEqual([401, 200]);
  });

  it('is not in the database in readable form', async () => {
    const { keyId, key } = await tools.api.createKey({ scopes: ['passports:read'] });
    const token = await tools.accessTokenOf({ keyId, key });
    const [{ rows } = { rows: '' }] = await tools.api.deps.sql<{ rows: string }[]>`
      SELECT string_agg(t::text, ' ') AS rows FROM oauth_artifacts t`;
    expect(rows).toContain('ClientCredentials');
    for (const secret of [token, key, keyId]) expect(rows).not.toContain(secret);
  });

  it('counts for the plan of its account like a key, and shows the use of the key', async () => {
    const account = await tools.api.createAccount({ plan: 'free' });
    goToNextMinute(tools.api);
    const credentials = await tools.api.createKey({ scopes: ['passports:read'] }, account.key);
    const token = await tools.accessTokenOf(credentials);
    const called = await tools.call(token, 'list_passports');
    expect(called.headers.get('x-ratelimit-limit')).toBe('30');
    expect(called.headers.get('x-ratelimit-remaining')).toBe('28');
    const shown = await tools.api.call({ url: `/v1/api-keys/${credentials.keyId}`, key: account.key });
    expect(shown.body.last_used_at).not.toBeNull();
  });
});

describe('what opens what', () => {
  it('is a token for /mcp and nothing else', async () => {
    const token = await tools.accessTokenOf({ keyId: await adminKeyId(), key: tools.api.adminKey });
    expect((await tools.post(token, { jsonrpc: '2.0', id: 1, method: 'tools/list' })).status).toBe(200);
    for (const { method, url, scope } of tools.api.app.routeScopes) {
      if (scope === null || method === 'HEAD') continue;
      expectError(
        await tools.api.call({ method, url: url.replaceAll(/:\w+/g, 'x'), key: token }),
        'unauthorized',
      );
    }
  });

  it('is neither an API key nor a passport for /mcp', async () => {
    const { jwt } = await tools.api.issuePassport();
    for (const presented of [tools.api.adminKey, jwt]) {
      const refused = await tools.post(presented, { jsonrpc: '2.0', id: 1, method: 'tools/list' });
      expect(refused.headers.get('www-authenticate')).toContain('resource_metadata=');
      expectError(await asReply(refused), 'unauthorized');
    }
  });
});

async function adminKeyId(): Promise<string> {
  const { items } = (await tools.api.call({ url: '/v1/api-keys?limit=200' })).body;
  return items.at(-1).key_id;
}
