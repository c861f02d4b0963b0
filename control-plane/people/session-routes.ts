import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox';
import { Type } from 'typebox';
import { ApiError } from '../../shared/errors/api-error.ts';
import { must } from '../../shared/errors/assert.ts';
import { isId, type UserId } from '../../shared/model/ids.ts';
import { holdsScope } from '../../shared/model/scopes.ts';
import { parseEmail } from '../../shared/wire/email.ts';
import { pagingQuery, placePage, renderPage } from '../../shared/wire/paging.ts';
import { Login, SessionAnswer, SessionListAnswer } from '../../shared/wire/session.ts';
import { InvitationAcceptance } from '../../shared/wire/user.ts';
import { administer } from '../audit/administer.ts';
import { type Caller, callerOf } from '../http/caller.ts';
import { IdParams, pathId } from '../http/path-id.ts';
import { requestIdOf } from '../http/request-id.ts';
import { expiredSessionCookie } from '../sessions/cookies.ts';
import { renderSession, renderSessionListItem } from '../sessions/render-session.ts';
import { deleteSession, findSessionOwner, listSessions } from '../sessions/session-store.ts';
import { acceptInvitation } from './accept-invitation.ts';
import { sessionAnswerer } from './answer-session.ts';
import type { PeopleDeps } from './deps.ts';
import { logIn } from './log-in.ts';
import { administratorOfPeople, refuseHigherRole } from './own-people.ts';
import { findUser } from './user-store.ts';

const begins = { scope: null, beginsSession: true } as const;
const config = { scope: null, credential: 'session' } as const;

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
      { config: begins, schema: { body: Login, response: { 200: SessionAnswer } } },
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
      '/invitations/accept',
      { config: begins, schema: { body: InvitationAcceptance, response: { 200: SessionAnswer } } },
      async (request, reply) => {
        const wanted = { body: request.body, requestId: requestIdOf(request) };
        return answerBegun(request, reply, await acceptInvitation(deps, request, wanted));
      },
    );
  };
}

function ownSessionRoutes(deps: PeopleDeps): FastifyPluginAsyncTypebox {
  return async (app) => {
    app.get('/session', { config, schema: { response: { 200: SessionAnswer } } }, async (request) => {
      const session = must(request.browserSession, 'the route asks for a session');
      // This request counts as its last.
      const seen = { ...session, lastSeenAtMs: deps.clock.now() };
      return renderSession(seen, callerOf(request).mode, deps.sessionTimes);
    });

    app.delete('/session', { config, schema: { response: { 204: Nothing } } }, async (request, reply) => {
      const caller = callerOf(request);
      const { sessionId, userId } = personOf(caller);
      await endSession(deps, caller, { operation: 'logOut', sessionId, userId });
      return reply.code(204).header('set-cookie', expiredSessionCookie).send();
    });

    app.get(
      '/sessions',
      { config, schema: { querystring: ListQuery, response: { 200: SessionListAnswer } } },
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
      { config, schema: { params: IdParams, response: { 204: Nothing } } },
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
