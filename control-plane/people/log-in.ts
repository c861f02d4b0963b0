/**
 * Room `control-plane/people`: people: users, invitations, roles, logins, second factors. SQL in
 * `user-store.ts` and `invitation-store.ts`.
 */

import type { FastifyRequest } from 'fastify';
import type { Static } from 'typebox';
import { ApiError } from '../../shared/errors/api-error.ts';
import type { RequestId } from '../../shared/model/ids.ts';
import type { Login } from '../../shared/wire/api/session.ts';
import { logInAs, type NewSession } from './begin-session.ts';
import { chooseAccount } from './choose-account.ts';
import type { PeopleDeps } from './deps.ts';
import { peopleLimits } from './limits.ts';
import { counted, laneOf, readDevice } from './login-attempts.ts';
import type { HashLane } from './passwords.ts';
import { checkSecondFactor } from './second-factor.ts';
import { findLoginCandidates, type LoginCandidate } from './user-store.ts';

/**
 * Begins a session after a correct address, password and, if set up, code. Throws `login_failed` for any
 * fault, after the same work for known and unknown addresses; `totp_required` for a correct password without
 * the code; `invalid_request` if the password matches users of several accounts and `account_id` names none;
 * `rate_limited`. All is checked again under the user's lock, so a password that is being changed is refused.
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
  const origin = { email, address: request.ip, device: readDevice(deps, headers, email) };
  return counted(deps.loginAttempts, origin, async (attempt) => {
    const candidates = await findLoginCandidates(deps.sql, email, body.account_id ?? null);
    await attempt.countFor(candidates[0]?.accountId ?? null);
    const user = await findByPassword(deps, candidates, { body, lane: laneOf(origin) });
    const { totp_code: code = null } = body;
    if (user.totpEnabled && code === null) throw new ApiError('totp_required');
    return logInAs(deps, user, {
      operation: 'logIn',
      headers,
      requestId,
      admit: async (tx, locked) => {
        const isSame = locked !== null && locked.passwordHash === user.passwordHash;
        if (!isSame || !(await checkSecondFactor(tx, deps, locked, code))) throw new ApiError('login_failed');
        return {};
      },
    });
  });
}

/**
 * The candidate whose password matches. Computes the same number of hashes for any address, known or not, so
 * that timing reveals nothing. Throws `login_failed`, and `invalid_request` for `account_id` if it matches
 * several.
 */
async function findByPassword(
  { passwords }: Pick<PeopleDeps, 'passwords'>,
  candidates: readonly LoginCandidate[],
  {
    body: { password, account_id: accountId },
    lane,
  }: { readonly body: Static<typeof Login>; readonly lane: HashLane },
): Promise<LoginCandidate> {
  const tries = accountId === undefined ? peopleLimits.loginCandidatesMax : 1;
  const hashes = Array.from({ length: tries }, (_each, place) => candidates[place]?.passwordHash ?? null);
  const isRight = await passwords.areRight(password, hashes, lane);
  const users = candidates.filter((_each, place) => isRight[place] === true);
  const [user] = users;
  if (user === undefined) throw new ApiError('login_failed');
  if (users.length > 1) throw chooseAccount(users);
  return user;
}
