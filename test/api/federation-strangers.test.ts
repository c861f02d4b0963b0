import { generateKeyPairSync } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { Provider } from '../../control-plane/oauth/library.ts';
import { sha256Hex } from '../../shared/crypto/content-hash.ts';
import { federatedPassportId } from '../../shared/crypto/federated-id.ts';
import { secondMs } from '../../shared/model/time.ts';
import { type Api, startApi } from '../support/api.ts';
import { type ForeignProvider, startForeignProvider } from '../support/foreign-issuer.ts';
import { startTestSidecar, type TestSidecar } from '../support/sidecar.ts';
import { spooledRecord } from '../support/spooled-record.ts';
import { connectSidecar, expectSoundStore } from '../support/test-sidecar.ts';

let api: Api;
let sidecar: TestSidecar;
let provider: ForeignProvider;
beforeAll(async () => {
  api = await startApi({ outbound: { allowPrivate: true } });
  sidecar = await startTestSidecar({ api });
  provider = await startForeignProvider();
  await provider.addKey();
});
afterAll(async () => {
  await sidecar.close();
  sidecar.removeFolder();
  await api.close();
  await provider.close();
});

const request = { permission_key: 'orders:create' };
const nowS = () => Math.floor(Date.now() / secondMs);
const register = async (federation: object) => {
  const made = await api.createIssuer({ name: 'A provider', federation });
  await sidecar.caughtUp();
  return made.issuer_id;
};

it('takes access tokens of oidc-provider, and follows its keys', async () => {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const key = (kid: string) => ({
    ...generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ format: 'jwk' }),
    kid,
    alg: 'RS256',
    use: 'sig',
  });
  const oidc = new Provider(issuer, {
    clients: [
      {
        client_id: 'shopper',
        client_secret: 'a secret',
        redirect_uris: [],
        response_types: [],
        grant_types: ['client_credentials'],
      },
    ],
    jwks: { keys: [key('first')] },
    scopes: ['orders'],
    features: {
      devInteractions: { enabled: false },
      clientCredentials: { enabled: true },
      resourceIndicators: {
        enabled: true,
        getResourceServerInfo: () => ({
          scope: 'orders',
          audience: 'https://gates.example',
          accessTokenTTL: 600,
          accessTokenFormat: 'jwt',
          jwt: { sign: { alg: 'RS256' } },
        }),
      },
    },
  } as never);
  server.on('request', oidc.callback());
  try {
    const issuerId = await register({
      type: 'oidc',
      issuer,
      audiences: ['https://gates.example'],
      claims: { agent_id: '/client_id', permissions: '/scope' },
      permission_map: { orders: ['orders:create'] },
    });
    const { gate_id } = await api.createGate();
    await sidecar.caughtUp();
    const answer = await fetch(`${issuer}/token`, {
      method: 'POST',
      headers: {
        authorization: `Basic ${btoa('shopper:a%20secret')}`,
        'content-type': 'application/x-www-form-urlencoded',
      },
      body: 'grant_type=client_credentials&scope=orders&resource=https%3A%2F%2Fgates.example',
    });
    const { access_token: token } = (await answer.json()) as { readonly access_token: string };
    expect((await sidecar.check(gate_id, token, request)).body).toMatchObject({ decision: 'PERMIT' });
    const own = await api.call({ url: `/v1/gates/${gate_id}/check`, body: { passport: token, request } });
    expect(own.body).toMatchObject({ decision: 'PERMIT' });
    const passportId = federatedPassportId(issuerId, 'shopper');
    expect((await api.call({ url: `/v1/passports/${passportId}` })).body).toMatchObject({
      agent_id: 'shopper',
      permissions: ['orders:create'],
    });
  } finally {
    server.close();
    server.closeAllConnections();
  }
});

/** Tokens as these providers make them, but for `iss` and signature. */
const shapes: readonly [string, object, Record<string, unknown>, object][] = [
  [
    'Keycloak',
    {
      audiences: ['agent-gates'],
      claims: { agent_id: '/azp', permissions: '/realm_access/roles' },
      permission_map: { buyer: ['orders:create'] },
    },
    {
      jti: 'trrtcc:2f6c1d2b-0000-4000-8000-000000000000',
      aud: ['agent-gates', 'account'],
      sub: 'd1c9c6a0-5a57-4a0f-9d1c-7b8f4dd0c0de',
      typ: 'Bearer',
      azp: 'shop-agent',
      acr: '1',
      'allowed-origins': ['/*'],
      realm_access: { roles: ['offline_access', 'buyer', 'uma_authorization'] },
      resource_access: { account: { roles: ['view-profile'] } },
      scope: 'profile email',
      clientHost: '10.0.0.7',
      email_verified: false,
      preferred_username: 'service-account-shop-agent',
    },
    { subject: 'shop-agent', owner: null },
  ],
  [
    'Entra ID',
    {
      audiences: ['6e74172b-be56-4843-9ff4-e66a39bb12e3'],
      claims: { agent_id: '/oid', permissions: '/roles', owner: '/preferred_username' },
      permission_map: { Buyer: ['orders:create'] },
    },
    {
      aud: '6e74172b-be56-4843-9ff4-e66a39bb12e3',
      aio: 'E2NgYJj9c6Zu',
      azp: '0f1c2d3e-0000-4000-8000-000000000000',
      azpacr: '1',
      oid: '11111111-2222-4333-8444-555555555555',
      rh: '0.AXAA',
      roles: ['Buyer'],
      sub: '11111111-2222-4333-8444-555555555555',
      tid: '72f988bf-86f1-41af-91ab-2d7cd011db47',
      uti: 'fqiBqXLPj0eQa82S-IYFAA',
      ver: '2.0',
      preferred_username: 'ann@example.com',
    },
    { subject: '11111111-2222-4333-8444-555555555555', owner: 'ann@example.com' },
  ],
  [
    'Kubernetes',
    {
      audiences: ['agent-gates'],
      subjects: ['system:serviceaccount:agents:*'],
      claims: { owner: '/kubernetes.io/namespace' },
      permissions: ['orders:create'],
    },
    {
      aud: ['agent-gates'],
      jti: 'ea28ed49-2e11-4280-9ec5-bc3d1d84661a',
      'kubernetes.io': {
        namespace: 'agents',
        node: { name: 'node-1', uid: '646e7c5e-32d6-4d42-9dbd-e504e6cbe6b1' },
        pod: { name: 'shop-6f4d', uid: 'd4c0ddd7-3f3f-4f5a-b6a5-1f1f1f1f1f1f' },
        serviceaccount: { name: 'shop', uid: '14ee3fa4-a7e2-420f-9f9a-dbc4507c3798' },
        warnafter: 1_700_000_000,
      },
      sub: 'system:serviceaccount:agents:shop',
    },
    { subject: 'system:serviceaccount:agents:shop', owner: 'agents' },
  ],
];

