import type { FastifyRequest } from 'fastify';
import { ApiError } from '../../shared/errors/api-error.ts';
import type { RequestId } from '../../shared/model/ids.ts';
import { logInAs, type NewSession } from '../people/begin-session.ts';
import type { PeopleDeps } from '../people/deps.ts';
import { counted, unnamedOrigin } from '../people/login-attempts.ts';
import { loginChallenges } from '../sessions/login-challenge.ts';
import { CeremonyRefused, loginOptions, readAssertion, verifyAssertion } from './ceremonies.ts';
import { ownRelyingParty } from './own-relying-party.ts';
import { findPresentedPasskey, usePasskey } from './passkey-store.ts';

/** Logins with a passkey alone: it names its user and was unlocked by them, so it is both factors. */
export interface PasskeyLogins {
  /** For `navigator.credentials.get`; `cookie` is the value of a `Set-Cookie` header. */
  begin(): Promise<{ readonly options: object; readonly cookie: string }>;
  /** Throws `login_failed` for every fault. */
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
    finish: (request, { response, requestId }) => {
      const relyingParty = ownRelyingParty(deps);
      return counted(deps.loginAttempts, unnamedOrigin(deps, request), async () => {
        const challenge = challenges.open(request.headers);
        const named = readAssertion(response);
        if (challenge === null || named === null) throw refused();
        const passkey = await findPresentedPasskey(deps.sql, named.credentialId);
        // A discoverable passkey names its user.
        if (passkey === null || named.userHandle !== passkey.userId) throw refused();
        const { passkeyId } = passkey;
        const wanted = { challenge: challenge.id, credential: passkey };
        const counter = await verifyAssertion(relyingParty, response, wanted).catch((error: unknown) => {
          if (!(error instanceof CeremonyRefused)) throw error;
          deps.logger.warn({ passkey_id: passkeyId, failure: error.message }, 'a passkey was refused');
          throw refused();
        });
        return logInAs(deps, passkey, {
          operation: 'logInWithPasskey',
          headers: request.headers,
          requestId,
          admit: async (tx, user) => {
            if (user === null || !(await challenges.use(tx, challenge))) throw refused();
            if (!(await usePasskey(tx, passkeyId, { counter, nowMs: deps.clock.now() }))) throw refused();
            return { passkey_id: passkeyId };
          },
        });
      });
    },
    expiredCookie: challenges.expiredCookie,
  };
}
