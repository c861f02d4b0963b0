import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { Type } from 'typebox';
import { PagingQuery, placePage, renderPage } from '../../shared/wire/api/paging.ts';
import {
  PasskeyAnswer,
  PasskeyCreation,
  PasskeyListAnswer,
  PasskeyLogin,
  PasskeyOptions,
  PasskeyUpdate,
  renderPasskey,
} from '../../shared/wire/api/passkey.ts';
import { SessionAnswer } from '../../shared/wire/api/session.ts';
import { OwnPassword } from '../../shared/wire/api/user.ts';
import { callerOf } from '../http/caller.ts';
import { exampleIds, exampleLogin } from '../http/example-ids.ts';
import { errorsOfLogins, operationsOf } from '../http/operation.ts';
import { IdParams, pathId } from '../http/path-id.ts';
import { requestIdOf } from '../http/request-id.ts';
import { sessionAnswerer } from '../people/answer-session.ts';
import type { PeopleDeps } from '../people/deps.ts';
import { passkeyLogins } from './log-in-with-passkey.ts';
import { ownPasskeys } from './manage-passkeys.ts';

const api = operationsOf('People', {
  beginPasskeyLogin: {
    scope: null,
    beginsSession: true,
    summary: 'Begin a login with a passkey',
    description:
      'Answers with what `navigator.credentials.get` takes (WebAuthn), and sets a cookie that binds its challenge to this browser for ten ' +
      'minutes. Send it like a login.',
    errors: [
      'invalid_request',
      'invalid_json',
      'body_too_large',
      'unsupported_media_type',
      'cross_site_request',
    ],
    headers: ['Set-Cookie'],
  },
  logInWithPasskey: {
    scope: null,
    beginsSession: true,
    summary: 'Finish a login with a passkey: begin a browser session',
    description:
      'The passkey names its user and was unlocked by them, so neither a password nor a code is asked for. Sets the cookie of the session. ' +
      'Send it like a login.',
    errors: [...errorsOfLogins, 'login_failed', 'rate_limited'],
    headers: ['Set-Cookie'],
    examples: { signed: { value: { response: exampleIds.passkeyAnswer } } },
  },
  listPasskeys: { scope: null, credential: 'session', summary: 'List your own passkeys, newest first' },
  beginPasskey: {
    scope: null,
    credential: 'session',
    summary: 'Begin to register a passkey',
    description:
      'Asks for your password once more. Answers with what `navigator.credentials.create` takes (WebAuthn), and sets a cookie that binds its ' +
      'challenge to this session for ten minutes.',
    errors: ['user_state_conflict'],
    headers: ['Set-Cookie'],
    examples: { password: { value: { password: exampleLogin.password } } },
  },
  addPasskey: {
    scope: null,
    credential: 'session',
    summary: 'Register a passkey',
    errors: ['user_state_conflict'],
    headers: ['Set-Cookie'],
    examples: { made: { value: { name: 'Laptop', response: exampleIds.newPasskey } } },
  },
  renamePasskey: {
    scope: null,
    credential: 'session',
    summary: 'Rename a passkey of yours',
    errors: ['passkey_not_found'],
    examples: { name: { value: { name: 'Telephone' } } },
  },
  removePasskey: {
    scope: null,
    credential: 'session',
    summary: 'Remove a passkey of yours',
    description: 'The last way to log in stays.',
    errors: ['passkey_not_found', 'user_state_conflict'],
  },
});
const Nothing = Type.Unsafe<undefined>({});
const passkeyId = (text: string) => pathId('pkey', text, 'passkey_not_found');

/** Passkeys: the own ones, and logins with them (docs/people.md). */
export function passkeyRoutes(deps: PeopleDeps): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.register(loginRoutes(deps));
    app.register(ownPasskeyRoutes(deps));
  };
}

function loginRoutes(deps: PeopleDeps): FastifyPluginAsyncTypebox {
  const answerBegun = sessionAnswerer(deps);
  const logins = passkeyLogins(deps);
  return async (app) => {
    app.post(
      '/session/passkey/begin',
      { config: api.beginPasskeyLogin, schema: { response: { 200: PasskeyOptions } } },
      async (_request, reply) => {
        const { options, cookie } = await logins.begin();
        reply.header('set-cookie', cookie).header('cache-control', 'no-store');
        return { options: { ...options } };
      },
    );

    app.post(
      '/session/passkey',
      { config: api.logInWithPasskey, schema: { body: PasskeyLogin, response: { 200: SessionAnswer } } },
      async (request, reply) => {
        const wanted = { response: request.body.response, requestId: requestIdOf(request) };
        const answer = await answerBegun(request, reply, await logins.finish(request, wanted));
        reply.header('set-cookie', logins.expiredCookie);
        return answer;
      },
    );
  };
}

function ownPasskeyRoutes(deps: PeopleDeps): FastifyPluginAsyncTypebox {
  const passkeys = ownPasskeys(deps);
  return async (app) => {
    app.get(
      '/users/me/passkeys',
      {
        config: api.listPasskeys,
        schema: { querystring: PagingQuery, response: { 200: PasskeyListAnswer } },
      },
      async (request) => {
        const caller = callerOf(request);
        const owner = { accountId: caller.accountId, mode: 'live' } as const;
        const page = placePage(request.query, owner, 'passkeys', [caller.actor.id]);
        return renderPage(await passkeys.list(caller, page), page, renderPasskey);
      },
    );

    app.post(
      '/users/me/passkeys/begin',
      { config: api.beginPasskey, schema: { body: OwnPassword, response: { 200: PasskeyOptions } } },
      async (request, reply) => {
        const wanted = { caller: callerOf(request), password: request.body.password };
        const { options, cookie } = await passkeys.begin(request, wanted);
        reply.header('set-cookie', cookie);
        return { options: { ...options } };
      },
    );

    app.post(
      '/users/me/passkeys',
      { config: api.addPasskey, schema: { body: PasskeyCreation, response: { 201: PasskeyAnswer } } },
      async (request, reply) => {
        const added = await passkeys.add(request, { caller: callerOf(request), ...request.body });
        return reply.code(201).header('set-cookie', passkeys.expiredCookie).send(renderPasskey(added));
      },
    );

    app.patch(
      '/users/me/passkeys/:id',
      {
        config: api.renamePasskey,
        schema: { params: IdParams, body: PasskeyUpdate, response: { 200: PasskeyAnswer } },
      },
      async (request) => {
        const id = passkeyId(request.params.id);
        return renderPasskey(await passkeys.rename(callerOf(request), id, request.body.name));
      },
    );

    app.delete(
      '/users/me/passkeys/:id',
      { config: api.removePasskey, schema: { params: IdParams, response: { 204: Nothing } } },
      async (request, reply) => {
        await passkeys.remove(callerOf(request), passkeyId(request.params.id));
        return reply.code(204).send();
      },
    );
  };
}
