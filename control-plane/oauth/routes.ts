import type { FastifyPluginAsync, FastifyReply, FastifyRequest } from 'fastify';
import { type AuthorizationServer, authorizationServer } from './authorization-server.ts';
import { consentRoutes } from './consent-routes.ts';
import type { OAuthDeps } from './deps.ts';
import { endpoints } from './endpoints.ts';
import { metadataRoutes } from './metadata-routes.ts';
import { registrationRoutes } from './registration-routes.ts';

const config = { scope: null } as const;

/**
 * The authorization server of `/mcp` (contract §13): its metadata, its consent page, and the endpoints of its
 * library.
 */
export function oauthRoutes(deps: OAuthDeps): FastifyPluginAsync {
  const server = authorizationServer(deps);
  return async (app) => {
    app.register(metadataRoutes(deps));
    app.register(consentRoutes(deps, server));
    app.register(registrationRoutes(deps));
    app.register(libraryRoutes(deps, server));
  };
}

/** Only these endpoints of the library are exposed. */
const libraryEndpoints = [
  { method: 'GET', url: endpoints.authorization },
  { method: 'GET', url: `${endpoints.authorization}/:uid` },
  { method: 'POST', url: endpoints.token },
  { method: 'POST', url: endpoints.revocation },
] as const;

/** Hands over raw requests: the library reads the body itself and answers with OAuth errors. */
function libraryRoutes(
  deps: Pick<OAuthDeps, 'baseUrl'>,
  server: () => Promise<AuthorizationServer>,
): FastifyPluginAsync {
  const handOver = async (request: FastifyRequest, reply: FastifyReply): Promise<void> => {
    const { answer } = await server();
    standAt(new URL(deps.baseUrl), request);
    request.raw.url = withoutNonce(request.raw.url ?? '');
    reply.hijack();
    reply.raw.setHeader('x-request-id', request.id);
    // RFC 6749 §5.1 asks for it beside `Cache-Control`, which the library sets.
    reply.raw.setHeader('pragma', 'no-cache');
    reply.raw.setHeader('referrer-policy', 'no-referrer');
    await answer(request.raw, reply.raw);
  };
  return async (app) => {
    app.removeAllContentTypeParsers();
    app.addContentTypeParser('*', (_request, _payload, done) => done(null));
    for (const { method, url } of libraryEndpoints) {
      app.route({ method, url, exposeHeadRoute: false, config, handler: handOver });
    }
  };
}

/**
 * A nonce is returned in an ID token (OpenID Connect Core §3.1.2.1), and this server issues none. The library
 * refuses a nonce without the scope `openid`; clients that always send one are served all the same.
 */
function withoutNonce(url: string): string {
  const [path = '', ...query] = url.split('?');
  const parameters = query.join('?').split('&');
  const kept = parameters.filter((each) => !/^nonce(?:=|$)/.test(each));
  return kept.length === parameters.length ? url : `${path}?${kept.join('&')}`;
}

/**
 * The library takes its own address, and whether cookies are for https only, from the request. Here both come
 * from PUBLIC_URL, whatever the headers of clients and proxies.
 */
function standAt({ host, protocol }: URL, { raw }: FastifyRequest): void {
  for (const name of Object.keys(raw.headers)) {
    if (name === 'forwarded' || name.startsWith('x-forwarded-')) delete raw.headers[name];
  }
  raw.headers.host = host;
  raw.headers['x-forwarded-proto'] = protocol.slice(0, -1);
}
