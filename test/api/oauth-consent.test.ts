import { Registry } from 'prom-client';
import { beforeEach, describe, expect, it } from 'vitest';
import { build } from '../../control-plane/app.ts';
import { oauthLimits } from '../../control-plane/oauth/limits.ts';
import { limits } from '../../shared/model/limits.ts';
import {
  authorization,
  Browser,
  formTokenOf,
  locationOf,
  startTools,
  type Tools,
} from '../support/service/tools.ts';
import { useStarted } from '../support/service/use-api.ts';

const tools = useStarted(startTools);
let key: { readonly keyId: string; readonly key: string };
let browser: Browser;
beforeEach(async () => {
  key = await tools.api.createKey({ scopes: ['passports:read', 'gates:manage'] });
  browser = new Browser(tools);
});

const redirectUri = 'http://127.0.0.1:7777/callback';
const newClient = (document: object = {}) =>
  tools.publish({ client_name: 'Desk Agent', redirect_uris: ['http://127.0.0.1/callback'], ...document });
const ask = (params: Readonly<Record<string, string>> = {}, clientId = newClient()) => ({
  clientId,
  ...authorization(tools, { clientId, redirectUri, params }),
});
const token = async (form: Readonly<Record<string, string>>) => {
  const response = await tools.form('/oauth/token', form);
  return { status: response.status, body: JSON.parse(await response.text()) };
};
const redeem = (
  asked: { readonly clientId: string; readonly verifier: string },
  to: URL,
  form: object = {},
) =>
  token({
    ...{ grant_type: 'authorization_code', client_id: asked.clientId, code_verifier: asked.verifier },
    ...{ code: to.searchParams.get('code') ?? '', redirect_uri: redirectUri, ...form },
  });
const connect = async (asked = ask()) => ({
  asked,
  ...(await redeem(asked, await browser.consent(asked.url, key.key))),
});
const lists = async (accessToken: string) => (await tools.call(accessToken, 'list_passports')).status;

describe('the way to a token', () => {
  it('goes over the consent page and back to the client with a code', async () => {
    const asked = ask();
    const to = await browser.consent(asked.url, key.key);
    expect(to.href.split('?')[0]).toBe(redirectUri);
    expect(Object.fromEntries(to.searchParams)).toEqual({
      ...{ code: expect.stringMatching(/^[\w-]{43}$/), state: 'a state', iss: tools.origin },
    });
    const { status, body } = await redeem(asked, to);
    expect(status).toBe(200);
    expect(body).toEqual({
      access_token: expect.stringMatching(/^[\w-]{43}$/),
      expires_in: oauthLimits.accessTokenMs / 1_000,
      refresh_token: expect.stringMatching(/^[\w-]{43}$/),
      // What the tools need and the key holds.
      scope: 'passports:read gates:read',
      token_type: 'Bearer',
    });
    expect(await lists(body.access_token)).toBe(200);
    const [{ rows } = { rows: '' }] = await tools.api.deps.sql<{ rows: string }[]>`
      SELECT string_agg(t::text, ' ') AS rows FROM oauth_artifacts t`;
    expect(rows).toContain('Grant');
    expect(rows, 'the key is kept nowhere').not.toContain(key.key);
  });

  it('gives the requested scopes that the key holds', async () => {
    const { body } = await connect(
      ask({ scope: 'openid offline_access passports:revoke gates:read gates:update' }),
    );
    expect(body.scope).toBe('gates:read gates:update');
  });

  it('ignores the nonce, which is of OpenID', async () => {
    for (const nonce of ['x'.repeat(1_000), '\u00e9 '])
      expect((await connect(ask({ nonce, scope: 'openid gates:read' }))).status).toBe(200);
  });

  it('leads into the world of the key', async () => {
    const { passport_id } = await tools.api.issuePassport();
    key = await tools.api.createKey({ scopes: ['passports:read'], mode: 'test' });
    const { body } = await connect();
    const answer = JSON.parse(
      await (await tools.call(body.access_token, 'verify_passport', { passport_id })).text(),
    );
    expect(answer.result.structuredContent ?? answer.result.content[0].text).toContain('passport_not_found');
  });

  it('goes on at another replica', async () => {
    const asked = ask();
    const other = build({ ...tools.api.deps, metrics: new Registry() });
    const socket = await other.listen({ host: '127.0.0.1', port: 0 });
    const elsewhere: Tools['fetch'] = (url, init) =>
      fetch(String(url).replace(tools.origin, socket), { redirect: 'manual', ...init });
    let turn = 0;
    const alternating = new Browser({
      origin: tools.origin,
      fetch: (url, init) => {
        turn += 1;
        return turn % 2 === 0 ? elsewhere(url, init) : tools.fetch(url, init);
      },
    });
    const to = await alternating.consent(asked.url, key.key);
    expect((await redeem(asked, to)).status).toBe(200);
    await other.close();
  });

  it('ends with a denial where the person says no', async () => {
    const to = await browser.consent(ask().url, '', 'deny');
    expect(to.href.split('?')[0]).toBe(redirectUri);
    expect(Object.fromEntries(to.searchParams)).toMatchObject({ error: 'access_denied', state: 'a state' });
    expect(to.searchParams.has('code')).toBe(false);
  });
});

