/**
 * Room `control-plane/oauth`: the authorization server for tokens of `/mcp`, and its consent pages
 * (`consent-routes.ts`).
 */

import type Provider from 'oidc-provider';
import type { Adapter, Client, Configuration, KoaContextWithOIDC } from 'oidc-provider';
import { isKeyOfHash } from '../../shared/crypto/api-key.ts';
import { encodeBase64url } from '../../shared/crypto/base64url.ts';
import { minuteMs, secondMs } from '../../shared/model/time.ts';
import { addressLimit } from '../http/address-limit.ts';
import { databaseAdapter, forgetfulAdapter } from './adapter.ts';
import { addAssertionGrant, jwtBearer } from './assertion-grant.ts';
import { toolsUrl } from './challenge.ts';
import { clientDocumentFetch } from './client-document.ts';
import { isLoopback, renderErrorPage } from './consent-page.ts';
import type { OAuthDeps } from './deps.ts';
import { endpoints } from './endpoints.ts';
import { oauthLimits } from './limits.ts';
import { findRegisteredClient, type RegisteredClient } from './registered-clients.ts';
import { tokenTerms } from './token-terms.ts';
import { findUsableKey } from './usable-key.ts';

type Library = typeof import('./library.ts');

/** The library with our configuration, and the parts of it that others need. */
export interface AuthorizationServer {
  readonly provider: Provider;
  /** Answers a request of node:http, whatever it is. */
  readonly answer: ReturnType<Provider['callback']>;
  readonly errors: Library['errors'];
}

/**
 * The authorization server for `/mcp` (contract §13), on `oidc-provider`. Three ways to a token:
 *
 *   - Client credentials. The client is an API key: `client_id` is its id, `client_secret` the key. Nothing
 *     is registered, nothing more is stored.
 *   - Authorization code with PKCE, for clients that describe themselves in a document at their `client_id`
 *     (an https URL). On the consent page a person shows an API key, for which the token then stands. Older
 *     clients, which know no documents, register first (registration-routes.ts).
 *   - An identity assertion of the company's identity provider, presented by a client that is an API key
 *     (assertion-grant.ts).
 *
 * In every way the token has no more scopes than the key and ends with it. There are no accounts, logins or
 * sessions: every authorization asks for the key again.
 *
 * Loaded at the first use: the library takes half a second, and most processes never need it.
 */
export function authorizationServer(deps: OAuthDeps): () => Promise<AuthorizationServer> {
  let loading: Promise<AuthorizationServer> | null = null;
  return () => {
    loading ??= load(deps);
    return loading;
  };
}

async function load(deps: OAuthDeps): Promise<AuthorizationServer> {
  const { Provider, errors, interactionPolicy } = await import('./library.ts');
  const configuration = configure(deps, { errors, interactionPolicy });
  const provider = new Provider(new URL(deps.baseUrl).origin, configuration);
  // It trusts forwarded headers, which routes.ts sets to our own address.
  provider.proxy = true;
  // Of the secret of a client only the hash is known here.
  provider.Client.prototype.compareClientSecret = function compare(this: Client, presented: string) {
    return isKeyOfHash(presented, this.clientSecret ?? '');
  };
  addAssertionGrant(provider, deps, errors);
  const report = (ctx: KoaContextWithOIDC | undefined, error: Error) => {
    const request_id = ctx?.res.getHeader('x-request-id') ?? null;
    deps.logger.error(
      { request_id, failure: { name: error.name, stack: error.stack } },
      'the authorization server failed',
    );
  };
  provider.on('server_error', report);
  provider.on('authorization.error', stayHere);
  provider.onerror = (error) => report(undefined, error);
  return { provider, answer: provider.callback(), errors };
}

/**
 * Anyone can describe a client with any redirect address. So a request refused before consent gets a page
 * instead of a redirect, or this server would be an open redirector (RFC 9700 §4.11.2). Only loopback
 * redirects are followed.
 */
function stayHere(ctx: KoaContextWithOIDC, error: Error & { allow_redirect?: boolean }): void {
  const { oidc } = ctx;
  const { redirect_uri: redirectUri, response_mode: mode } = oidc.params ?? {};
  const isTold = typeof redirectUri === 'string' && isLoopback(redirectUri) && mode !== 'form_post';
  if (oidc.route !== 'authorization' || isTold) return;
  error.allow_redirect = false;
  ctx.status = 400;
}

