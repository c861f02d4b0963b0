import type { FastifyRequest } from 'fastify';
import type { Static } from 'typebox';
import { ApiError } from '../../shared/errors/api-error.ts';
import { must } from '../../shared/errors/assert.ts';
import type { PasswordChange } from '../../shared/wire/api/user.ts';
import { administer } from '../audit/administer.ts';
import type { Caller } from '../http/caller.ts';
import { deleteSessionsOf } from '../sessions/session-store.ts';
import { beginSession, type NewSession } from './begin-session.ts';
import { checkOwnPassword } from './check-own-password.ts';
import type { PeopleDeps } from './deps.ts';
import { administratorOfPeople } from './people-rights.ts';
import { lockUser, setPassword } from './user-store.ts';

/**
 * Changes the own password. Every session of the user ends, this one too, and another one begins here. */
export async function changePassword(
  deps: PeopleDeps,
  request: Pick<FastifyRequest, 'headers' | 'ip'>,
  { caller, body }: { readonly caller: Caller; readonly body: Static<typeof PasswordChange> },
): Promise<NewSession> {
  const { userId } = must(caller.person, 'the route asks for a session');
  const { accountId } = caller;
  const { current_password: password } = body;
  const { user, lane } = await checkOwnPassword(deps, request, {
    caller,
    field: 'current_password',
    password,
  });
  const passwordHash = await deps.passwords.hash(body.new_password, lane);
  return administer(deps, administratorOfPeople(caller), async (tx) => {
    const locked = await lockUser(tx, accountId, userId);
    if (locked?.passwordHash !== user.passwordHash || locked.isDisabled) throw new ApiError('unauthorized');
    await setPassword(tx, userId, passwordHash);
    await deleteSessionsOf(tx, userId);
    const result = await beginSession(tx, deps, { userId, headers: request.headers });
    const after = { user_id: userId, password_changed: true };
    return { result, audited: { operation: 'changePassword', target: userId, before: null, after } };
  });
}
