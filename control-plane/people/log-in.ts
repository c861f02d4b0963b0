import type { FastifyRequest } from 'fastify';
import type { Static } from 'typebox';
import { ApiError } from '../../shared/errors/api-error.ts';
import type { RequestId } from '../../shared/model/ids.ts';
import type { Login } from '../../shared/wire/session.ts';
import { logInAs, type NewSession } from './begin-session.ts';
import type { PeopleDeps } from './deps.ts';
import { readDevice } from './login-attempts.ts';
import { checkSecondFactor } from './second-factor.ts';
import { findLoginCandidates, type UserWithSecrets } from './user-store.ts';

/**
 * Begins a session for whoever knows the address, the password and, where there is one, the code of a user.
 * Throws `login_failed` whatever of it is wrong, after the same work whether or not the address is known;
 * `totp_required` for a right password without the code; `rate_limited`. What is in force is looked at again
 * under the lock of the user: a password that is being changed opens nothing.
 */
export async function logIn(
  deps: PeopleDeps,
  request: Pick<FastifyRequest, 'headers' | 'ip'>,
  {
    email,
    body,
    requestId,
  }: { readonly email: string; readonly body: Static<typeof Login>; readonly requestId: RequestId },
): Promise<NewSession> {
  const { headers } = request;
  const device = readDevice(deps, headers, email);
  const attempt = await deps.loginAttempts.begin({ email, address: request.ip, device });
  const candidates = await findLoginCandidates(deps.sql, email, body.account_id ?? null);
  const [first] = candidates;
  if (first !== undefined) await attempt.countFor(first.accountId);
  const user = await findByPassword(deps, candidates, body.password, device);
  if (user === null) throw new ApiError('login_failed');
  const { totp_code: code = null } = body;
  if (user.totpEnabled && code === null) {
    await attempt.forgive();
    throw new ApiError('totp_required');
  }
  const begun = await logInAs(deps, user, {
    operation: 'logIn',
    headers,
    requestId,
    admit: async (tx, locked) => {
      const isSame = locked !== null && locked.passwordHash === user.passwordHash;
      if (!isSame || !(await checkSecondFactor(tx, deps, locked, code))) throw new ApiError('login_failed');
      return {};
    },
  });
  await attempt.forgive();
  return begun;
}

/** The first of them whose password it is. Without any it takes as long as with one. */
async function findByPassword(
  { passwords }: Pick<PeopleDeps, 'passwords'>,
  candidates: readonly UserWithSecrets[],
  password: string,
  device: string | null,
): Promise<UserWithSecrets | null> {
  const lane = device === null ? 'anybody' : 'known';
  for (const user of candidates) if (await passwords.isRight(password, user.passwordHash, lane)) return user;
  if (candidates.length === 0) await passwords.isRight(password, null, lane);
  return null;
}
