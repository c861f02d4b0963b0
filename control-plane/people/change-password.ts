import type { FastifyRequest } from 'fastify';
import type { Static } from 'typebox';
import { ApiError, invalidRequest } from '../../shared/errors/api-error.ts';
import { must } from '../../shared/errors/assert.ts';
import type { PasswordChange } from '../../shared/wire/user.ts';
import { administer } from '../audit/administer.ts';
import type { Caller } from '../http/caller.ts';
import { deleteSessionsOf } from '../sessions/session-store.ts';
import { beginSession, type NewSession } from './begin-session.ts';
import type { PeopleDeps } from './deps.ts';
import { limited } from './log-in.ts';
import { type LoginOrigin, readDevice } from './login-attempts.ts';
import { administratorOfPeople } from './own-people.ts';
import { findUserWithSecrets, lockUser, setPassword } from './user-store.ts';

/**
 * Changes the own password. Every session of the user ends, this one too, and another one begins here. Wrong
 * current passwords count like wrong logins: whoever found a browser open must not try them at leisure.
 */
export async function changePassword(
  deps: PeopleDeps,
  { headers, ip }: Pick<FastifyRequest, 'headers' | 'ip'>,
  { caller, body }: { readonly caller: Caller; readonly body: Static<typeof PasswordChange> },
): Promise<NewSession> {
  const { userId } = must(caller.person, 'the route asks for a session');
  const { accountId } = caller;
  const user = await findUserWithSecrets(deps.sql, accountId, userId);
  if (user === null) throw new ApiError('unauthorized');
  const device = readDevice(deps, headers, user.email);
  const origin: LoginOrigin = { email: user.email, address: ip, device };
  const lane = device === null ? 'anybody' : 'known';
  limited(deps.loginAttempts.take(origin));
  if (!(await deps.passwords.isRight(body.current_password, user.passwordHash, lane))) {
    throw invalidRequest('current_password', 'current_password is not your password.');
  }
  deps.loginAttempts.forgive(origin, accountId);
  const passwordHash = await deps.passwords.hash(body.new_password, lane);
  return administer(deps, administratorOfPeople(caller), async (tx) => {
    const locked = await lockUser(tx, accountId, userId);
    if (locked?.passwordHash !== user.passwordHash || locked.isDisabled) throw new ApiError('unauthorized');
    await setPassword(tx, userId, passwordHash);
    await deleteSessionsOf(tx, userId);
    const result = await beginSession(tx, deps, { userId, headers });
    const after = { user_id: userId, password_changed: true };
    return { result, audited: { operation: 'changePassword', target: userId, before: null, after } };
  });
}
