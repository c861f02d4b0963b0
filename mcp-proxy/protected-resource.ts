import type { IncomingMessage } from 'node:http';
import type { Shown } from './guard-calls.ts';

const wellKnown = '/.well-known/oauth-protected-resource';
/** RFC 6750 §2.1, RFC 9449 §7.1. */
const tokenScheme = /^(?:bearer|dpop) +(?=\S+ *$)/i;

/**
 * The proxy as a protected resource (RFC 9728): access tokens of these authorization servers are passports,
 * and no business of the MCP server.
 */
export class ProtectedResource {
  readonly metadata: string;
  readonly #metadataUrl: string;
  readonly #paths: ReadonlySet<string>;

  constructor({
    publicUrl,
    authorizationServers,
    scopes,
  }: {
    readonly publicUrl: URL;
    readonly authorizationServers: readonly string[];
    readonly scopes: readonly string[];
  }) {
    const { origin, pathname, search } = publicUrl;
    const path = pathname === '/' ? '' : pathname;
    this.metadata = JSON.stringify({
      resource: `${origin}${path}${search}`,
      authorization_servers: authorizationServers,
      ...(scopes.length > 0 && { scopes_supported: scopes }),
      bearer_methods_supported: ['header'],
      dpop_signing_alg_values_supported: ['EdDSA', 'Ed25519', 'ES256'],
    });
    this.#metadataUrl = `${origin}${wellKnown}${path}`;
    this.#paths = new Set([wellKnown, `${wellKnown}${path}`]);
  }

  /** Whether the request asks for the metadata. */
  isAskedFor({ method, url = '' }: IncomingMessage): boolean {
    return method === 'GET' && this.#paths.has(url.split('?', 1)[0] ?? '');
  }

  /** The headers of a client, with its access token as the passport that it is here. */
  shown(headers: Shown): Shown {
    return (name) => {
      const value = headers(name);
      return name === 'authorization' ? value?.replace(tokenScheme, 'Passport ') : value;
    };
  }

  /** Whether this `Authorization` is meant as an access token, in whatever form. */
  isToken(authorization: string): boolean {
    return /^(?:bearer|dpop)(?:\s|$)/i.test(authorization);
  }

  /** The `WWW-Authenticate` of a 401 (RFC 9728 §5.1). `reason`: of a token that is no valid passport. */
  challenge(reason: string | null): string {
    const metadata = `resource_metadata="${this.#metadataUrl}"`;
    if (reason === null) return `Bearer ${metadata}`;
    return `Bearer ${metadata}, error="invalid_token", error_description="${reason}"`;
  }
}
