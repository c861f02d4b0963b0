import type { FastifyRequest } from 'fastify';
import { ApiError, invalidRequest } from '../../shared/errors/api-error.ts';
import { must } from '../../shared/errors/assert.ts';
import type { Caller } from '../http/caller.ts';
import type { PeopleDeps } from './deps.ts';
import { readDevice } from './login-attempts.ts';
import type { HashLane } from './passwords.ts';
import { findUserWithSecrets, type UserWithSecrets } from './user-store.ts';

/**
 * Asks whoever is logged in for their password once more. Wrong ones count like wrong logins: whoever found a
 * browser open must not try them at leisure. Throws `invalid_request` with the name of the field, and
 * `rate_limited`.
 */
export async function checkOwnPassword(
  deps: PeopleDeps,
  { headers, ip }: Pick<FastifyRequest, 'headers' | 'ip'>,
  { caller, field, password }: { readonly caller: Caller; readonly field: string; readonly password: string },
): Promise<{ readonly user: UserWithSecrets; readonly lane: HashLane }> {
  const { userId } = must(caller.person, 'the route asks for a session');
  const { accountId } = caller;
  const user = await findUserWithSecrets(deps.sql, accountId, userId);
  if (user === null) throw new ApiError('unauthorized');
  const device = readDevice(deps, headers, user.email);
  const lane = device === null ? 'anybody' : 'known';
  const attempt = await deps.loginAttempts.begin({ email: user.email, address: ip, device });
  if (!(await deps.passwords.isRight(password, user.passwordHash, lane))) {
    throw invalidRequest(field, `${field} is not your password.`);
  }
  await attempt.forgive();
  return { user, lane };
}