function configure(
  deps: OAuthDeps,
  { errors, interactionPolicy }: Pick<Library, 'errors' | 'interactionPolicy'>,
): Configuration {
  const { Check, Prompt } = interactionPolicy;
  const consent = new Check(
    'key_needed',
    'a person has to show an API key',
    'consent_required',
    ({ oidc }) => oidc.result?.consent === undefined,
  );
  return {
    adapter: (model) => adapterFor(deps, model, () => new errors.InvalidGrant('already used')),
    jwks: { keys: [unusedKey(deps)] },
    routes: { ...endpoints, jwks: '/oauth/unused/jwks' },
    scopes: [],
    claims: {},
    responseTypes: ['code'],
    clientAuthMethods: ['none', 'client_secret_basic', 'client_secret_post'],
    clientDefaults: { token_endpoint_auth_method: 'none', id_token_signed_response_alg: 'EdDSA' },
    clientBasedCORS: () => false,
    allowOmittingSingleRegisteredRedirectUri: false,
    pkce: { required: () => true },
    interactions: {
      policy: [new Prompt({ name: 'consent', requestable: true }, consent)],
      url: (_ctx, { uid }) => `${endpoints.consent}/${uid}`,
    },
    loadExistingGrant: async ({ oidc }) => {
      const grantId = oidc.result?.consent?.grantId;
      return grantId === undefined ? undefined : oidc.provider.Grant.find(grantId);
    },
    findAccount: async (_ctx, keyId) =>
      (await findUsableKey(deps, keyId)) === null
        ? undefined
        : { accountId: keyId, claims: () => ({ sub: keyId }) },
    expiresWithSession: () => false,
    // The subject of an assertion, which the library would leave out.
    extraTokenClaims: (_ctx, { extra }) => extra,
    issueRefreshToken: (_ctx, client) => client.grantTypeAllowed('refresh_token'),
    rotateRefreshToken: true,
    cookies: {
      names: {
        interaction: 'agent_trust_consent',
        resume: 'agent_trust_resume',
        session: 'agent_trust_session',
      },
    },
    ttl: {
      AccessToken: (_ctx, token) =>
        token.resourceServer?.accessTokenTTL ?? seconds(oauthLimits.accessTokenMs),
      ClientCredentials: (_ctx, token) =>
        token.resourceServer?.accessTokenTTL ?? seconds(oauthLimits.accessTokenMs),
      AuthorizationCode: seconds(oauthLimits.codeMs),
      Grant: seconds(oauthLimits.grantMs),
      RefreshToken: seconds(oauthLimits.grantMs),
      Interaction: seconds(oauthLimits.consentMs),
      Session: seconds(oauthLimits.consentMs),
    },
    fetch: clientDocumentFetch(deps),
    renderError: (ctx, { error, error_description: description }) => {
      const page = renderErrorPage(description ?? error);
      ctx.set(page.headers);
      ctx.body = page.html;
    },
    features: features(deps, errors),
  };
}

function features(deps: OAuthDeps, errors: Library['errors']): NonNullable<Configuration['features']> {
  const documents = addressLimit(deps.clock, {
    max: oauthLimits.clientFetchesPerAddressMax,
    windowMs: minuteMs,
    addressesMax: oauthLimits.addressesCountedMax,
  });
  const refusals = {
    invalidTarget: (why: string) => new errors.InvalidTarget(why),
    invalidScope: (why: string) => new errors.InvalidScope(why, ''),
  };
  return {
    devInteractions: { enabled: false },
    dPoP: { enabled: false },
    rpInitiatedLogout: { enabled: false },
    pushedAuthorizationRequests: { enabled: false },
    userinfo: { enabled: false },
    clientCredentials: { enabled: true },
    revocation: {
      enabled: true,
      allowedPolicy: (_ctx, client, token) => token.clientId === client.clientId,
    },
    clientIdMetadataDocument: {
      enabled: true,
      ack: 'draft-02',
      // Called only for documents that are not cached, so known clients go on while new ones are refused. The
      // consent page has no context: its client's document was fetched when the request began, maybe by
      // another replica.
      allowFetch: (ctx: KoaContextWithOIDC | undefined) =>
        ctx === undefined || documents.take(ctx.req.socket.remoteAddress) === null,
      cacheDuration: {
        min: seconds(oauthLimits.clientDocumentKeptMsMin),
        max: seconds(oauthLimits.clientDocumentKeptMsMax),
      },
    },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => toolsUrl(deps),
      useGrantedResource: () => true,
      getResourceServerInfo: (ctx, resource, client) => tokenTerms(deps, { ctx, client, resource }, refusals),
    },
  };
}

const seconds = (durationMs: number): number => Math.floor(durationMs / secondMs);

/** The library requires one for ID tokens, which this server never issues. */
function unusedKey({ random, ed25519 }: Pick<OAuthDeps, 'random' | 'ed25519'>) {
  const seed = random.bytes(32);
  const { publicKey } = ed25519.signer(seed);
  return { kty: 'OKP', crv: 'Ed25519', d: encodeBase64url(seed), x: encodeBase64url(publicKey) } as const;
}

/** As `readClientDocument` says it of clients that have a document. */
const registeredMetadata = ({ clientId, clientName, redirectUris }: RegisteredClient) => ({
  client_id: clientId,
  ...(clientName === null ? {} : { client_name: clientName }),
  redirect_uris: [...redirectUris],
  token_endpoint_auth_method: 'none' as const,
  application_type: redirectUris.every((uri) => uri.startsWith('https://'))
    ? ('web' as const)
    : ('native' as const),
  grant_types: ['authorization_code', 'refresh_token'],
  response_types: ['code' as const],
  response_modes: ['query'],
});

/**
 * API keys and registered clients come from our tables. Sessions are not stored: every authorization asks for
 * the key again.
 */
function adapterFor(deps: OAuthDeps, model: string, alreadyUsed: () => Error): Adapter {
  if (model === 'Session') return forgetfulAdapter;
  if (model !== 'Client') return databaseAdapter(deps, model, alreadyUsed);
  return {
    ...forgetfulAdapter,
    find: async (clientId) => {
      const registered = await findRegisteredClient(deps, clientId);
      if (registered !== null) return registeredMetadata(registered);
      const key = await findUsableKey(deps, clientId);
      if (key === null) return undefined;
      return {
        client_id: key.keyId,
        client_secret: key.keyHash,
        token_endpoint_auth_method: 'client_secret_basic',
        grant_types: ['client_credentials', jwtBearer],
        redirect_uris: [],
        response_types: [],
      };
    },
  };
}
