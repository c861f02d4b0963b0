import type { FastifyRequest } from 'fastify';
import { ApiError, invalidRequest } from '../../shared/errors/api-error.ts';
import { must } from '../../shared/errors/assert.ts';
import type { PasskeyId, SessionId, UserId } from '../../shared/model/ids.ts';
import type { Passkey } from '../../shared/model/passkey.ts';
import type { Page, PagePlace } from '../../shared/wire/api/paging.ts';
import { renderPasskey } from '../../shared/wire/api/passkey.ts';
import { administer } from '../audit/administer.ts';
import type { Transaction } from '../base/database.ts';
import type { Caller } from '../http/caller.ts';
import { checkOwnPassword } from '../people/check-own-password.ts';
import type { PeopleDeps } from '../people/deps.ts';
import { administratorOfPeople } from '../people/people-rights.ts';
import { lockUser, type UserWithSecrets } from '../people/user-store.ts';
import { loginChallenges } from '../sessions/login-challenge.ts';
import { CeremonyRefused, publicJwkOf, registrationOptions, verifyRegistration } from './ceremonies.ts';
import { passkeysLimits } from './limits.ts';
import { ownRelyingParty } from './own-relying-party.ts';
import {
  deletePasskey,
  hasIdentity,
  insertPasskey,
  listPasskeys,
  readPasskeys,
  renamePasskey,
} from './passkey-store.ts';

/** A registration belongs to the session that began it. */
interface RegistrationState {
  readonly userId: UserId;
  readonly sessionId: SessionId;
}

/** The logged-in user's own passkeys. */
export interface OwnPasskeys {
  list(caller: Caller, page: PagePlace): Promise<Page<Passkey>>;
  /**
   * For `navigator.credentials.create`. Needs the password, so that a person at an unlocked browser cannot
   * add a key. `cookie` is the value of a `Set-Cookie` header.
   */
  begin(
    request: Pick<FastifyRequest, 'headers' | 'ip'>,
    wanted: { readonly caller: Caller; readonly password: string },
  ): Promise<{ readonly options: object; readonly cookie: string }>;
  add(
    request: Pick<FastifyRequest, 'headers'>,
    wanted: { readonly caller: Caller; readonly name: string; readonly response: object },
  ): Promise<Passkey>;
  rename(caller: Caller, passkeyId: PasskeyId, name: string): Promise<Passkey>;
  /** Throws `user_state_conflict` for the last way to log in. */
  remove(caller: Caller, passkeyId: PasskeyId): Promise<void>;
  readonly expiredCookie: string;
}

