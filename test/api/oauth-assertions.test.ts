import { randomUUID } from 'node:crypto';
import {
  Client,
  CrossAppAccessProvider,
  type FetchLike,
  StreamableHTTPClientTransport,
} from '@modelcontextprotocol/client';
import * as jose from 'jose';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { oauthLimits } from '../../control-plane/oauth/limits.ts';
import { federatedPassportId } from '../../shared/crypto/federated-id.ts';
import type { IssuerId } from '../../shared/model/ids.ts';
import { dayMs, hourMs, minuteMs, secondMs } from '../../shared/model/time.ts';
import { startForeignProvider } from '../support/peers/foreign-issuer.ts';
import { secondControlPlane } from '../support/service/second-control-plane.ts';
import { brokenRules } from '../support/service/sound-database.ts';
import { startTools } from '../support/service/tools.ts';
import { useStarted } from '../support/service/use-api.ts';

/** Identity assertions of a company's provider, traded for access tokens of `/mcp`. */
const jwtBearer = 'urn:ietf:params:oauth:grant-type:jwt-bearer';
const typ = 'oauth-id-jag+jwt';

const tools = useStarted(startTools);
const provider = useStarted(startForeignProvider);
let issuerId: IssuerId;
let client: { readonly keyId: string; readonly key: string };
beforeAll(async () => {
  await provider.addKey();
  client = await tools.api.createKey({ scopes: ['gates:read', 'passports:read', 'keys:manage'] });
  issuerId = await register();
});
afterAll(async () => expect(await brokenRules(tools.api.deps.sql)).toEqual({}));

const settings = (change: object = {}) => ({
  ...{ type: 'oidc', issuer: provider.issuer, audiences: [tools.origin] },
  claims: { owner: '/email' },
  ...change,
});
const register = async (): Promise<IssuerId> =>
  (await tools.api.createIssuer({ name: `Company ${randomUUID()}`, federation: settings() })).issuer_id;
const put = (body: object, id = issuerId) =>
  tools.api.call({ method: 'PUT', url: `/v1/issuers/${id}`, body });
/** It stands for nobody here any more, and leaves its place to another. */
const retire = (id: IssuerId) => put({ federation: settings({ audiences: ['nobody'] }) }, id);

const nowS = () => Math.floor(tools.api.deps.clock.now() / secondMs);
const claims = (change: object = {}) => ({
  ...{ iss: provider.issuer, sub: 'ada', aud: tools.origin, client_id: client.keyId, jti: randomUUID() },
  ...{ iat: nowS(), exp: nowS() + 300, resource: tools.mcpUrl, scope: 'gates:read passports:read' },
  ...change,
});
const assertionOf = (change: object = {}, header: object = {}) =>
  provider.signExactly(claims(change), { typ, ...header });

const present = (assertion: string, params: object = {}, credentials = client) =>
  tools.tokenOf(credentials, { grant_type: jwtBearer, assertion, ...params });
async function answerTo(assertion: string, params: object = {}, credentials = client) {
  const response = await present(assertion, params, credentials);
  return { status: response.status, body: (await response.json()) as Record<string, string> };
}
const tokenFor = async (assertion: string): Promise<string> => {
  const { status, body } = await answerTo(assertion);
  expect(status, JSON.stringify(body)).toBe(200);
  return body['access_token'] as string;
};
const refused = (detail: RegExp) => ({
  status: 400,
  body: { error: 'invalid_grant', error_description: expect.stringMatching(detail) },
});
const listsGates = async (token: string) => (await tools.call(token, 'list_gates')).status;

