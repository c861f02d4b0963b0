import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { ApiError } from '../../shared/errors/api-error.ts';
import { renderTime } from '../../shared/model/time.ts';
import { parseEmail } from '../../shared/wire/email.ts';
import { NamedListQuery, PageAnswer, partsAsked, placePage, renderPage } from '../../shared/wire/paging.ts';
import {
  InvitedUserAnswer,
  renderUser,
  UserAnswer,
  UserDeletion,
  UserInvitation,
  UserUpdate,
} from '../../shared/wire/user.ts';
import { creator } from '../creation/idempotency.ts';
import { callerOf } from '../http/caller.ts';
import { IdParams, pathId } from '../http/path-id.ts';
import type { PeopleDeps } from './deps.ts';
import { inviteUser, renderInvitedUser, renewInvitation } from './invite-user.ts';
import { administratorOfPeople } from './own-people.ts';
import { deleteUser, updateUser } from './update-user.ts';
import { findUser, listUsers } from './user-store.ts';

const read = { scope: 'audit:read' } as const;
const config = { scope: 'keys:manage' } as const;
const create = { ...config, creates: true } as const;
const userId = (text: string) => pathId('usr', text, 'user_not_found');

/** The people of the caller's account (docs/people.md). */
export function peopleRoutes(deps: PeopleDeps): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.register(creationRoutes(deps));
    app.register(userRoutes(deps));
  };
}

function creationRoutes(deps: PeopleDeps): FastifyPluginAsyncTypebox {
  const answerCreated = creator(deps);
  return async (app) => {
    app.post(
      '/users',
      { config: create, schema: { body: UserInvitation, response: { 201: InvitedUserAnswer } } },
      async (request, reply) => {
        const caller = administratorOfPeople(callerOf(request));
        const email = parseEmail(request.body.email);
        const wanted = { email, name: request.body.name ?? email, role: request.body.role };
        return answerCreated(request, reply, {
          caller,
          create: (tx) => inviteUser(tx, deps, { caller, wanted }),
          render: renderInvitedUser,
          audit: ({ user }) => ({
            operation: 'inviteUser',
            target: user.userId,
            before: null,
            after: renderUser(user),
          }),
        });
      },
    );
  };
}

function userRoutes(deps: PeopleDeps): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.get(
      '/users',
      { config: read, schema: { querystring: NamedListQuery, response: { 200: PageAnswer(UserAnswer) } } },
      async (request) => {
        const { accountId } = administratorOfPeople(callerOf(request));
        // People belong to both modes.
        const page = placePage(
          request.query,
          { accountId, mode: 'live' },
          'users',
          partsAsked(request.query),
        );
        const namePart = request.query.name ?? null;
        return renderPage(await listUsers(deps.sql, accountId, { namePart, page }), page, renderUser);
      },
    );

    app.get(
      '/users/:id',
      { config: read, schema: { params: IdParams, response: { 200: UserAnswer } } },
      async (request) => {
        const { accountId } = administratorOfPeople(callerOf(request));
        const user = await findUser(deps.sql, accountId, userId(request.params.id));
        if (user === null) throw new ApiError('user_not_found');
        return renderUser(user);
      },
    );

    app.post(
      '/users/:id/invitation',
      { config, schema: { params: IdParams, response: { 200: InvitedUserAnswer } } },
      async (request) => {
        const caller = administratorOfPeople(callerOf(request));
        return renderInvitedUser(await renewInvitation(deps, caller, userId(request.params.id)));
      },
    );

    app.patch(
      '/users/:id',
      { config, schema: { params: IdParams, body: UserUpdate, response: { 200: UserAnswer } } },
      async (request) => {
        const caller = administratorOfPeople(callerOf(request));
        const wanted = { userId: userId(request.params.id), body: request.body };
        return renderUser(await updateUser(deps, caller, wanted));
      },
    );

    app.delete(
      '/users/:id',
      { config, schema: { params: IdParams, response: { 200: UserDeletion } } },
      async (request) => {
        const id = userId(request.params.id);
        const deletedAtMs = await deleteUser(deps, administratorOfPeople(callerOf(request)), id);
        return { user_id: id, deleted: true as const, deleted_at: renderTime(deletedAtMs) };
      },
    );
  };
}
