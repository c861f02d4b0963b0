import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import {
  LoginMethodsAnswer,
  OidcLogin,
  OidcLoginAnswer,
  OidcLoginBeginning,
  OidcLoginBegun,
} from '../../shared/wire/api/oidc.ts';
import { exampleIds } from '../http/example-ids.ts';
import { errorsOfLoginSteps, errorsOfLogins, operationsOf } from '../http/operation.ts';
import { requestIdOf } from '../http/request-id.ts';
import { sessionAnswerer } from '../people/answer-session.ts';
import { relyingPartyOf } from '../people/relying-party.ts';
import type { OidcDeps } from './deps.ts';
import { oidcLogins } from './log-in-with-oidc.ts';

const api = operationsOf('People', {
  getLoginMethods: {
    scope: null,
    summary: 'List the ways to log in besides a password',
    description: 'What the login page offers.',
  },
  beginOidcLogin: {
    scope: null,
    beginsSession: true,
    summary: 'Begin a login with the identity provider',
    description:
      'Send the browser to `authorization_url`. The answer sets a cookie that binds the login to this browser for ten minutes. Send it like a ' +
      'login. `service_unavailable` where the provider cannot be asked.',
    errors: errorsOfLoginSteps,
    headers: ['Set-Cookie'],
    examples: { page: { value: { return_to: '/console/approvals' } } },
  },
  logInWithOidc: {
    scope: null,
    beginsSession: true,
    summary: 'Finish a login with the identity provider: begin a browser session',
    description:
      '`code`, `state` and `iss` are those with which the provider sent the browser back. Only active users are let in: by the verified email ' +
      'address the first time, and then by the identity that was linked. Of users of several accounts `account_id` names one, else ' +
      '`invalid_request` names the accounts. Sets the cookie of the session. Send it like a login.',
    errors: [...errorsOfLogins, 'login_failed', 'rate_limited'],
    headers: ['Set-Cookie'],
    examples: {
      returned: {
        value: { code: exampleIds.oidcCode, state: exampleIds.oidcState, iss: exampleIds.oidcIssuer },
      },
    },
  },
});

/** Logins with an identity provider, and which logins there are (docs/people.md). */
export function oidcRoutes(deps: OidcDeps): FastifyPluginAsyncTypebox {
  const answerBegun = sessionAnswerer(deps);
  const logins = oidcLogins(deps);
  return async (app) => {
    app.get(
      '/login-methods',
      { config: api.getLoginMethods, schema: { response: { 200: LoginMethodsAnswer } } },
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
      { config: api.beginOidcLogin, schema: { body: OidcLoginBeginning, response: { 200: OidcLoginBegun } } },
      async (request, reply) => {
        const { authorizationUrl, cookie } = await logins.begin(request.body);
        reply.header('set-cookie', cookie).header('cache-control', 'no-store');
        return { authorization_url: authorizationUrl };
      },
    );

    app.post(
      '/session/oidc',
      { config: api.logInWithOidc, schema: { body: OidcLogin, response: { 200: OidcLoginAnswer } } },
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
