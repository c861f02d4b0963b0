import type { FastifyPluginAsync, FastifyReply } from 'fastify';
import { ApiError } from '../../shared/errors/api-error.ts';
import { hourMs, secondMs, toSeconds } from '../../shared/model/time.ts';
import { parseWebUrl } from '../../shared/wire/api/domain.ts';
import { addressLimit } from '../http/address-limit.ts';
import { readJson } from '../http/json-body.ts';
import { legible } from './client-document.ts';
import { isLoopback } from './consent-page.ts';
import type { OAuthDeps } from './deps.ts';
import { endpoints } from './endpoints.ts';
import { oauthLimits } from './limits.ts';
import { registerClient } from './registered-clients.ts';

/**
 * Dynamic client registration (RFC 7591) for clients that know no metadata documents (contract §13). Every
 * client is public: requests for a secret or other grants are replaced by this server's values, as RFC 7591
 * §3.2.1 allows. Nothing is fetched. Only the consent page shows the data, and calls it unverified.
 *
 * Not the library's, which would issue secrets and registration access tokens.
 */
export function registrationRoutes(deps: OAuthDeps): FastifyPluginAsync {
  const registrations = addressLimit(deps.clock, {
    max: oauthLimits.registrationsPerAddressMax,
    windowMs: hourMs,
    addressesMax: oauthLimits.addressesCountedMax,
  });
  return async (app) => {
    app.removeAllContentTypeParsers();
    app.addContentTypeParser('*', { bodyLimit: oauthLimits.clientDocumentBytesMax }, readJson);
    app.route({
      method: 'POST',
      url: endpoints.registration,
      bodyLimit: oauthLimits.clientDocumentBytesMax,
      config: { scope: null },
      errorHandler: (error, request, reply) => {
        if (!(error instanceof ApiError) || error.status !== 400)
          return app.errorHandler(error, request, reply);
        refuse(reply, 400, 'invalid_client_metadata', error.message);
      },
      handler: async (request, reply) => {
        reply.header('cache-control', 'no-store');
        const waitMs = registrations.take(request.raw.socket.remoteAddress);
        if (waitMs !== null) {
          reply.header('retry-after', Math.ceil(waitMs / secondMs));
          return refuse(reply, 429, 'temporarily_unavailable', 'Too many registrations from this address.');
        }
        const redirectUris = readRedirectUris(request.body);
        if (redirectUris === null) {
          return refuse(reply, 400, 'invalid_redirect_uri', redirectRule);
        }
        const client = await registerClient(deps, { redirectUris, clientName: readName(request.body) });
        return reply.code(201).send({
          client_id: client.clientId,
          client_id_issued_at: toSeconds(client.createdAtMs),
          ...(client.clientName === null ? {} : { client_name: client.clientName }),
          redirect_uris: client.redirectUris,
          token_endpoint_auth_method: 'none',
          grant_types: ['authorization_code', 'refresh_token'],
          response_types: ['code'],
        });
      },
    });
  };
}

const redirectRule = `redirect_uris must be 1 to ${oauthLimits.redirectUrisMax} addresses without a fragment, user, backslash or blank, https or http on a loopback address.`;

/** In the words of RFC 7591 §3.2.2. */
const refuse = (reply: FastifyReply, status: number, error: string, description: string): FastifyReply =>
  reply.code(status).send({ error, error_description: description });

const member = (body: unknown, name: string): unknown =>
  typeof body === 'object' && body !== null
    ? Object.entries(body).find(([each]) => each === name)?.[1]
    : null;

/** Null: they are not what `redirectRule` says. */
function readRedirectUris(body: unknown): readonly string[] | null {
  const uris = member(body, 'redirect_uris');
  if (!Array.isArray(uris) || uris.length === 0 || uris.length > oauthLimits.redirectUrisMax) return null;
  return uris.every(isRedirectUri) ? uris : null;
}

const isRedirectUri = (uri: unknown): uri is string =>
  typeof uri === 'string' &&
  uri.length <= oauthLimits.redirectUriCharsMax &&
  !uri.includes('#') &&
  (parseWebUrl(uri)?.protocol === 'https:' || isLoopback(uri));

function readName(body: unknown): string | null {
  const name = member(body, 'client_name');
  const text = typeof name === 'string' ? legible(name).trim() : '';
  return text === '' ? null : text;
}
