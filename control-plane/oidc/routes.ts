import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import {
  LoginMethodsAnswer,
  OidcLogin,
  OidcLoginAnswer,
  OidcLoginBeginning,
  OidcLoginBegun,
} from '../../shared/wire/oidc.ts';
import { requestIdOf } from '../http/request-id.ts';
import { sessionAnswerer } from '../people/answer-session.ts';
import { relyingPartyOf } from '../people/relying-party.ts';
import type { OidcDeps } from './deps.ts';
import { oidcLogins } from './log-in-with-oidc.ts';

const begins = { scope: null, beginsSession: true } as const;

/** Logins with an identity provider, and which logins there are (docs/people.md). */
export function oidcRoutes(deps: OidcDeps): FastifyPluginAsyncTypebox {
  const answerBegun = sessionAnswerer(deps);
  const logins = oidcLogins(deps);
  return async (app) => {
    app.get(
      '/login-methods',
      { config: { scope: null }, schema: { response: { 200: LoginMethodsAnswer } } },
      async (_request, reply) => {
        const { identityProvider: provider } = deps;
        reply.header('cache-control', 'no-store');
        return {
          passkeys: relyingPartyOf(deps.baseUrl) !== null,
          oidc: provider === null ? null : { name: provider.name, available: await provider.isReachable() },
        };
      },
    );

    app.post(
      '/session/oidc/begin',
      { config: begins, schema: { body: OidcLoginBeginning, response: { 200: OidcLoginBegun } } },
      async (request, reply) => {
        const { authorizationUrl, cookie } = await logins.begin(request.body);
        reply.header('set-cookie', cookie).header('cache-control', 'no-store');
        return { authorization_url: authorizationUrl };
      },
    );

    app.post(
      '/session/oidc',
      { config: begins, schema: { body: OidcLogin, response: { 200: OidcLoginAnswer } } },
      async (request, reply) => {
        const wanted = { body: request.body, requestId: requestIdOf(request) };
        const { begun, returnTo } = await logins.finish(request, wanted);
        const session = await answerBegun(request, reply, begun);
        reply.header('set-cookie', logins.expiredCookie);
        return { session, return_to: returnTo };
      },
    );
  };
}
