import type { FastifyPluginAsync } from 'fastify';
import { idJag, jwtBearer } from './assertion-grant.ts';
import { toolsUrl } from './challenge.ts';
import type { OAuthDeps } from './deps.ts';
import { endpoints } from './endpoints.ts';

const config = { scope: null } as const;

/**
 * How a client finds its way from the tools endpoint to a token (RFC 9728, RFC 8414). Not the library's
 * document, which announces OpenID Connect.
 */
export function metadataRoutes(deps: Pick<OAuthDeps, 'baseUrl' | 'offeredScopes'>): FastifyPluginAsync {
  const resource = toolsUrl(deps);
  const issuer = new URL(resource).origin;
  const protectedResource = {
    resource,
    resource_name: 'agent-trust tools',
    authorization_servers: [issuer],
    scopes_supported: deps.offeredScopes,
    bearer_methods_supported: ['header'],
  };
  const authorizationServer = {
    issuer,
    authorization_endpoint: issuer + endpoints.authorization,
    token_endpoint: issuer + endpoints.token,
    registration_endpoint: issuer + endpoints.registration,
    revocation_endpoint: issuer + endpoints.revocation,
    scopes_supported: deps.offeredScopes,
    response_types_supported: ['code'],
    response_modes_supported: ['query'],
    grant_types_supported: ['authorization_code', 'refresh_token', 'client_credentials', jwtBearer],
    authorization_grant_profiles_supported: [idJag],
    token_endpoint_auth_methods_supported: ['none', 'client_secret_basic', 'client_secret_post'],
    revocation_endpoint_auth_methods_supported: ['none', 'client_secret_basic', 'client_secret_post'],
    code_challenge_methods_supported: ['S256'],
    authorization_response_iss_parameter_supported: true,
    client_id_metadata_document_supported: true,
    protected_resources: [resource],
  };
  return async (app) => {
    const wellKnown = '/.well-known/oauth-protected-resource';
    for (const url of [wellKnown, wellKnown + new URL(resource).pathname]) {
      app.get(url, { config }, async () => protectedResource);
    }
    app.get('/.well-known/oauth-authorization-server', { config }, async () => authorizationServer);
  };
}
