import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Static } from 'typebox';
import { ApiError } from '../../shared/errors/api-error.ts';
import { assert, must } from '../../shared/errors/assert.ts';
import type { SessionAnswer } from '../../shared/wire/api/session.ts';
import { hashSessionToken } from '../sessions/authenticate-session.ts';
import { renderDeviceCookie, renderSessionCookie } from '../sessions/cookies.ts';
import { renderSession } from '../sessions/render-session.ts';
import { findPresentedSession } from '../sessions/session-store.ts';
import type { NewSession } from './begin-session.ts';
import type { PeopleDeps } from './deps.ts';
import { newDevice, readDevice } from './login-attempts.ts';

/** Answers with the session, its cookie, and the cookie by which this browser is known at its next login. */
export const sessionAnswerer =
  (deps: PeopleDeps) =>
  async (
    request: FastifyRequest,
    reply: FastifyReply,
    { session, token }: NewSession,
  ): Promise<Static<typeof SessionAnswer>> => {
    const begun = must(
      await findPresentedSession(deps.sql, hashSessionToken(token)),
      'a session that was just begun is there',
    );
    if (begun.accountStatus === 'suspended') throw new ApiError('account_suspended');
    const { email } = begun.user;
    const isKnown = readDevice(deps, request.headers, email) !== null;
    const cookies = [
      renderSessionCookie(token),
      ...(isKnown ? [] : [renderDeviceCookie(newDevice(deps, email))]),
    ];
    assert(session.sessionId === begun.sessionId, 'the cookie is that of the session');
    reply.header('set-cookie', cookies).header('cache-control', 'no-store');
    return renderSession(begun, 'live', deps.sessionTimes);
  };
