import * as oauth from 'oauth4webapi';
import { assert, must } from '../../shared/errors/assert.ts';
import { secondMs } from '../../shared/model/time.ts';
import type { Clock } from '../../shared/runtime/clock.ts';
import { parseWebUrl } from '../../shared/wire/api/domain.ts';
import type { GuardedFetch } from '../outbox/guarded-fetch.ts';
import { oidcLimits } from './limits.ts';

export interface IdentityProviderSettings {
  readonly issuer: string;
  readonly clientId: string;
  readonly clientSecret: string;
  /** Of the button. */
  readonly name: string;
}

/** An identity that the provider vouches for. `issuer` and `subject` together are unique for ever. */
export interface ProvenIdentity {
  readonly issuer: string;
  readonly subject: string;
  /** Null: none given, or not stated as verified. */
  readonly verifiedEmail: string | null;
}

/** Secrets of one login, sent to the provider and expected back. */
export interface AuthorizationSecrets {
  readonly state: string;
  readonly nonce: string;
  /** Of PKCE (RFC 7636), with S256. */
  readonly codeVerifier: string;
}

/** The provider is unreachable, or its settings here are wrong. The message holds no secret. */
export class ProviderAway extends Error {
  override readonly name = 'ProviderAway';
}

/** The provider's answer proves no identity. The message holds no secret. */
export class IdentityRefused extends Error {
  override readonly name = 'IdentityRefused';
}

/** An OpenID Connect provider, asked by the authorization code flow with PKCE, `state` and `nonce`. */
export interface IdentityProvider {
  readonly name: string;
  readonly issuer: string;
  /** Whether its metadata is known, or can be read now. */
  isReachable(): Promise<boolean>;
  /** Where a browser is sent. Throws ProviderAway. */
  authorizationUrl(redirectUri: string, secrets: AuthorizationSecrets): Promise<string>;
  /**
   * The identity, from the parameters of the provider's redirect. Checks `state`, `iss` (RFC 9207), and of
   * the ID token signature, issuer, audience, authorized party, times, `nonce` and subject. Throws
   * ProviderAway and IdentityRefused.
   */
  identify(
    returned: URLSearchParams,
    expected: AuthorizationSecrets & { readonly redirectUri: string },
  ): Promise<ProvenIdentity>;
}

interface ProviderDeps {
  readonly outbound: Pick<GuardedFetch, 'request'>;
  readonly clock: Clock;
}

export function identityProvider(
  { issuer, clientId, clientSecret, name }: IdentityProviderSettings,
  deps: ProviderDeps,
): IdentityProvider {
  const expected = new URL(issuer);
  const options = requestOptions(deps, expected);
  const metadata = keptMetadata(deps, async () =>
    oauth.processDiscoveryResponse(expected, await oauth.discoveryRequest(expected, options)),
  );
  const client = (): oauth.Client => ({
    client_id: clientId,
    // The times of tokens are judged by the clock that all replicas go by.
    [oauth.clockSkew]: Math.round((deps.clock.now() - Date.now()) / secondMs),
  });

  const claimsOf = claimsReader({ clientId, clientSecret }, deps, { options, client });

  return {
    name,
    issuer,
    isReachable: () =>
      metadata().then(
        () => true,
        () => false,
      ),
    authorizationUrl: async (redirectUri, { state, nonce, codeVerifier }) => {
      const { authorization_endpoint: endpoint = '' } = await metadata();
      const url = parseWebUrl(endpoint);
      // A browser is sent there: no other scheme than that of the issuer, or https.
      if (url === null || !['https:', expected.protocol].includes(url.protocol)) {
        throw new ProviderAway('its metadata names no address for logins');
      }
      const parameters = {
        client_id: clientId,
        response_type: 'code',
        redirect_uri: redirectUri,
        scope: 'openid email',
        state,
        nonce,
        code_challenge: await oauth.calculatePKCECodeChallenge(codeVerifier),
        code_challenge_method: 'S256',
      };
      for (const [key, value] of Object.entries(parameters)) url.searchParams.set(key, value);
      return url.href;
    },
    identify: async (returned, wanted) => {
      const server = await metadata();
      try {
        const { claims, email = null } = await claimsOf(server, returned, wanted);
        return { issuer, subject: claims.sub, verifiedEmail: email };
      } catch (error) {
        throw judged(error);
      }
    },
  };
}

