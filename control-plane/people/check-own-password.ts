import type { FastifyRequest } from 'fastify';
import { ApiError, invalidRequest } from '../../shared/errors/api-error.ts';
import { must } from '../../shared/errors/assert.ts';
import type { Caller } from '../http/caller.ts';
import type { PeopleDeps } from './deps.ts';
import { counted, readDevice } from './login-attempts.ts';
import type { HashLane } from './passwords.ts';
import { findUserWithSecrets, type UserWithSecrets } from './user-store.ts';

/**
 * Asks the logged-in user for their password again. Wrong ones count like failed logins, so that a person at
 * an unlocked browser cannot guess freely. Throws `invalid_request` with the name of the field, and
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
  const origin = { email: user.email, address: ip, device };
  // A session vouches for its person, in whichever browser.
  const lane: HashLane = { name: 'vouched', owner: device ?? userId };
  const isRight = await counted(deps.loginAttempts, origin, async () => {
    const [isOwn] = await deps.passwords.areRight(password, [user.passwordHash], lane);
    if (isOwn !== true) throw new ApiError('login_failed');
  }).then(
    () => true,
    (error: unknown) => {
      if (error instanceof ApiError && error.code === 'login_failed') return false;
      throw error;
    },
  );
  if (!isRight) throw invalidRequest(field, `${field} is not your password.`);
  return { user, lane };
}
