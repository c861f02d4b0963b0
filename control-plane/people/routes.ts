import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { ApiError } from '../../shared/errors/api-error.ts';
import { renderTime } from '../../shared/model/time.ts';
import { parseEmail } from '../../shared/wire/api/email.ts';
import {
  NamedListQuery,
  PageAnswer,
  partsAsked,
  placePage,
  renderPage,
} from '../../shared/wire/api/paging.ts';
import {
  InvitationRenewal,
  InvitedUserAnswer,
  renderUser,
  UserAnswer,
  UserDeletion,
  UserInvitation,
  UserUpdate,
} from '../../shared/wire/api/user.ts';
import { creator } from '../creation/idempotency.ts';
import { callerOf } from '../http/caller.ts';
import { operationsOf } from '../http/operation.ts';
import { IdParams, pathId } from '../http/path-id.ts';
import { confirmUser } from './confirm-user.ts';
import type { PeopleDeps } from './deps.ts';
import { inviteUser, refuseUndeliverable, renderInvitedUser, renewInvitation } from './invite-user.ts';
import { mailInvitation } from './mail-invitation.ts';
import { administratorOfPeople } from './people-rights.ts';
import { deleteUser, updateUser } from './update-user.ts';
import { findUser, listUsers } from './user-store.ts';

const api = operationsOf('People', {
  inviteUser: {
    scope: 'users:manage',
    creates: true,
    summary: 'Invite a user',
    description:
      '`invitation_url` is shown this once: send it to the user, who opens it within 7 days and chooses a password. You give no role that may do ' +
      'more than you may. With `delivery` `mail` the link is mailed, and shown to nobody. Whom an API key invites into an account that has people ' +
      'answers approvals once a person has confirmed them.',
    errors: ['email_conflict'],
    examples: {
      approver: { value: { email: 'grace@example.com', name: 'Grace Hopper', role: 'approver' } },
    },
  },
  renewInvitation: {
    scope: 'users:manage',
    summary: 'Make a new invitation for a user who has not accepted yet',
    description: 'The earlier link ends. `invitation_url` is shown this once.',
    errors: ['user_not_found', 'user_state_conflict'],
    examples: { mailed: { value: { delivery: 'link' } } },
  },
  confirmUser: {
    scope: null,
    credential: 'session',
    summary: 'Confirm that a user is a person who answers approvals',
    description:
      'For whom an API key has invited. By a person with `users:manage` who is confirmed, in a session. A repeat changes nothing.',
    errors: ['insufficient_scope', 'user_not_found', 'user_state_conflict'],
  },
  listUsers: { scope: 'audit:read', summary: 'List users, newest first' },
  getUser: { scope: 'audit:read', summary: 'Get a user', errors: ['user_not_found'] },
  updateUser: {
    scope: 'users:manage',
    summary: 'Change name, role or status of a user',
    description:
      'Only what is present changes. A new role and `disabled` end all sessions of the user. The last active owner stays one.',
    errors: ['user_not_found', 'last_owner'],
    examples: { role: { value: { role: 'admin' } }, disabled: { value: { status: 'disabled' } } },
  },
  deleteUser: {
    scope: 'users:manage',
    summary: 'Delete a user with all of their sessions',
    errors: ['user_not_found', 'last_owner'],
  },
});
const userId = (text: string) => pathId('usr', text, 'user_not_found');

/** The people of the caller's account (docs/people.md). */
export function peopleRoutes(deps: PeopleDeps): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.register(creationRoutes(deps));
    app.register(userRoutes(deps));
    app.register(invitedRoutes(deps));
  };
}

function creationRoutes(deps: PeopleDeps): FastifyPluginAsyncTypebox {
  const answerCreated = creator(deps);
  return async (app) => {
    app.post(
      '/users',
      { config: api.inviteUser, schema: { body: UserInvitation, response: { 201: InvitedUserAnswer } } },
      async (request, reply) => {
        const caller = administratorOfPeople(callerOf(request));
        const email = parseEmail(request.body.email);
        const { name = email, role, delivery = 'both' } = request.body;
        refuseUndeliverable(deps, delivery);
        const wanted = { email, name, role, delivery };
        return answerCreated(request, reply, {
          caller,
          create: (tx) => inviteUser(tx, deps, { caller, wanted }),
          afterCommit: (invited) => mailInvitation(deps, invited),
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

/** What is done about one who was invited: a new link, or a confirmation. */
function invitedRoutes(deps: PeopleDeps): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.post(
      '/users/:id/invitation',
      {
        config: api.renewInvitation,
        schema: { params: IdParams, body: InvitationRenewal, response: { 200: InvitedUserAnswer } },
      },
      async (request) => {
        const caller = administratorOfPeople(callerOf(request));
        const { delivery = 'both' } = request.body;
        refuseUndeliverable(deps, delivery);
        const wanted = { userId: userId(request.params.id), delivery };
        const invited = await renewInvitation(deps, caller, wanted);
        return { ...renderInvitedUser(invited), ...(await mailInvitation(deps, invited)) };
      },
    );

    app.post(
      '/users/:id/confirm',
      { config: api.confirmUser, schema: { params: IdParams, response: { 200: UserAnswer } } },
      async (request) => {
        const caller = administratorOfPeople(callerOf(request));
        return renderUser(await confirmUser(deps, caller, userId(request.params.id)));
      },
    );
  };
}

function userRoutes(deps: PeopleDeps): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.get(
      '/users',
      {
        config: api.listUsers,
        schema: { querystring: NamedListQuery, response: { 200: PageAnswer(UserAnswer) } },
      },
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
      { config: api.getUser, schema: { params: IdParams, response: { 200: UserAnswer } } },
      async (request) => {
        const { accountId } = administratorOfPeople(callerOf(request));
        const user = await findUser(deps.sql, accountId, userId(request.params.id));
        if (user === null) throw new ApiError('user_not_found');
        return renderUser(user);
      },
    );

    app.patch(
      '/users/:id',
      {
        config: api.updateUser,
        schema: { params: IdParams, body: UserUpdate, response: { 200: UserAnswer } },
      },
      async (request) => {
        const caller = administratorOfPeople(callerOf(request));
        const wanted = { userId: userId(request.params.id), body: request.body };
        return renderUser(await updateUser(deps, caller, wanted));
      },
    );

    app.delete(
      '/users/:id',
      { config: api.deleteUser, schema: { params: IdParams, response: { 200: UserDeletion } } },
      async (request) => {
        const id = userId(request.params.id);
        const deletedAtMs = await deleteUser(deps, administratorOfPeople(callerOf(request)), id);
        return { user_id: id, deleted: true as const, deleted_at: renderTime(deletedAtMs) };
      },
    );
  };
}