describe('an identity assertion', () => {
  it('gives a token for what the provider grants and the key holds, and no refresh token', async () => {
    const answer = await answerTo(await assertionOf({ scope: 'gates:read passports:issue nonsense' }));
    expect(answer).toEqual({
      status: 200,
      body: {
        ...{ access_token: expect.stringMatching(/^[\w-]{43}$/), expires_in: 600, scope: 'gates:read' },
        token_type: 'Bearer',
      },
    });
    const token = answer.body['access_token'] as string;
    expect(await listsGates(token)).toBe(200);
    expect((await tools.call(token, 'list_passports')).status).toBe(403);
    // It opens nothing else.
    const url = '/v1/gates';
    expect(
      (await tools.api.call({ url, key: null, headers: { authorization: `Bearer ${token}` } })).status,
    ).toBe(401);
  });

  it.each([
    [
      'the scopes of the tools, where the provider names none',
      { scope: undefined },
      {},
      'passports:read gates:read',
    ],
    ['what is asked for', {}, { scope: 'gates:read' }, 'gates:read'],
    ['none that makes keys, whoever names it', { scope: 'keys:manage gates:read' }, {}, 'gates:read'],
    ['what a scope of the provider implies', { scope: 'gates:manage' }, {}, 'gates:read'],
  ])('gives %s', async (_what, change, params, scope) => {
    const { body } = await answerTo(await assertionOf(change), params);
    expect(new Set(body['scope']?.split(' '))).toEqual(new Set(scope.split(' ')));
  });

  it.each([
    ['the key lacks all', { scope: 'passports:issue' }, {}],
    ['others are asked for', {}, { scope: 'attestations:read' }],
    ['all are unknown', { scope: 'chat.read' }, {}],
    ['all make keys', { scope: 'keys:manage' }, {}],
  ])('gives no token where %s, and is not used up', async (_what, change, params) => {
    const jti = randomUUID();
    expect(await answerTo(await assertionOf({ ...change, jti }), params)).toMatchObject({
      body: { error: 'invalid_scope' },
    });
    await tokenFor(await assertionOf({ jti }));
  });

  it('has who it is for in the audit', async () => {
    const writer = await tools.api.createKey({ scopes: ['passports:issue'] });
    const assertion = await assertionOf({ client_id: writer.keyId, scope: 'passports:issue' });
    const { body } = await answerTo(assertion, {}, writer);
    const agent_id = `agent-${randomUUID()}`;
    const made = await tools.call(body['access_token'] as string, 'create_passport', {
      ...{ agent_id, permissions: ['orders:read'] },
    });
    expect(await made.text()).toContain(agent_id);
    const { entries } = (await tools.api.call({ url: `/v1/audit?actor=${writer.keyId}` })).body;
    expect(entries[0].actor).toEqual({
      ...{ type: 'access_token', id: writer.keyId, client_id: federatedPassportId(issuerId, 'ada') },
    });
  });
});