export function ownPasskeys(deps: PeopleDeps): OwnPasskeys {
  const challenges = loginChallenges<RegistrationState>(deps, 'new_passkey');
  return {
    list: (caller, page) => readPasskeys(deps.sql, personOf(caller).userId, page),
    begin: async (request, { caller, password }) => {
      const relyingParty = ownRelyingParty(deps);
      const { user } = await checkOwnPassword(deps, request, { caller, field: 'password', password });
      const existing = await listPasskeys(deps.sql, user.userId);
      refuseTooMany(existing);
      const { challenge, cookie } = challenges.begin(personOf(caller));
      const options = await registrationOptions(relyingParty, user, { challenge: challenge.id, existing });
      return { options, cookie };
    },
    add: async (request, { caller, name, response }) => {
      const relyingParty = ownRelyingParty(deps);
      const challenge = challenges.open(request.headers);
      const { userId, sessionId } = personOf(caller);
      if (challenge?.state.userId !== userId || challenge.state.sessionId !== sessionId) {
        throw refused('This was begun in another session, or too long ago. Begin again.');
      }
      const credential = await verifyRegistration(relyingParty, response, challenge.id).catch(
        (error: unknown) => {
          if (!(error instanceof CeremonyRefused)) throw error;
          deps.logger.warn({ user_id: userId, failure: error.message }, 'a new passkey was refused');
          throw refused('response is not that of a new passkey for this service.');
        },
      );
      return changeOwn(deps, caller, async (tx) => {
        if (!(await challenges.use(tx, challenge))) throw refused('This was used before. Begin again.');
        refuseTooMany(await listPasskeys(tx, userId));
        const nowMs = deps.clock.now();
        const passkey: Passkey = {
          passkeyId: deps.random.newId('pkey', nowMs),
          userId,
          credentialId: credential.credentialId,
          name,
          createdAtMs: nowMs,
          lastUsedAtMs: null,
        };
        if (!(await insertPasskey(tx, passkey, credential))) {
          throw refused('This passkey is registered already.');
        }
        const publicKey = await publicJwkOf(credential.publicKey);
        return {
          operation: 'addPasskey',
          before: null,
          after: passkey,
          // For those who verify what it signs, long after it was removed.
          also: { credential_id: credential.credentialId, public_key: publicKey },
          result: passkey,
        };
      });
    },
    rename: (caller, passkeyId, name) =>
      changeOwn(deps, caller, async (tx, { userId }) => {
        const before = await ownPasskey(tx, userId, passkeyId);
        await renamePasskey(tx, passkeyId, name);
        const after = { ...before, name };
        return { operation: 'renamePasskey', before, after, result: after };
      }),
    remove: (caller, passkeyId) =>
      changeOwn(deps, caller, async (tx, user) => {
        const before = await ownPasskey(tx, user.userId, passkeyId);
        await deletePasskey(tx, passkeyId);
        await refuseNoLogin(tx, user);
        return { operation: 'removePasskey', before, after: null, result: undefined };
      }),
    expiredCookie: challenges.expiredCookie,
  };
}

const personOf = ({ person }: Caller) => must(person, 'the route asks for a session');

const refused = (message: string): ApiError => invalidRequest('response', message);

function refuseTooMany(existing: readonly Passkey[]): void {
  const { passkeysPerUserMax: max } = passkeysLimits;
  if (existing.length < max) return;
  throw new ApiError('user_state_conflict', { message: `You have ${max} passkeys. Remove one first.` });
}

/** A user without a password and identity provider needs a remaining passkey. */
async function refuseNoLogin(tx: Transaction, { userId, passwordHash }: UserWithSecrets): Promise<void> {
  if (passwordHash !== null || (await listPasskeys(tx, userId)).length > 0) return;
  if (await hasIdentity(tx, userId)) return;
  throw new ApiError('user_state_conflict', { message: 'This is your last way to log in.' });
}

/** Throws `passkey_not_found`, also for other users' passkeys. */
async function ownPasskey(tx: Transaction, userId: UserId, passkeyId: PasskeyId): Promise<Passkey> {
  const own = (await listPasskeys(tx, userId)).find((each) => each.passkeyId === passkeyId);
  if (own === undefined) throw new ApiError('passkey_not_found');
  return own;
}

interface OwnChange<T> {
  readonly operation: 'addPasskey' | 'renamePasskey' | 'removePasskey';
  readonly before: Passkey | null;
  readonly after: Passkey | null;
  /** Further members of the state afterwards. */
  readonly also?: object;
  readonly result: T;
}

/** A change of the caller's passkeys; their own row is locked meanwhile. */
const changeOwn = <T>(
  deps: PeopleDeps,
  caller: Caller,
  work: (tx: Transaction, user: UserWithSecrets) => Promise<OwnChange<T>>,
): Promise<T> =>
  administer(deps, administratorOfPeople(caller), async (tx) => {
    const { userId } = personOf(caller);
    const user = await lockUser(tx, caller.accountId, userId);
    if (user === null) throw new ApiError('unauthorized');
    const { operation, before, after, also, result } = await work(tx, user);
    const { passkeyId } = must(after ?? before, 'something was changed');
    const state = (passkey: Passkey | null) =>
      passkey === null ? null : { ...renderPasskey(passkey), user_id: userId };
    return {
      result,
      audited: {
        operation,
        target: passkeyId,
        before: state(before),
        after: after === null ? null : { ...state(after), ...also },
      },
    };
  });
