import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { Type } from 'typebox';
import { ApiError } from '../../shared/errors/api-error.ts';
import { must } from '../../shared/errors/assert.ts';
import { isId, type UserId } from '../../shared/model/ids.ts';
import { holdsScope } from '../../shared/model/scopes.ts';
import { renderTime } from '../../shared/model/time.ts';
import { parseEmail } from '../../shared/wire/api/email.ts';
import { pagingQuery, placePage, renderPage } from '../../shared/wire/api/paging.ts';
import { Login, SessionAnswer, SessionListAnswer } from '../../shared/wire/api/session.ts';
import { InvitationAcceptance, InvitationAnswer, InvitationReading } from '../../shared/wire/api/user.ts';
import { administer } from '../audit/administer.ts';
import { type Caller, callerOf } from '../http/caller.ts';
import { exampleIds, exampleLogin } from '../http/example-ids.ts';
import { errorsOfLogins, operationsOf } from '../http/operation.ts';
import { IdParams, pathId } from '../http/path-id.ts';
import { requestIdOf } from '../http/request-id.ts';
import { expiredSessionCookie } from '../sessions/cookies.ts';
import { renderSession, renderSessionListItem } from '../sessions/render-session.ts';
import { deleteSession, findSessionOwner, listSessions } from '../sessions/session-store.ts';
import { acceptInvitation } from './accept-invitation.ts';
import { sessionAnswerer } from './answer-session.ts';
import type { PeopleDeps } from './deps.ts';
import { describeInvitation, findInvitation } from './invitation-store.ts';
import { logIn } from './log-in.ts';
import { administratorOfPeople, refuseHigherRole } from './people-rights.ts';
import { findUser } from './user-store.ts';

const api = operationsOf('People', {
  logIn: {
    scope: null,
    beginsSession: true,
    summary: 'Log in: begin a browser session',
    description:
      'Answers with the session and sets its cookie. `login_failed` says nothing about what is wrong; `totp_required` asks for the same again ' +
      'with `totp_code`. Send it as every change of a session: with `X-Agent-Trust-Console: 1`, from a page of this service. See docs/people.md.',
    errors: [...errorsOfLogins, 'login_failed', 'totp_required', 'rate_limited'],
    headers: ['Set-Cookie'],
    examples: {
      password: { value: exampleLogin },
      code: {
        summary: 'With the code of an authenticator app',
        value: { ...exampleLogin, totp_code: exampleIds.totpCode },
      },
    },
  },
  readInvitation: {
    scope: null,
    beginsSession: true,
    summary: 'Read who invites, where to and as what',
    description: 'Without accepting it. Send it like a login.',
    errors: [...errorsOfLogins, 'invitation_not_found'],
    examples: { link: { value: { token: exampleIds.invitationToken } } },
  },
  acceptInvitation: {
    scope: null,
    beginsSession: true,
    summary: 'Accept an invitation: choose a password and log in',
    description:
      '`token` is what follows `#token=` in the link, which works once. The link of a first owner needs `email` too. Send it like a login.',
    errors: [...errorsOfLogins, 'invitation_not_found'],
    headers: ['Set-Cookie'],
    examples: {
      invited: {
        value: {
          token: exampleIds.invitationToken,
          name: 'Grace Hopper',
          password: 'a long sentence that I can remember',
        },
      },
    },
  },
  getSession: {
    scope: null,
    credential: 'session',
    summary: 'Get the session of this request: who is logged in, and what they may do',
  },
  logOut: {
    scope: null,
    credential: 'session',
    summary: 'Log out: end the session of this request',
    headers: ['Set-Cookie'],
  },
  listSessions: {
    scope: null,
    credential: 'session',
    summary: 'List sessions, newest first',
    description: 'Your own; with `user_id` those of another user, which owners and admins may see.',
    errors: ['insufficient_scope', 'user_not_found'],
  },
  endSession: {
    scope: null,
    credential: 'session',
    summary: 'End a session',
    description: 'Your own; owners and admins may end those of others too.',
    errors: ['insufficient_scope', 'session_not_found'],
  },
});

const Nothing = Type.Unsafe<undefined>({});
const ListQuery = Type.Object({ user_id: Type.Optional(Type.String()), ...pagingQuery });

/** Logins and browser sessions (docs/people.md). */
export function sessionRoutes(deps: PeopleDeps): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.register(loginRoutes(deps));
    app.register(ownSessionRoutes(deps));
  };
}