describe('an assertion is refused', () => {
  it.each<[string, object, RegExp]>([
    ['for another server', { aud: 'https://elsewhere.example' }, /aud/],
    ['for the tools endpoint in place of the server', { aud: `http://127.0.0.1:8080/mcp` }, /aud/],
    ['for two servers', { aud: ['http://127.0.0.1:8080', 'https://elsewhere.example'] }, /aud/],
    ['of another issuer', { iss: 'https://elsewhere.example' }, /iss/],
    ['without an issuer', { iss: undefined }, /iss/],
    ['for another client', { client_id: 'key_01m7w8f9e3v5x7z9b1d3f5h7kk' }, /client_id/],
    ['without a client', { client_id: undefined }, /client_id/],
    ['for another resource', { resource: 'https://elsewhere.example/mcp' }, /resource/],
    ['without an id', { jti: undefined }, /jti/],
    ['with an id that is too long', { jti: 'j'.repeat(256) }, /jti/],
    ['with an id that is no text', { jti: 'a\u0000b' }, /jti/],
    ['without an end', { exp: undefined }, /exp/],
    ['without a subject', { sub: undefined }, /sub/],
    ['with scopes in a list', { scope: ['gates:read'] }, /scope/],
    ['with a key that is not proven', { cnf: { jkt: 'x' } }, /cnf/],
    ['with details of what is granted', { authorization_details: [] }, /authorization_details/],
    ['with a tenant of a shared issuer', { tenant: 'other' }, /tenant/],
  ])('%s', async (_what, change, detail) => {
    expect(await answerTo(await assertionOf(change))).toMatchObject(refused(detail));
  });

  it.each<[string, (nowS: number) => object, RegExp]>([
    ['that has expired', (now) => ({ iat: now - 300, exp: now }), /expired/],
    ['that begins later', (now) => ({ iat: now + 90, exp: now + 120 }), /not valid yet/],
    ['that is not valid before later', (now) => ({ nbf: now + 90 }), /not valid yet/],
    ['that lives too long', (now) => ({ exp: now + 3_602 }), /within 3600 seconds/],
  ])('%s', async (_what, change, detail) => {
    expect(await answerTo(await assertionOf(change(nowS())))).toMatchObject(refused(detail));
  });

  it.each<[string, object]>([
    ['that is an ordinary token', { typ: 'JWT' }],
    ['without a type', { typ: undefined }],
    ['with crit', { crit: ['b64'], b64: true }],
    ['that says where its keys are', { jku: 'https://elsewhere.example/keys' }],
  ])('%s', async (_what, header) => {
    const assertion = await provider.signExactly(claims(), { typ, ...header });
    expect(await answerTo(assertion)).toMatchObject(refused(/oauth-id-jag\+jwt/));
  });

  it('by another algorithm than its key is for, or by none', async () => {
    const published = provider.keys[0] as { readonly kid: string };
    const asSecret = new TextEncoder().encode(JSON.stringify(published));
    const hmac = await new jose.SignJWT(claims())
      .setProtectedHeader({ alg: 'HS256', kid: published.kid, typ })
      .sign(asSecret);
    expect(await answerTo(hmac)).toMatchObject(refused(/oauth-id-jag/));
    const none = `${Buffer.from(JSON.stringify({ alg: 'none', typ })).toString('base64url')}.${Buffer.from(JSON.stringify(claims())).toString('base64url')}.`;
    expect(await answerTo(none)).toMatchObject(refused(/oauth-id-jag/));
    const { privateKey } = await jose.generateKeyPair('RS256');
    const forged = await new jose.SignJWT(claims())
      .setProtectedHeader({ alg: 'RS256', kid: published.kid, typ })
      .sign(privateKey);
    expect(await answerTo(forged)).toMatchObject(refused(/signature/));
    tools.api.advance(minuteMs);
    const otherKey = await new jose.SignJWT(claims())
      .setProtectedHeader({ alg: 'PS256', kid: published.kid, typ })
      .sign((await jose.generateKeyPair('PS256')).privateKey);
    expect(await answerTo(otherKey)).toMatchObject(refused(/kid and algorithm/));
    expect(await answerTo('not.a.jwt')).toMatchObject(refused(/oauth-id-jag/));
    expect(await answerTo('')).toMatchObject({ body: { error: 'invalid_request' } });
    expect(await answerTo('x'.repeat(9_000))).toMatchObject(refused(/oauth-id-jag/));
  });

  it('of an issuer that does not name this server, is suspended, or is one of two', async () => {
    expect((await put({ federation: settings({ audiences: ['gate'] }) })).status).toBe(200);
    expect(await answerTo(await assertionOf())).toMatchObject(refused(/iss must be one active issuer/));
    await put({ federation: settings() });
    await put({ status: 'suspended' });
    expect(await answerTo(await assertionOf())).toMatchObject(refused(/iss must be one active issuer/));
    await put({ status: 'active' });
    await tokenFor(await assertionOf());
    const second = await register();
    expect(await answerTo(await assertionOf())).toMatchObject(refused(/iss must be one active issuer/));
    await retire(second);
    await tokenFor(await assertionOf());
  });

  it('for a client of another account or mode', async () => {
    const other = await tools.api.createAccount();
    const strange = await tools.api.createKey({ scopes: ['gates:read'] }, other.key);
    const assertion = await assertionOf({ client_id: strange.keyId });
    expect(await answerTo(assertion, {}, strange)).toMatchObject(refused(/iss/));
  });

  it('of a client that is no API key, or shows a wrong one', async () => {
    const clientId = tools.publish({
      redirect_uris: ['https://app.example.com/cb'],
      grant_types: ['authorization_code', jwtBearer],
    });
    const assertion = await assertionOf({ client_id: clientId });
    const form = { grant_type: jwtBearer, assertion, client_id: clientId };
    const response = await tools.form('/oauth/token', form);
    expect(response.status).toBe(400);
    const wrong = { keyId: client.keyId, key: `${client.key.slice(0, -4)}AAAA` };
    expect((await answerTo(await assertionOf(), {}, wrong)).body).toMatchObject({ error: 'invalid_client' });
  });

  it('whose resource is asked for and is another', async () => {
    expect(await answerTo(await assertionOf(), { resource: 'https://elsewhere.example' })).toMatchObject({
      body: { error: 'invalid_target' },
    });
    expect((await answerTo(await assertionOf(), { resource: tools.mcpUrl })).status).toBe(200);
  });

  it('as a passport', async () => {
    const url = `/v1/gates/${(await tools.api.createGate()).gate_id}/check`;
    const decided = await tools.api.call({ url, body: { passport: await assertionOf(), request: {} } });
    expect(decided.body).toMatchObject({ decision: 'BLOCK', reason: 'passport_malformed' });
  });
});

