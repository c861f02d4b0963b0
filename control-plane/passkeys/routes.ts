import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { Type } from 'typebox';
import { PagingQuery, placePage, renderPage } from '../../shared/wire/paging.ts';
import {
  PasskeyAnswer,
  PasskeyCreation,
  PasskeyListAnswer,
  PasskeyLogin,
  PasskeyOptions,
  PasskeyUpdate,
  renderPasskey,
} from '../../shared/wire/passkey.ts';
import { SessionAnswer } from '../../shared/wire/session.ts';
import { OwnPassword } from '../../shared/wire/user.ts';
import { callerOf } from '../http/caller.ts';
import { IdParams, pathId } from '../http/path-id.ts';
import { requestIdOf } from '../http/request-id.ts';
import { sessionAnswerer } from '../people/answer-session.ts';
import type { PeopleDeps } from '../people/deps.ts';
import { passkeyLogins } from './log-in-with-passkey.ts';
import { ownPasskeys } from './manage-passkeys.ts';

const begins = { scope: null, beginsSession: true } as const;
const config = { scope: null, credential: 'session' } as const;
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
      { config: begins, schema: { response: { 200: PasskeyOptions } } },
      async (_request, reply) => {
        const { options, cookie } = await logins.begin();
        reply.header('set-cookie', cookie).header('cache-control', 'no-store');
        return { options: { ...options } };
      },
    );

    app.post(
      '/session/passkey',
      { config: begins, schema: { body: PasskeyLogin, response: { 200: SessionAnswer } } },
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
      { config, schema: { querystring: PagingQuery, response: { 200: PasskeyListAnswer } } },
      async (request) => {
        const caller = callerOf(request);
        const owner = { accountId: caller.accountId, mode: 'live' } as const;
        const page = placePage(request.query, owner, 'passkeys', [caller.actor.id]);
        return renderPage(await passkeys.list(caller, page), page, renderPasskey);
      },
    );

    app.post(
      '/users/me/passkeys/begin',
      { config, schema: { body: OwnPassword, response: { 200: PasskeyOptions } } },
      async (request, reply) => {
        const wanted = { caller: callerOf(request), password: request.body.password };
        const { options, cookie } = await passkeys.begin(request, wanted);
        reply.header('set-cookie', cookie);
        return { options: { ...options } };
      },
    );

    app.post(
      '/users/me/passkeys',
      { config, schema: { body: PasskeyCreation, response: { 201: PasskeyAnswer } } },
      async (request, reply) => {
        const added = await passkeys.add(request, { caller: callerOf(request), ...request.body });
        return reply.code(201).header('set-cookie', passkeys.expiredCookie).send(renderPasskey(added));
      },
    );

    app.patch(
      '/users/me/passkeys/:id',
      { config, schema: { params: IdParams, body: PasskeyUpdate, response: { 200: PasskeyAnswer } } },
      async (request) => {
        const id = passkeyId(request.params.id);
        return renderPasskey(await passkeys.rename(callerOf(request), id, request.body.name));
      },
    );

    app.delete(
      '/users/me/passkeys/:id',
      { config, schema: { params: IdParams, response: { 204: Nothing } } },
      async (request, reply) => {
        await passkeys.remove(callerOf(request), passkeyId(request.params.id));
        return reply.code(204).send();
      },
    );
  };
}
