import type Provider from 'oidc-provider';
import type { TokenEndpointGrantContext } from 'oidc-provider';
import { ApiError } from '../../shared/errors/api-error.ts';
import { isId } from '../../shared/model/ids.ts';
import { holdsScope, type Scope } from '../../shared/model/scopes.ts';
import { secondMs, type UnixMillis } from '../../shared/model/time.ts';
import type { PresentedKey } from '../api-keys/api-key-store.ts';
import { readScopes } from './access-token.ts';
import { claimArtifact } from './artifact-store.ts';
import { toolsUrl } from './challenge.ts';
import type { OAuthDeps, TokenSubject } from './deps.ts';
import { oauthLimits } from './limits.ts';
import { lifetimeMs } from './token-terms.ts';
import { findUsableKey } from './usable-key.ts';

/** RFC 7523 §2.1. */
export const jwtBearer = 'urn:ietf:params:oauth:grant-type:jwt-bearer';
/** The profile of it that is served: identity assertions of a company's provider. */
export const idJag = 'urn:ietf:params:oauth:grant-profile:id-jag';

type Errors = typeof import('./library.ts')['errors'];
type Context = TokenEndpointGrantContext<{ assertion?: unknown; scope?: unknown; resource?: unknown }>;

/**
 * The third way to a token: a client, which is an API key, presents what the company's identity provider says
 * of one of its people. The token has the scopes that the provider grants and the key holds, none that make
 * keys, which would outlive that person here, and ends with either.
 */
export function addAssertionGrant(provider: Provider, deps: OAuthDeps, errors: Errors): void {
  const invalidGrant = (detail: string) =>
    new errors.CustomOIDCProviderError('invalid_grant', `the assertion is refused: ${detail}`);
  /** The code of RFC 6749 §4.1.2.1: the token endpoint has none for what can be tried again. */
  const later = (description: string) =>
    new errors.CustomOIDCProviderError('temporarily_unavailable', description);
  const handler = async (ctx: Context): Promise<void> => {
    const { client, params } = ctx.oidc;
    const { clientId } = client;
    // One that describes itself may claim this grant, and has no secret.
    const key = isId('key', clientId) ? await findUsableKey(deps, clientId) : null;
    if (key === null) throw new errors.UnauthorizedClient('only an API key may present assertions');
    const { assertion, resource } = params;
    if (typeof assertion !== 'string' || assertion === '')
      throw new errors.InvalidRequest('assertion is missing');
    if (resource !== undefined && resource !== toolsUrl(deps))
      throw new errors.InvalidTarget('the only resource is the tools endpoint');
    const { accountId, mode } = key;
    const audience = new URL(deps.baseUrl).origin;
    const verdict = await deps
      .verifyAssertion({ assertion, clientId, accountId, mode, audience, resource: toolsUrl(deps) })
      .catch((error: unknown) => {
        if (!(error instanceof ApiError) || error.status !== 503) throw error;
        ctx.set('retry-after', String(error.retryAfterS));
        throw Object.assign(later(error.message), { status: 503, statusCode: 503, expose: true });
      });
    if (verdict.kind === 'refused') throw invalidGrant(verdict.detail);
    const { subject, jti, expiresAtMs } = verdict;
    const scope = grantedScopes(deps, key, { asserted: verdict.scope, asked: params.scope }).join(' ');
    if (scope === '') throw new errors.InvalidScope('assertion and API key have none of the scopes', '');
    // The last step: an assertion that is refused may be presented again.
    const endsAtMs = (expiresAtMs + oauthLimits.assertionKeptMs) as UnixMillis;
    const name = { model: 'Assertion', id: `${subject.issuerId} ${jti}` };
    if (!(await claimArtifact(deps, name, endsAtMs))) throw invalidGrant('it was used before');
    ctx.body = await issue(ctx, { scope, subject, expiresInS: lifetimeS(deps, key), aud: toolsUrl(deps) });
  };
  provider.registerGrantType(jwtBearer, handler, ['assertion', 'scope', 'resource']);
}

const lifetimeS = ({ clock }: OAuthDeps, key: PresentedKey): number =>
  Math.floor(lifetimeMs(key, clock.now()) / secondMs);

/** What the provider grants, narrowed by the request, by the key, and to what the tools need. */
function grantedScopes(
  { offeredScopes }: OAuthDeps,
  key: PresentedKey,
  { asserted, asked }: { readonly asserted: string | null; readonly asked: unknown },
): readonly Scope[] {
  const demands = [asserted, asked]
    .filter((scopes) => scopes !== null && scopes !== undefined)
    .map(readScopes);
  return offeredScopes.filter((scope) =>
    [...demands, key.scopes].every((scopes) => holdsScope(scopes, scope)),
  );
}

async function issue(
  { oidc: { provider, client } }: Context,
  token: {
    readonly scope: string;
    readonly subject: TokenSubject;
    readonly expiresInS: number;
    readonly aud: string;
  },
) {
  const { scope, subject, expiresInS: expiresIn, aud } = token;
  const made = new provider.ClientCredentials({ client, scope, expiresIn, extra: { subject } });
  made.setAudience(aud);
  const access_token = await made.save();
  return { access_token, expires_in: expiresIn, scope, token_type: 'Bearer' };
}