describe('an assertion is taken once', () => {
  it('of many at once, over two control planes', async () => {
    const second = await secondControlPlane(tools.api);
    const authorization = `Basic ${Buffer.from(`${client.keyId}:${client.key}`).toString('base64')}`;
    const there = async (assertion: string) => {
      const { statusCode } = await second.app.inject({
        ...{ method: 'POST', url: '/oauth/token' },
        headers: { authorization, 'content-type': 'application/x-www-form-urlencoded' },
        payload: new URLSearchParams({ grant_type: jwtBearer, assertion }).toString(),
      });
      return statusCode;
    };
    const here = async (assertion: string) => (await answerTo(assertion)).status;
    for (let round = 0; round < 3; round++) {
      const assertion = await assertionOf();
      const doors = [here, there, here, there, here, there, here, there];
      const statuses = await Promise.all(doors.map((door) => door(assertion)));
      expect(statuses.toSorted()).toEqual([200, 400, 400, 400, 400, 400, 400, 400]);
    }
    await second.close();
  });

  it('by its id, whatever else is in it, and by that of each issuer', async () => {
    const jti = randomUUID();
    await tokenFor(await assertionOf({ jti }));
    expect(await answerTo(await assertionOf({ jti, sub: 'eve' }))).toMatchObject(refused(/used before/));
  });

  it('where the clock is set forward and back', async () => {
    const assertion = await assertionOf();
    await tokenFor(assertion);
    const ahead = dayMs - hourMs;
    tools.api.advance(ahead);
    // Another one removes what has ended.
    await tokenFor(await assertionOf());
    tools.api.advance(-ahead);
    expect(await answerTo(assertion)).toMatchObject(refused(/used before/));
    expect(oauthLimits.assertionKeptMs).toBe(dayMs);
  });

  it('and leaves room for tokens of others behind the same client', async () => {
    const first = await tokenFor(await assertionOf({ sub: 'bob' }));
    const { sql } = tools.api.deps;
    const parents = await sql`
      SELECT count(DISTINCT parent_hash)::int AS count FROM oauth_artifacts WHERE model = 'ClientCredentials'`;
    await tokenFor(await assertionOf({ sub: 'cyd' }));
    const more = await sql`
      SELECT count(DISTINCT parent_hash)::int AS count FROM oauth_artifacts WHERE model = 'ClientCredentials'`;
    expect(more[0]?.['count']).toBe(parents[0]?.['count'] + 1);
    expect(await listsGates(first)).toBe(200);
  });
});