describe('a code', () => {
  it('is redeemed with its verifier, redirect address and client only', async () => {
    const asked = ask();
    const other = newClient();
    for (const form of [
      { code_verifier: 'x'.repeat(43) },
      { code_verifier: '' },
      { redirect_uri: 'http://127.0.0.1:7778/callback' },
      { client_id: other },
      { code: 'x'.repeat(43) },
    ]) {
      const refused = await redeem(asked, await browser.consent(asked.url, key.key), form);
      expect(refused, JSON.stringify(form)).toMatchObject({ status: 400, body: { error: 'invalid_grant' } });
    }
  });

  it('opens nothing itself, nor does a refresh token', async () => {
    const asked = ask();
    const to = await browser.consent(asked.url, key.key);
    expect(await lists(to.searchParams.get('code') ?? '')).toBe(401);
    expect(await lists((await redeem(asked, to)).body.refresh_token)).toBe(401);
  });

  it('gives tokens once, and takes them back when it is shown again', async () => {
    const asked = ask();
    const to = await browser.consent(asked.url, key.key);
    const { body } = await redeem(asked, to);
    expect(await redeem(asked, to)).toMatchObject({ status: 400, body: { error: 'invalid_grant' } });
    expect(await lists(body.access_token)).toBe(401);
  });

  it('gives tokens once also to many at the same time', async () => {
    const asked = ask();
    const to = await browser.consent(asked.url, key.key);
    const answers = await Promise.all(Array.from({ length: 8 }, () => redeem(asked, to)));
    expect(answers.filter(({ status }) => status === 200).length).toBeLessThanOrEqual(1);
    for (const { status } of answers) expect([200, 400]).toContain(status);
  });

  it('is not given without PKCE, for another resource, for no scope of ours, or without asking', async () => {
    for (const [params, error] of [
      [{ code_challenge: '' }, 'invalid_request'],
      [{ code_challenge_method: 'plain' }, 'invalid_request'],
      [{ resource: 'https://elsewhere.example/' }, 'invalid_target'],
      [{ scope: 'openid nonsense' }, 'invalid_scope'],
      [{ prompt: 'none' }, 'consent_required'],
      [{ response_type: 'token' }, 'invalid_request'],
    ] as const) {
      const to = new URL(locationOf(await browser.open(ask(params).url)));
      expect(to.href.split(/[?#]/)[0], error).toBe(redirectUri);
      expect(new URLSearchParams(to.search || to.hash.slice(1)).get('error')).toBe(error);
    }
  });
});

describe('a refresh token', () => {
  const refresh = (clientId: string, refresh_token: string, form: object = {}) =>
    token({ grant_type: 'refresh_token', client_id: clientId, refresh_token, ...form });

  it('gives fewer scopes, never more', async () => {
    const { asked, body } = await connect();
    const fewer = await refresh(asked.clientId, body.refresh_token, { scope: 'gates:read' });
    expect(fewer.body.scope).toBe('gates:read');
    const more = await refresh(asked.clientId, fewer.body.refresh_token, {
      scope: 'gates:read gates:update',
    });
    expect(more).toMatchObject({ status: 400, body: { error: 'invalid_scope' } });
  });

  it('gives the next tokens, and takes everything back when it is used a second time', async () => {
    const { asked, body } = await connect();
    const next = await refresh(asked.clientId, body.refresh_token);
    expect(next).toMatchObject({ status: 200, body: { scope: body.scope } });
    expect(await lists(next.body.access_token)).toBe(200);
    expect((await refresh(asked.clientId, body.refresh_token)).body.error).toBe('invalid_grant');
    expect(await lists(next.body.access_token)).toBe(401);
    expect((await refresh(asked.clientId, next.body.refresh_token)).body.error).toBe('invalid_grant');
  });

  it('ends with the key', async () => {
    const { asked, body } = await connect();
    await tools.api.call({ method: 'DELETE', url: `/v1/api-keys/${key.keyId}` });
    expect(await lists(body.access_token)).toBe(401);
    expect((await refresh(asked.clientId, body.refresh_token)).body.error).toBe('invalid_grant');
  });

  it('and its access token are invalid without their grant, despite concurrent writes', async () => {
    const { asked, body } = await connect();
    expect(await lists(body.access_token)).toBe(200);
    await tools.api.deps.sql`DELETE FROM oauth_artifacts WHERE model = 'Grant'`;
    expect(await lists(body.access_token)).toBe(401);
    expect((await refresh(asked.clientId, body.refresh_token)).body.error).toBe('invalid_grant');
  });

  it('revokes the whole connection', async () => {
    const { asked, body } = await connect();
    const form = { token: body.refresh_token, client_id: asked.clientId };
    const revoked = await tools.form('/oauth/revoke', form);
    expect(revoked.status).toBe(200);
    expect(await lists(body.access_token)).toBe(401);
    expect((await refresh(asked.clientId, body.refresh_token)).body.error).toBe('invalid_grant');
  });
});

describe('the consent page', () => {
  it('names the client, its host, the scopes and the redirect', async () => {
    const { page, html } = await browser.openConsent(ask({ scope: 'passports:read keys:manage' }).url);
    expect(page.status).toBe(200);
    expect(html).toContain('<h1>Desk Agent asks for access</h1>');
    expect(html).toMatch(/<strong>clients\.example:\d+<\/strong>/);
    expect(html).toContain('<strong>a program on this computer (127.0.0.1:7777)</strong>');
    expect(html).toContain('read passports <code>passports:read</code>');
    expect(html).toContain('create, roll and delete API keys <code>keys:manage</code>');
    expect(html).not.toContain('passports:revoke');
    expect(html).toContain('API keys that it creates end with your key, too.');
  });

  it('runs no script, loads nothing, cannot be framed, and is not cached', async () => {
    const { page, html } = await browser.openConsent(ask().url);
    // Scopes that can make keys are offered only to clients that name them.
    expect(html).toContain('<code>passports:read</code>');
    expect(html).not.toMatch(/keys:manage|admin:\*|API keys that it creates/);
    const policy = page.headers.get('content-security-policy') ?? '';
    expect(policy).toMatch(/^default-src 'none'; style-src 'sha256-[\w+/]{43}='; /);
    expect(policy).toContain("form-action 'self' http://127.0.0.1:7777;");
    expect(policy).toContain("frame-ancestors 'none'");
    expect(policy).toContain("base-uri 'none'");
    expect(page.headers.get('cache-control')).toBe('no-store');
    expect(page.headers.get('referrer-policy')).toBe('no-referrer');
    expect(html).not.toMatch(/<script|https?:|\son\w+=|style=/i);
    expect(html).toMatch(/<input id="api_key" name="api_key" type="password" autocomplete="off"/);
  });

  it('lets no host that a client names into its policy as more than a host', async () => {
    for (const to of ['https://x;sandbox/cb', 'https://x,y.example/cb', 'https://*.example.com/cb']) {
      const clientId = newClient({ redirect_uris: [to] });
      const refused = await browser.open(authorization(tools, { clientId, redirectUri: to }).url);
      expect(refused.status).toBe(400);
    }
    for (const to of ['https://[2001:db8::1]/cb', 'https://x_y.example/cb']) {
      const clientId = newClient({ redirect_uris: [to] });
      const { page } = await browser.openConsent(authorization(tools, { clientId, redirectUri: to }).url);
      expect(page.headers.get('content-security-policy')).toContain("form-action 'self' https:; base-uri");
    }
  });

  it('shows what a client says of itself as text', async () => {
    const client_name = `<script>alert("1")</script>\u202Egnp.'exe & more`;
    const { html } = await browser.openConsent(ask({}, newClient({ client_name })).url);
    expect(html).not.toContain('<script');
    expect(html).not.toContain('\u202E');
    expect(html).toContain('&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;gnp.&#39;exe &amp; more');
    const long = await browser.openConsent(ask({}, newClient({ client_name: 'x'.repeat(3_000) })).url);
    expect(long.html).toContain(`<h1>${'x'.repeat(limits.nameCharsMax)} asks`);
    const none = await browser.openConsent(ask({}, newClient({ client_name: 7 })).url);
    expect(none.html).toMatch(/<h1>clients\.example:\d+ asks/);
  });

  it('names the fault of a key, and does not show it again', async () => {
    const { html, at } = await browser.openConsent(ask().url);
    const none = await tools.api.createKey({ scopes: ['issuers:read'] });
    for (const [api_key, problem] of [
      [`${key.key}x`, 'does not exist'],
      ['', 'does not exist'],
      [none.key, 'holds none of these permissions'],
    ] as const) {
      const answered = await browser.open(at, { form_token: formTokenOf(html), api_key, choice: 'allow' });
      expect(answered.status).toBe(400);
      const text = await answered.text();
      expect(text).toContain(problem);
      if (api_key !== '') expect(text).not.toContain(api_key);
    }
  });

  it('takes a deleted, an expired or a suspended key for none', async () => {
    const { html, at } = await browser.openConsent(ask().url);
    const account = await tools.api.createAccount();
    const url = `/v1/accounts/${account.accountId}`;
    await tools.api.call({ method: 'PUT', url, body: { status: 'suspended' } });
    await tools.api.call({ method: 'DELETE', url: `/v1/api-keys/${key.keyId}` });
    for (const api_key of [key.key, account.key]) {
      const answered = await browser.open(at, { form_token: formTokenOf(html), api_key, choice: 'allow' });
      expect(answered.status).toBe(400);
    }
  });

  it('takes five keys and no more', async () => {
    const { html, at } = await browser.openConsent(ask().url);
    const send = (api_key: string) =>
      browser.open(at, { form_token: formTokenOf(html), api_key, choice: 'allow' });
    for (let count = 0; count < oauthLimits.consentAttemptsMax; count++) {
      expect(await (await send('wrong')).text()).toContain('does not exist');
    }
    const right = await send(key.key);
    expect(right.status).toBe(400);
    expect(await right.text()).toContain('Too many keys');
  });

  it('is over after ten minutes', async () => {
    const { at } = await browser.openConsent(ask().url);
    tools.api.advance(oauthLimits.consentMs);
    const page = await browser.open(at);
    expect(page.status).toBe(400);
    expect(await page.text()).toContain('This request has ended');
  });

  it('bounds its body', async () => {
    const { html, at } = await browser.openConsent(ask().url);
    const api_key = 'x'.repeat(oauthLimits.formBytesMax);
    const answered = await browser.open(at, { form_token: formTokenOf(html), api_key, choice: 'allow' });
    expect(answered.status).toBe(400);
  });
});

describe('a form from elsewhere', () => {
  it('counts for nothing without the cookie of the browser that began', async () => {
    const { html, at } = await browser.openConsent(ask().url);
    const form = { form_token: formTokenOf(html), api_key: key.key, choice: 'allow' };
    for (const stranger of [new Browser(tools), await begun()]) {
      expect((await stranger.open(at)).status).toBe(400);
      expect((await stranger.open(at, form)).status).toBe(400);
    }
    expect((await browser.open(at, form)).status).toBe(303);
  });

  it('counts for nothing without the token of this page', async () => {
    const { at } = await browser.openConsent(ask().url);
    const foreign = await (await begun()).openConsent(ask().url);
    for (const form_token of ['', 'v1.x.y', formTokenOf(foreign.html)]) {
      for (const choice of ['allow', 'deny']) {
        expect((await browser.open(at, { form_token, api_key: key.key, choice })).status).toBe(400);
      }
    }
  });

  async function begun(): Promise<Browser> {
    const other = new Browser(tools);
    await other.openConsent(ask().url);
    return other;
  }
});

it('a service behind https sets cookies for https only and names its public address, whatever the headers', async () => {
  const app = build({ ...tools.api.deps, metrics: new Registry(), baseUrl: 'https://trust.example/v1' });
  const clientId = newClient();
  const { url } = authorization(
    { origin: 'https://trust.example', mcpUrl: 'https://trust.example/mcp' },
    { clientId, redirectUri },
  );
  const response = await app.inject({
    url: url.pathname + url.search,
    headers: { host: 'evil.example', 'x-forwarded-host': 'evil.example', 'x-forwarded-proto': 'http' },
  });
  expect(response.statusCode).toBe(303);
  expect(response.headers.location).toMatch(/^\/oauth\/consent\//);
  const cookies = [response.headers['set-cookie']].flat().map(String);
  expect(cookies.length).toBeGreaterThanOrEqual(2);
  for (const cookie of cookies)
    for (const part of [/; secure/i, /; samesite=lax/i, /; httponly/i]) expect(cookie).toMatch(part);
  expect(JSON.stringify(response.headers)).not.toContain('evil');
  await app.close();
});
