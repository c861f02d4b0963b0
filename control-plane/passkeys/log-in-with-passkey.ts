import type { FastifyRequest } from 'fastify';
import { ApiError } from '../../shared/errors/api-error.ts';
import type { RequestId } from '../../shared/model/ids.ts';
import { renderTime } from '../../shared/model/time.ts';
import { administer } from '../audit/administer.ts';
import { beginSession, type NewSession } from '../people/begin-session.ts';
import type { PeopleDeps } from '../people/deps.ts';
import { limited } from '../people/log-in.ts';
import { unnamedOrigin } from '../people/login-attempts.ts';
import { lockUser } from '../people/user-store.ts';
import { type LoginChallenges, loginChallenges } from '../sessions/login-challenge.ts';
import { CeremonyRefused, loginOptions, readLogin, verifyLogin } from './ceremonies.ts';
import { ownRelyingParty } from './own-relying-party.ts';
import { findPresentedPasskey, type PresentedPasskey, usePasskey } from './passkey-store.ts';

/** Logins with a passkey alone: it names its person, and was unlocked by them, so it is both factors. */
export interface PasskeyLogins {
  /** For `navigator.credentials.get`; `cookie` is the value of a `Set-Cookie` header. */
  begin(): Promise<{ readonly options: object; readonly cookie: string }>;
  /** Throws `login_failed`, whatever is wrong. */
  finish(
    request: Pick<FastifyRequest, 'headers' | 'ip'>,
    login: { readonly response: object; readonly requestId: RequestId },
  ): Promise<NewSession>;
  readonly expiredCookie: string;
}

const refused = (): ApiError =>
  new ApiError('login_failed', {
    message: 'This passkey does not log you in here. Try again, or use your password.',
  });

export function passkeyLogins(deps: PeopleDeps): PasskeyLogins {
  const challenges = loginChallenges<null>(deps, 'passkey');
  return {
    begin: async () => {
      const { challenge, cookie } = challenges.begin(null);
      return { options: await loginOptions(ownRelyingParty(deps), challenge.id), cookie };
    },
    finish: async (request, { response, requestId }) => {
      const relyingParty = ownRelyingParty(deps);
      const comesFrom = unnamedOrigin(deps, request);
      limited(deps.loginAttempts.takeUnnamed(comesFrom));
      const challenge = challenges.open(request.headers);
      const named = readLogin(response);
      if (challenge === null || named === null) throw refused();
      const passkey = await findPresentedPasskey(deps.sql, named.credentialId);
      // A passkey that is found by itself says whose it is.
      if (passkey === null || named.userHandle !== passkey.userId) throw refused();
      const wanted = { challenge: challenge.id, credential: passkey };
      const counter = await verifyLogin(relyingParty, response, wanted).catch((error: unknown) => {
        if (!(error instanceof CeremonyRefused)) throw error;
        const { passkeyId } = passkey;
        deps.logger.warn({ passkey_id: passkeyId, failure: error.message }, 'a passkey was refused');
        throw refused();
      });
      const use = (tx: Parameters<LoginChallenges<null>['use']>[0]) => challenges.use(tx, challenge);
      const begun = await logInAs(deps, passkey, { counter, use, request, requestId });
      deps.loginAttempts.forgiveUnnamed(comesFrom);
      return begun;
    },
    expiredCookie: challenges.expiredCookie,
  };
}

const logInAs = (
  deps: PeopleDeps,
  { userId, accountId, passkeyId }: PresentedPasskey,
  {
    counter,
    use,
    request,
    requestId,
  }: {
    readonly counter: number;
    readonly use: (tx: Parameters<LoginChallenges<null>['use']>[0]) => Promise<boolean>;
    readonly request: Pick<FastifyRequest, 'headers'>;
    readonly requestId: RequestId;
  },
): Promise<NewSession> => {
  const actor = { type: 'user', id: userId, clientId: null };
  return administer(deps, { accountId, mode: 'live', actor, requestId }, async (tx) => {
    const user = await lockUser(tx, accountId, userId);
    if (user === null || user.isDisabled || !(await use(tx))) throw refused();
    if (!(await usePasskey(tx, passkeyId, { counter, nowMs: deps.clock.now() }))) throw refused();
    const begun = await beginSession(tx, deps, { userId, headers: request.headers });
    const { sessionId, expiresAtMs } = begun.session;
    const after = {
      session_id: sessionId,
      user_id: userId,
      expires_at: renderTime(expiresAtMs),
      passkey_id: passkeyId,
    };
    return {
      result: begun,
      audited: { operation: 'logInWithPasskey', target: sessionId, before: null, after },
    };
  });
};
