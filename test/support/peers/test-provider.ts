import { generateKeyPairSync } from 'node:crypto';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { Adapter, AdapterPayload } from 'oidc-provider';
import { Provider } from '../../../control-plane/oauth/library.ts';
import type { IdentityProviderSettings } from '../../../control-plane/oidc/identity-provider.ts';
import { listening } from '../base/listening.ts';

/** Somebody at the provider. */
export interface ProviderPerson {
  readonly sub: string;
  readonly email?: string;
  readonly email_verified?: boolean;
}

/** A real OpenID Connect provider on loopback, at which everybody is who they say. */
export interface TestProvider {
  readonly settings: IdentityProviderSettings;
  /** Who logs in with a browser; null: somebody who refuses to share who they are. */
  person: ProviderPerson | null;
  /** `away`: closes each connection. `silent`: answers nothing. */
  state: 'well' | 'away' | 'silent';
  /** Paths that were asked for, in order. */
  readonly asked: string[];
  close(): Promise<void>;
}

const personHeader = 'x-test-person';
const consoleReturn = '/console/log-in/oidc';

/** `origin`: of the console that the provider sends people back to. */
export async function startTestProvider({
  origin = 'http://127.0.0.1:8080',
}: {
  readonly origin?: string;
} = {}): Promise<TestProvider> {
  const server = createServer();
  const { origin: issuer, close } = await listening(server);
  const settings = {
    issuer,
    clientId: 'agent-trust',
    clientSecret: 'a secret: with/characters +',
    name: 'Example Login',
  };
  const people = new Map<string, ProviderPerson>();
  const provider = new Provider(issuer, {
    adapter: memoryAdapter(),
    clients: [
      {
        client_id: settings.clientId,
        client_secret: settings.clientSecret,
        redirect_uris: [`${origin}${consoleReturn}`],
      },
    ],
    jwks: { keys: [signingKey()] },
    cookies: { keys: ['a key of a test'] },
    claims: { openid: ['sub'], email: ['email', 'email_verified'] },
    pkce: { required: () => true },
    features: { devInteractions: { enabled: false } },
    interactions: { url: (_ctx, { uid }) => `/interaction/${uid}` },
    findAccount: (_ctx, sub) => ({ accountId: sub, claims: () => ({ ...people.get(sub), sub }) }),
    ttl: { AccessToken: 60, AuthorizationCode: 60, Grant: 60, IdToken: 3_600, Interaction: 60, Session: 60 },
  });
  const answer = provider.callback();
  const test: TestProvider = {
    settings,
    person: null,
    state: 'well',
    asked: [],
    close,
  };
  /** Everybody who comes is logged in, and has agreed, without a page. */
  const interact = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const sent = request.headers[personHeader];
    const person: ProviderPerson | null =
      typeof sent === 'string' ? JSON.parse(decodeURIComponent(sent)) : test.person;
    if (person === null) {
      return provider.interactionFinished(request, response, { error: 'access_denied' });
    }
    people.set(person.sub, person);
    const grant = new provider.Grant({ accountId: person.sub, clientId: settings.clientId });
    grant.addOIDCScope('openid email');
    await provider.interactionFinished(request, response, {
      login: { accountId: person.sub, remember: false },
      consent: { grantId: await grant.save() },
    });
  };
  server.on('request', (request, response) => {
    test.asked.push(new URL(request.url ?? '', issuer).pathname);
    if (test.state === 'away') return request.socket.destroy();
    if (test.state === 'silent') return;
    if (request.url?.startsWith('/interaction/')) return void interact(request, response);
    return answer(request, response);
  });
  return test;
}

/** Logs this person in at the provider, as a browser does; what it is sent back to the console with. */
export async function logInAtProvider(
  authorizationUrl: string,
  person: ProviderPerson,
): Promise<Record<string, string>> {
  const cookies = new Map<string, string>();
  let url = new URL(authorizationUrl);
  // The way through the provider has three redirects; one that goes round in circles fails.
  for (let steps = 0; steps < 6; steps++) {
    const cookie = [...cookies].map((pair) => pair.join('=')).join('; ');
    const response = await fetch(url, {
      redirect: 'manual',
      headers: { cookie, [personHeader]: encodeURIComponent(JSON.stringify(person)) },
    });
    for (const each of response.headers.getSetCookie()) {
      const [name = '', value = ''] = (each.split(';')[0] ?? '').split(/=(.*)/s);
      cookies.set(name, value);
    }
    const location = response.headers.get('location');
    if (location === null) throw new Error(`${url}: ${response.status} ${await response.text()}`);
    url = new URL(location, url);
    if (url.pathname === consoleReturn) return Object.fromEntries(url.searchParams);
  }
  throw new Error('the provider did not send the browser back');
}

function signingKey() {
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  return { ...privateKey.export({ format: 'jwk' }), use: 'sig', alg: 'RS256', kid: 'key-of-a-test' };
}

/** What the provider keeps, for the time of a test. */
function memoryAdapter(): (model: string) => Adapter {
  const rows = new Map<string, AdapterPayload>();
  return (model) => {
    const find = async (id: string) => rows.get(`${model}:${id}`);
    const findBy = async (field: 'uid' | 'userCode', value: string) =>
      [...rows].find(([key, row]) => key.startsWith(`${model}:`) && row[field] === value)?.[1];
    return {
      upsert: async (id, payload) => void rows.set(`${model}:${id}`, payload),
      find,
      findByUid: (uid) => findBy('uid', uid),
      findByUserCode: (code) => findBy('userCode', code),
      consume: async (id) => {
        const row = await find(id);
        if (row !== undefined)
          rows.set(`${model}:${id}`, { ...row, consumed: Math.floor(Date.now() / 1_000) });
      },
      destroy: async (id) => void rows.delete(`${model}:${id}`),
      revokeByGrantId: async (grantId) => {
        for (const [key, row] of rows) if (row.grantId === grantId) rows.delete(key);
      },
    };
  };
}
