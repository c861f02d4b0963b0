import { describe, expect, it } from 'vitest';
import { oauthLimits } from '../../control-plane/oauth/limits.ts';
import { startOwnApi } from '../support/service/api.ts';
import { authorization, Browser, startTools } from '../support/service/tools.ts';
import { useStarted } from '../support/service/use-api.ts';

const tools = useStarted(startTools);

const open = (document: object, redirectUri: string) => {
  const clientId = tools.publish(document);
  return new Browser(tools).open(authorization(tools, { clientId, redirectUri }).url);
};
/** Told to the person, on a page without any link: nobody is sent anywhere. */
async function expectPage(response: Response, text: RegExp): Promise<void> {
  expect(response.status).toBe(400);
  expect(response.headers.get('location')).toBeNull();
  expect(response.headers.get('content-type')).toBe('text/html; charset=utf-8');
  expect(response.headers.get('content-security-policy')).toContain("default-src 'none'");
  const html = await response.text();
  expect(html).toMatch(text);
  expect(html).not.toMatch(/href|<script/);
}

describe('a redirect address', () => {
  it.each([
    ['as registered', 'https://app.example.com/cb', 'https://app.example.com/cb'],
    ['on any port of a loopback address', 'http://127.0.0.1/cb', 'http://127.0.0.1:50123/cb'],
    ['on another port of localhost', 'http://localhost:3000/cb', 'http://localhost:50123/cb'],
    ['of an app', 'com.example.agent:/cb', 'com.example.agent:/cb'],
  ])('is taken %s', async (_what, registered, asked) => {
    const response = await open({ redirect_uris: [registered] }, asked);
    expect(response.status).toBe(303);
    expect(response.headers.get('location')).toMatch(/^\/oauth\/consent\//);
  });

  it.each([
    ['of another host', 'https://app.example.com/cb', 'https://evil.example/cb'],
    ['with another path', 'https://app.example.com/cb', 'https://app.example.com/cb/../evil'],
    ['with more after it', 'https://app.example.com/cb', 'https://app.example.com/cb?x=1'],
    ['on another port of a web site', 'https://app.example.com/cb', 'https://app.example.com:8443/cb'],
    ['of another loopback name', 'http://127.0.0.1/cb', 'http://localhost:50123/cb'],
    ['that only begins like loopback', 'http://127.0.0.1/cb', 'http://127.0.0.1.evil.example/cb'],
    ['of another app', 'com.example.agent:/cb', 'com.example.evil:/cb'],
  ])('is refused %s, on a page and without a redirect', async (_what, registered, asked) => {
    await expectPage(await open({ redirect_uris: [registered] }, asked), /redirect_uri/);
  });

  it.each(['http://app.example.com/cb', 'javascript:alert(1)', 'https://app.example.com/cb#part'])(
    'makes the whole document useless as %s',
    async (registered) => {
      await expectPage(await open({ redirect_uris: [registered] }, registered), /redirect_uris/);
    },
  );

  it('must be named', async () => {
    const clientId = tools.publish({ redirect_uris: ['https://app.example.com/cb'] });
    const { url } = authorization(tools, { clientId, redirectUri: '' });
    await expectPage(await new Browser(tools).open(url), /redirect_uri/);
  });
});

describe('a request that is refused before a person was asked', () => {
  it.each([
    ['a web site', 'https://phish.example/cb'],
    ['an app', 'com.example.agent:/cb'],
  ])('sends nobody to %s, which anybody could have registered', async (_what, redirectUri) => {
    const clientId = tools.publish({ redirect_uris: [redirectUri] });
    for (const params of [
      { scope: 'nonsense' },
      { prompt: 'none' },
      { resource: 'https://elsewhere.example/' },
      { code_challenge: '' },
      { response_type: 'token' },
      { response_mode: 'form_post' },
      { request_uri: 'https://elsewhere.example/' },
    ]) {
      const { url } = authorization(tools, { clientId, redirectUri, params });
      await expectPage(await new Browser(tools).open(url), /This did not work/);
    }
  });

  it('runs no script on the way to a program on this computer either', async () => {
    const redirectUri = 'http://127.0.0.1:7777/cb';
    const clientId = tools.publish({ redirect_uris: [redirectUri] });
    const params = { response_mode: 'form_post' };
    const { url } = authorization(tools, { clientId, redirectUri, params });
    await expectPage(await new Browser(tools).open(url), /response_mode/);
  });
});

describe('a client document', () => {
  const redirectUri = 'https://app.example.com/cb';
  const redirect_uris = [redirectUri];

  it('may say more than matters here', async () => {
    const document = {
      ...{
        redirect_uris,
        client_uri: 'http://not-https.example',
        logo_uri: 'nonsense',
        contacts: ['nobody'],
      },
      ...{ grant_types: ['authorization_code', 'urn:example:other'], token_endpoint_auth_method: 'none' },
      ...{ jwks: { keys: [] }, scope: 'something else', software_version: 3 },
    };
    expect((await open(document, redirectUri)).status).toBe(303);
  });

  it.each([
    ['names another client', { redirect_uris, client_id: 'https://elsewhere.example/x.json' }],
    ['wants to be known by a secret', { redirect_uris, token_endpoint_auth_method: 'client_secret_basic' }],
    ['holds a secret', { redirect_uris, client_secret: 'x' }],
    ['has no redirect address', {}],
    ['has redirect addresses that are none', { redirect_uris: [7] }],
    [
      'has a redirect with two readings',
      { redirect_uris: [...redirect_uris, 'https://a.example\\@b.example'] },
    ],
    ['has a redirect with a tab', { redirect_uris: [...redirect_uris, 'com.example.app:/c\tb'] }],
    ['is too large', { redirect_uris, client_name: 'x'.repeat(oauthLimits.clientDocumentBytesMax) }],
  ])('is refused that %s', async (_what, document) => {
    await expectPage(await open(document, redirectUri), /client|redirect/i);
  });

  it.each([
    ['is not there', (url: string) => `${url}x`],
    ['is not on https', (url: string) => url.replace('https:', 'http:')],
    ['is not the address of a document', () => 'nonsense'],
  ])('is refused that %s', async (_what, change) => {
    const clientId = change(tools.publish({ redirect_uris }));
    const { url } = authorization(tools, { clientId, redirectUri });
    await expectPage(await new Browser(tools).open(url), /client/);
  });

  it('is not fetched from inside the network', async () => {
    const api = await startOwnApi();
    for (const host of ['127.0.0.1', '[::ffff:10.0.0.1]', '169.254.169.254', 'localhost']) {
      const clientId = `https://${host}/client.json`;
      const { url } = authorization(tools, { clientId, redirectUri });
      const headers = { accept: 'text/html' };
      const reply = await api.call({ url: url.pathname + url.search, key: null, headers });
      expect(reply.status, host).toBe(400);
      expect(reply.headers['location'], host).toBeUndefined();
      expect(reply.body, host).toContain('client_id metadata document fetch failed');
    }
    await api.close();
  });

  it('makes no client of an API key', async () => {
    const { keyId } = await tools.api.createKey({ scopes: ['gates:read'] });
    const { url } = authorization(tools, { clientId: keyId, redirectUri });
    await expectPage(await new Browser(tools).open(url), /redirect_uri|response_type/);
  });

  it('shows what a stranger sends as text', async () => {
    const { url } = authorization(tools, { clientId: '"><script>alert(1)</script>', redirectUri });
    await expectPage(await new Browser(tools).open(url), /client/);
  });
});

describe('the other endpoints of the library', () => {
  it.each([
    ...['GET /oauth/unused/jwks', 'GET /oauth/token', 'GET /.well-known/openid-configuration'],
    ...['POST /oauth/authorize', 'HEAD /oauth/authorize'],
  ])('are not there: %s', async (operation) => {
    const [method = '', path = ''] = operation.split(' ');
    const response = await tools.fetch(tools.origin + path, { method });
    expect(response.status).toBe(404);
  });

  it('answer no page of another site', async () => {
    const credentials = await tools.api.createKey({ scopes: ['gates:read'] });
    const form = {
      grant_type: 'client_credentials',
      client_id: credentials.keyId,
      client_secret: credentials.key,
    };
    const response = await tools.fetch(`${tools.origin}/oauth/token`, {
      method: 'POST',
      headers: { origin: 'https://evil.example' },
      body: new URLSearchParams(form),
    });
    expect(response.status).toBe(400);
    expect(response.headers.get('access-control-allow-origin')).toBeNull();
  });
});

it('documents fetched for one address are limited per minute, while clients with a cached document go on', async () => {
  const own = await startTools();
  try {
    const redirectUri = 'https://app.example.com/cb';
    const ask = async (clientId: string) =>
      (await new Browser(own).open(authorization(own, { clientId, redirectUri }).url)).status;
    const known = own.publish({ redirect_uris: [redirectUri] });
    expect(await ask(known)).toBe(303);
    for (let more = 1; more < oauthLimits.clientFetchesPerAddressMax; more++) {
      expect(await ask(own.publish({ redirect_uris: [redirectUri] }))).toBe(303);
    }
    expect(await ask(own.publish({ redirect_uris: [redirectUri] }))).toBe(400);
    expect(own.documentsAsked()).toBe(oauthLimits.clientFetchesPerAddressMax);
    expect(await ask(known)).toBe(303);
  } finally {
    await own.close();
  }
});