it.each(shapes)('takes a token of the shape of %s', async (name, settings, claims, want) => {
  const iss = `https://${name.toLowerCase().replace(' ', '-')}.example`;
  const issuerId = await register({ type: 'jwks', issuer: iss, jwks: { keys: provider.keys }, ...settings });
  const { gate_id } = await api.createGate();
  await sidecar.caughtUp();
  const times = { iat: nowS() - 300, nbf: nowS() - 300, exp: nowS() + 3_600 };
  const token = await provider.signExactly({ iss, ...times, ...claims });
  expect((await sidecar.check(gate_id, token, request)).body).toMatchObject({ decision: 'PERMIT' });
  const { subject, owner } = want as { readonly subject: string; readonly owner: string | null };
  await api.call({ url: `/v1/gates/${gate_id}/check`, body: { passport: token, request } });
  const passport = await api.call({ url: `/v1/passports/${federatedPassportId(issuerId, subject)}` });
  expect(passport.body).toMatchObject({ owner, federated: true, permissions: ['orders:create'] });
});

it('believes what a sidecar says of subjects that it has not shown of its own account alone', async () => {
  const iss = 'https://named.example';
  const issuerId = await register({
    type: 'jwks',
    issuer: iss,
    jwks: { keys: provider.keys },
    audiences: ['gate'],
    permissions: ['orders:create'],
  });
  const other = await api.createAccount();
  const told = async (key: string | undefined, change: object = {}) => {
    const connected = await connectSidecar(api, key === undefined ? {} : { key });
    const { gate_id: gateId } = await api.createGate(
      { constraints: { trusted_issuers: ['*'] } },
      key ?? api.adminKey,
    );
    const subject = 'named in a record';
    const passportId = federatedPassportId(issuerId, subject);
    const nowMs = api.deps.clock.now();
    const record = {
      ...spooledRecord(),
      id: api.deps.random.newId('att', nowMs),
      chain_id: passportId,
      passport_id: passportId,
      gate_id: gateId,
      token_hash: sha256Hex('a token that nobody has shown'),
      federated: { issuer_id: issuerId, subject },
      timestamp_ms: nowMs,
      ...change,
    };
    return connected.send(1, [record]);
  };
  const own = await told(undefined);
  expect([own.status, own.body]).toMatchObject([200, { next_seq: 2 }]);
  const foreign = await told(other.key);
  expect(foreign.body.error.refused[0].message).toMatch(/token_hash does not show/);
  const another = { issuer_id: issuerId, subject: 'somebody else' };
  expect((await told(undefined, { federated: another })).body.error.refused[0].message).toMatch(
    /not that of the subject/,
  );
  const unknown = { issuer_id: 'iss_01m7w8f9fn41y1y6091p33efsg', subject: 'x' };
  const passport_id = federatedPassportId(unknown.issuer_id as never, 'x');
  expect(
    (await told(undefined, { federated: unknown, passport_id, chain_id: passport_id })).body.error.refused[0]
      .message,
  ).toMatch(/token_hash does not show/);
  await expectSoundStore(api);
});

it('makes no passport of a token that a sidecar shows and that does not verify', async () => {
  const issuerId = await register({
    type: 'jwks',
    issuer: 'https://shown.example',
    jwks: { keys: provider.keys },
    audiences: ['gate'],
  });
  const good = await provider.sign({ iss: 'https://shown.example', sub: 'good' });
  const [header, payload, signature] = (
    await provider.sign({ iss: 'https://shown.example', sub: 'forged' })
  ).split('.');
  const forged = `${header}.${payload}.${String(signature).replace(/^..../, 'AAAA')}`;
  const connected = await connectSidecar(api);
  const answer = await api.call({
    url: '/v1/sync/tokens',
    key: connected.key,
    body: {
      tokens: [good, forged, 'nonsense'].map((token) => ({ token, mode: 'live', issuer_id: issuerId })),
      unknown_keys: [],
    },
  });
  expect(answer.body).toEqual({ seen: 1 });
  const { items } = (await api.call({ url: `/v1/passports?issuer_id=${issuerId}` })).body;
  expect(items.map((each: { agent_id: string }) => each.agent_id)).toEqual(['good']);
});