const requestOptions = (deps: ProviderDeps, issuer: URL) => ({
  [oauth.customFetch]: guardedCalls(deps),
  // The guard of outbound requests refuses http unless OIDC_ALLOW_PRIVATE is set.
  [oauth.allowInsecureRequests]: issuer.protocol === 'http:',
});

/** Exchanges the code of a login for the claims of its user. */
function claimsReader(
  { clientId, clientSecret }: Pick<IdentityProviderSettings, 'clientId' | 'clientSecret'>,
  deps: Pick<ProviderDeps, 'clock'>,
  {
    options,
    client,
  }: { readonly options: ReturnType<typeof requestOptions>; readonly client: () => oauth.Client },
) {
  return async (
    server: oauth.AuthorizationServer,
    returned: URLSearchParams,
    { redirectUri, state, nonce, codeVerifier }: Parameters<IdentityProvider['identify']>[1],
  ) => {
    const own = client();
    const parameters = oauth.validateAuthResponse(server, own, returned, state);
    const authentication = authenticationAt(server, clientSecret);
    const answer = await oauth.authorizationCodeGrantRequest(
      server,
      own,
      authentication,
      parameters,
      redirectUri,
      codeVerifier,
      options,
    );
    const tokens = await oauth.processAuthorizationCodeResponse(server, own, answer, {
      expectedNonce: nonce,
      requireIdToken: true,
    });
    // TLS alone would do (OpenID Connect Core §3.1.3.7); the signature also holds where something between
    // ends it.
    await oauth.validateApplicationLevelSignature(server, answer, options);
    const claims = must(oauth.getValidatedIdTokenClaims(tokens), 'an ID token was required');
    refuseOddClaims(claims, { clientId, nowS: deps.clock.now() / secondMs });
    const vouched = verifiedEmailOf(claims);
    if (vouched !== undefined || server.userinfo_endpoint === undefined) return { claims, email: vouched };
    const infoAnswer = await oauth.userInfoRequest(server, own, tokens.access_token, options);
    const info = await oauth.processUserInfoResponse(server, own, claims.sub, infoAnswer);
    // A verified address there does not vouch for another one in the ID token.
    const isSame = claims['email'] === undefined || claims['email'] === info['email'];
    return { claims, email: isSame ? verifiedEmailOf(info) : null };
  };
}

/**
 * The address that these claims vouch for; null: they say that it is not verified. Undefined: they name none,
 * or do not say. Some providers write the boolean as text.
 */
function verifiedEmailOf({ email, email_verified: verified }: { readonly [claim: string]: unknown }) {
  if (typeof email !== 'string' || verified === undefined || verified === null) return undefined;
  return verified === true || verified === 'true' ? email : null;
}

/** OpenID Connect Core §2: at most 255 ASCII characters. A blank one would match many people. */
const subjectPattern = /^[!-~](?:[ -~]{0,253}[!-~])?$/;
/** As the library takes `exp` and `nbf`. */
const toleranceS = 30;

/** Checks that the library lacks. Throws IdentityRefused. */
function refuseOddClaims(
  { sub, azp, iat, auth_time: authTime = 0 }: oauth.IDToken,
  { clientId, nowS }: { readonly clientId: string; readonly nowS: number },
): void {
  if (!subjectPattern.test(sub)) throw new IdentityRefused('sub is empty, too long or not ASCII');
  if (azp !== undefined && azp !== clientId) throw new IdentityRefused('azp is another client');
  for (const [name, value] of Object.entries({ iat, auth_time: authTime })) {
    const isPast = typeof value === 'number' && value <= nowS + toleranceS;
    if (!isPast) throw new IdentityRefused(`${name} is no time, or in the future`);
  }
}

/** RFC 8414 §2: without a list it is Basic. */
function authenticationAt(
  { token_endpoint_auth_methods_supported: methods }: oauth.AuthorizationServer,
  secret: string,
): oauth.ClientAuth {
  const takesBasic = methods === undefined || methods.includes('client_secret_basic');
  return takesBasic ? oauth.ClientSecretBasic(secret) : oauth.ClientSecretPost(secret);
}

/**
 * Classifies errors of the library and of calls. If the provider refuses this client, the settings here are
 * wrong, for every login.
 */
