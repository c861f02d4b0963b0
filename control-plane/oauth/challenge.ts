import type { Scope } from '../../shared/model/scopes.ts';
import type { OAuthDeps } from './deps.ts';

/** The tools endpoint, which is also the audience of every access token (RFC 8707): `{PUBLIC_URL}/mcp`. */
export const toolsUrl = ({ baseUrl }: Pick<OAuthDeps, 'baseUrl'>): string => baseUrl.replace(/\/v1$/, '/mcp');

/**
 * Where clients read which authorization server to ask (RFC 9728 §3.1: the well-known part comes before the
 * path of the resource).
 */
function resourceMetadataUrl(deps: Pick<OAuthDeps, 'baseUrl'>): string {
  const { origin, pathname } = new URL(toolsUrl(deps));
  return `${origin}/.well-known/oauth-protected-resource${pathname}`;
}

/** The `WWW-Authenticate` of a 401: how to get a token (RFC 9728 §5.1). */
export const challenge = (deps: Pick<OAuthDeps, 'baseUrl'>): string =>
  `Bearer realm="agent-trust", resource_metadata="${resourceMetadataUrl(deps)}"`;

/** The same after an invalid token (RFC 6750 §3.1). */
export const challengeForToken = (deps: Pick<OAuthDeps, 'baseUrl'>): string =>
  `${challenge(deps)}, error="invalid_token"`;

/** The `WWW-Authenticate` of a 403: which scope to ask for (RFC 6750 §3.1). */
export const challengeForScope = (deps: Pick<OAuthDeps, 'baseUrl'>, scope: Scope): string =>
  `${challenge(deps)}, error="insufficient_scope", scope="${scope}"`;
