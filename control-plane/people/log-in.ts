import type { FastifyRequest } from 'fastify';
import type { Static } from 'typebox';
import { ApiError } from '../../shared/errors/api-error.ts';
import type { RequestId } from '../../shared/model/ids.ts';
import { renderTime, secondMs } from '../../shared/model/time.ts';
import type { Login } from '../../shared/wire/session.ts';
import { administer } from '../audit/administer.ts';
import { beginSession, type NewSession } from './begin-session.ts';
import type { PeopleDeps } from './deps.ts';
import { type LoginOrigin, readDevice } from './login-attempts.ts';
import { checkSecondFactor } from './second-factor.ts';
import { findLoginCandidates, lockUser, type UserWithSecrets } from './user-store.ts';

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
): Promise<NewSession & { readonly device: string | null }> {
  const { headers } = request;
  const device = readDevice(deps, headers, email);
  const origin: LoginOrigin = { email, address: request.ip, device };
  limited(deps.loginAttempts.take(origin));
  const candidates = await findLoginCandidates(deps.sql, email, body.account_id ?? null);
  const [first] = candidates;
  if (first !== undefined) limited(deps.loginAttempts.takeOfAccount(origin, first.accountId));
  const user = await findByPassword(deps, candidates, body.password, device);
  if (user === null) throw new ApiError('login_failed');
  const wantsCode = user.totpEnabled && body.totp_code === undefined;
  if (wantsCode) {
    deps.loginAttempts.forgive(origin, user.accountId);
    throw new ApiError('totp_required');
  }
  const begun = await beginFor(deps, user, { headers, code: body.totp_code ?? null, requestId });
  deps.loginAttempts.forgive(origin, user.accountId);
  return { ...begun, device };
}

/** Throws `rate_limited` where there is a time to wait. */
export function limited(waitMs: number | null): void {
  if (waitMs === null) return;
  throw new ApiError('rate_limited', {
    message: 'Too many logins were tried. Wait as long as Retry-After says.',
    retryAfterS: Math.ceil(waitMs / secondMs),
  });
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

/** The entry of the audit names the person who has logged in, as one who acts in the live world. */
const beginFor = (
  deps: PeopleDeps,
  { userId, accountId, passwordHash }: UserWithSecrets,
  {
    headers,
    code,
    requestId,
  }: {
    readonly headers: FastifyRequest['headers'];
    readonly code: string | null;
    readonly requestId: RequestId;
  },
): Promise<NewSession> => {
  const actor = { type: 'user', id: userId, clientId: null };
  return administer(deps, { accountId, mode: 'live', actor, requestId }, async (tx) => {
    const user = await lockUser(tx, accountId, userId);
    const isSame = user !== null && !user.isDisabled && user.passwordHash === passwordHash;
    if (!isSame || !(await checkSecondFactor(tx, deps, user, code))) throw new ApiError('login_failed');
    const begun = await beginSession(tx, deps, { userId, headers });
    const { sessionId, expiresAtMs } = begun.session;
    const after = { session_id: sessionId, user_id: userId, expires_at: renderTime(expiresAtMs) };
    return { result: begun, audited: { operation: 'logIn', target: sessionId, before: null, after } };
  });
};