function judged(error: unknown): Error {
  if (error instanceof ProviderAway || error instanceof IdentityRefused) return error;
  if (error instanceof oauth.ResponseBodyError) {
    if (error.error === 'invalid_grant') return new IdentityRefused('invalid_grant', { cause: error });
    return new ProviderAway(`it answered ${error.error}`, { cause: error });
  }
  if (error instanceof oauth.WWWAuthenticateChallengeError) {
    // Such as a token that was revoked because its code was used again.
    const isOfToken = error.cause.some(({ parameters }) => parameters.error === 'invalid_token');
    return isOfToken
      ? new IdentityRefused('invalid_token', { cause: error })
      : new ProviderAway(`it answered ${error.status}`, { cause: error });
  }
  const isRefusal =
    error instanceof oauth.OperationProcessingError ||
    error instanceof oauth.AuthorizationResponseError ||
    error instanceof oauth.UnsupportedOperationError;
  if (isRefusal) return new IdentityRefused(error.message, { cause: error });
  assert(error instanceof Error, 'what is thrown is an error');
  return error;
}

/** The library's `fetch`, by the guard of webhooks, with bounds of time and size. Throws ProviderAway. */
function guardedCalls({ outbound }: Pick<ProviderDeps, 'outbound'>) {
  return async (
    url: string,
    { method, headers, body }: oauth.CustomFetchOptions<string, unknown>,
  ): Promise<Response> => {
    assert(method === 'GET' || method === 'POST', 'the library reads and posts');
    const answer = await outbound
      .request(url, {
        method,
        headers: { ...headers, 'user-agent': 'agent-trust' },
        ...(body instanceof URLSearchParams ? { body: body.toString() } : {}),
        maxBytes: oidcLimits.answerBytesMax,
        timeoutMs: oidcLimits.callMsMax,
      })
      .catch((cause: unknown) => {
        throw new ProviderAway('it cannot be reached', { cause });
      });
    const { status } = answer;
    if (answer.isCut) throw new ProviderAway('its answer is too large');
    if (status >= 500 || status === 429) throw new ProviderAway(`it answered ${status}`);
    const kept = ['content-type', 'www-authenticate'].flatMap((name) => {
      const value = answer.headers[name];
      return value === undefined ? [] : [[name, value] as [string, string]];
    });
    const isEmpty = [204, 205, 304].includes(status);
    return new Response(isEmpty ? null : withoutTwins(answer.body), { status, headers: kept });
  };
}

/** Of a key set each key once: of one that is listed twice the library takes none. Other answers stay. */
function withoutTwins(body: Uint8Array): string | Buffer<ArrayBuffer> {
  const bytes = Buffer.from(body);
  if (!bytes.includes('"keys"')) return bytes;
  try {
    const set: { readonly keys: readonly oauth.JWK[] } = JSON.parse(bytes.toString());
    const keys = new Map(set.keys.map((key) => [JSON.stringify(key, identifying), key]));
    return JSON.stringify({ ...set, keys: [...keys.values()] });
  } catch {
    return bytes;
  }
}

const identifying = ['kid', 'use', 'key_ops', 'alg', 'kty', 'crv', 'x', 'y', 'n', 'e'];

/**
 * The metadata of the provider, read once for concurrent callers and kept for `oidcLimits.metadataKeptMs`; a
 * failure for `oidcLimits.failureKeptMs`. The library keeps the keys beside it: five minutes at most, and
 * reads them again for a key that it does not know.
 */
function keptMetadata(
  { clock }: Pick<ProviderDeps, 'clock'>,
  read: () => Promise<oauth.AuthorizationServer>,
): () => Promise<oauth.AuthorizationServer> {
  let kept: { readonly metadata: Promise<oauth.AuthorizationServer>; readonly until: number } | null = null;
  return () => {
    const now = clock.monotonic();
    if (kept !== null && now < kept.until) return kept.metadata;
    const metadata = read().catch((cause: unknown) => {
      kept = { metadata, until: clock.monotonic() + oidcLimits.failureKeptMs };
      throw cause instanceof ProviderAway ? cause : new ProviderAway('its metadata is wrong', { cause });
    });
    kept = { metadata, until: now + oidcLimits.metadataKeptMs };
    return metadata;
  };
}