function loginRoutes(deps: PeopleDeps): FastifyPluginAsyncTypebox {
  const answerBegun = sessionAnswerer(deps);
  return async (app) => {
    app.post(
      '/session',
      { config: api.logIn, schema: { body: Login, response: { 200: SessionAnswer } } },
      async (request, reply) => {
        const email = parseEmail(request.body.email);
        const begun = await logIn(deps, request, {
          email,
          body: request.body,
          requestId: requestIdOf(request),
        });
        return answerBegun(request, reply, begun);
      },
    );

    app.post(
      '/invitations/read',
      {
        config: api.readInvitation,
        schema: { body: InvitationReading, response: { 200: InvitationAnswer } },
      },
      async (request, reply) => {
        const found = await findInvitation(deps.sql, request.body.token, deps.clock.now());
        const words = found === null ? null : await describeInvitation(deps.sql, found);
        if (found === null || words === null) throw new ApiError('invitation_not_found');
        reply.header('cache-control', 'no-store');
        return { ...words, expires_at: renderTime(found.expiresAtMs) };
      },
    );

    app.post(
      '/invitations/accept',
      {
        config: api.acceptInvitation,
        schema: { body: InvitationAcceptance, response: { 200: SessionAnswer } },
      },
      async (request, reply) => {
        const wanted = { body: request.body, requestId: requestIdOf(request) };
        return answerBegun(request, reply, await acceptInvitation(deps, request, wanted));
      },
    );
  };
}

function ownSessionRoutes(deps: PeopleDeps): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.get(
      '/session',
      { config: api.getSession, schema: { response: { 200: SessionAnswer } } },
      async (request) => {
        const session = must(request.browserSession, 'the route asks for a session');
        // This request counts as its last.
        const seen = { ...session, lastSeenAtMs: deps.clock.now() };
        return renderSession(seen, callerOf(request).mode, deps.sessionTimes);
      },
    );

    app.delete(
      '/session',
      { config: api.logOut, schema: { response: { 204: Nothing } } },
      async (request, reply) => {
        const caller = callerOf(request);
        const { sessionId, userId } = personOf(caller);
        await endSession(deps, caller, { operation: 'logOut', sessionId, userId });
        return reply.code(204).header('set-cookie', expiredSessionCookie).send();
      },
    );

    app.get(
      '/sessions',
      { config: api.listSessions, schema: { querystring: ListQuery, response: { 200: SessionListAnswer } } },
      async (request) => {
        const caller = callerOf(request);
        const { sessionId, userId: own } = personOf(caller);
        const userId = request.query.user_id ?? own;
        if (userId !== own) await refuseForeignPerson(deps, caller, userId);
        const nowMs = deps.clock.now();
        const seenSinceMs = nowMs - deps.sessionTimes.idleMs;
        const { accountId } = caller;
        const page = placePage(request.query, { accountId, mode: 'live' }, 'sessions', [userId]);
        const found = await listSessions(deps.sql, userId as UserId, { page, nowMs, seenSinceMs });
        return renderPage(found, page, (each) => renderSessionListItem(each, sessionId, deps.sessionTimes));
      },
    );

    app.delete(
      '/sessions/:id',
      { config: api.endSession, schema: { params: IdParams, response: { 204: Nothing } } },
      async (request, reply) => {
        const caller = callerOf(request);
        const sessionId = pathId('sess', request.params.id, 'session_not_found');
        const owner = await findSessionOwner(deps.sql, caller.accountId, sessionId);
        const isOwn = owner?.userId === personOf(caller).userId;
        // An unauthorised caller does not learn that it exists.
        if (owner === null || !(isOwn || holdsScope(caller.scopes, 'keys:manage'))) {
          throw new ApiError('session_not_found');
        }
        if (!isOwn) refuseHigherRole(caller, owner.role);
        await endSession(deps, caller, { operation: 'endSession', sessionId, userId: owner.userId });
        return reply.code(204).send();
      },
    );
  };
}

const personOf = ({ person }: Caller) => must(person, 'the route asks for a session');

/** Owners and admins manage others' sessions, except those of users with more rights. */
async function refuseForeignPerson(
  { sql }: Pick<PeopleDeps, 'sql'>,
  caller: Caller,
  userId: string,
): Promise<void> {
  if (!holdsScope(caller.scopes, 'keys:manage')) {
    throw new ApiError('insufficient_scope', {
      param: 'user_id',
      message: 'Only owners and admins see the sessions of others.',
    });
  }
  const user = isId('usr', userId) ? await findUser(sql, caller.accountId, userId) : null;
  if (user === null) throw new ApiError('user_not_found');
  refuseHigherRole(caller, user.role);
}

/** A repeat ends nothing and leaves no entry. */
const endSession = (
  deps: PeopleDeps,
  caller: Caller,
  {
    operation,
    sessionId,
    userId,
  }: {
    readonly operation: 'logOut' | 'endSession';
    readonly sessionId: Parameters<typeof deleteSession>[1];
    readonly userId: UserId;
  },
): Promise<void> =>
  administer(deps, administratorOfPeople(caller), async (tx) => {
    const isEnded = await deleteSession(tx, sessionId);
    const before = { session_id: sessionId, user_id: userId };
    return {
      result: undefined,
      audited: isEnded ? { operation, target: sessionId, before, after: null } : null,
    };
  });