describe('a token ends', () => {
  afterEach(async () => {
    await retire(issuerId);
    issuerId = await register();
  });

  it.each<[string, (passportId: string) => { url: string; body: object; method?: string }]>([
    [
      'with its subject',
      () => ({ url: `/v1/issuers/${issuerId}/revoke-subject`, body: { subject: 'ada', reason: 'left' } }),
    ],
    ['with its owner', () => ({ url: '/v1/owners/ada%40example.com/suspend', body: {} })],
    [
      'with its issuer',
      () => ({ method: 'PUT', url: `/v1/issuers/${issuerId}`, body: { status: 'suspended' } }),
    ],
  ])('%s, at the next call, and no other is given', async (_what, switchOff) => {
    const email = 'ada@example.com';
    const token = await tokenFor(await assertionOf({ email }));
    expect(await listsGates(token)).toBe(200);
    const done = await tools.api.call(switchOff(federatedPassportId(issuerId, 'ada')));
    expect(done.status, JSON.stringify(done.body)).toBe(200);
    const after = await tools.call(token, 'list_gates');
    expect(after.status).toBe(401);
    expect(after.headers.get('www-authenticate')).toContain('error="invalid_token"');
    expect(await answerTo(await assertionOf({ email }))).toMatchObject(refused(/suspended|active issuer/));
    await tools.api.call({ url: '/v1/owners/ada%40example.com/reactivate', body: {} });
  });
});

describe('an assertion waits', () => {
  const later = async (assertion: string) => {
    const response = await present(assertion);
    const body = (await response.json()) as { error: string };
    expect([response.status, body.error]).toEqual([503, 'temporarily_unavailable']);
    return Number(response.headers.get('retry-after'));
  };
  const away = async (work: () => Promise<void>) => {
    provider.answer = (_request, response) => response.writeHead(503).end();
    await work().finally(() => {
      provider.answer = null;
    });
  };

  it('for a key that is new and cannot be read, and is taken with it', async () => {
    tools.api.advance(2 * minuteMs);
    await provider.addKey();
    await tokenFor(await assertionOf());
    await provider.addKey();
    const assertion = await assertionOf();
    expect(await later(assertion)).toBeGreaterThan(30);
    tools.api.advance(minuteMs);
    await away(async () => expect(await later(assertion)).toBe(60));
    tools.api.advance(minuteMs);
    await tokenFor(assertion);
  });

  it('for keys that are too old', async () => {
    tools.api.advance(dayMs + minuteMs);
    await away(async () => {
      await later(await assertionOf());
    });
    tools.api.advance(minuteMs);
    await tokenFor(await assertionOf());
    tools.api.advance(-dayMs - 2 * minuteMs);
  });
});

it('serves the client of the MCP SDK, from the first 401 on', async () => {
  const asked: { audience: string; resource: string }[] = [];
  const authProvider = new CrossAppAccessProvider({
    clientId: client.keyId,
    clientSecret: client.key,
    expectedIssuer: tools.origin,
    fetchFn: tools.fetch as FetchLike,
    assertion: ({ authorizationServerUrl: audience, resourceUrl: resource }) => {
      asked.push({ audience, resource });
      // As a provider does: for the server and the resource that the client names.
      return assertionOf({ aud: audience, resource });
    },
  });
  const mcp = new Client({ name: 'assistant', version: '1' });
  await mcp.connect(
    new StreamableHTTPClientTransport(new URL(tools.mcpUrl), {
      authProvider,
      fetch: tools.fetch as FetchLike,
    }),
  );
  const answer = await mcp.callTool({ name: 'list_gates', arguments: {} });
  expect(answer.structuredContent).toMatchObject({ items: expect.any(Array) });
  await mcp.close();
  expect(asked[0]?.resource).toBe(tools.mcpUrl);
});
