/**
 * Room `control-plane/oidc`: logins with an identity provider: `identity-provider.ts` speaks the protocol,
 * `identity-store.ts` knows which user an identity is.
 */

import type { FastifyRequest } from 'fastify';
import type { Static } from 'typebox';
import { ApiError } from '../../shared/errors/api-error.ts';
import type { RequestId } from '../../shared/model/ids.ts';
import { canonicalEmail } from '../../shared/wire/api/email.ts';
import type { OidcLogin, OidcLoginBeginning } from '../../shared/wire/api/oidc.ts';
import type { Transaction } from '../base/database.ts';
import { networkOf } from '../http/address-limit.ts';
import { becomePerson } from '../people/accept-invitation.ts';
import { logInAs, type NewSession } from '../people/begin-session.ts';
import { chooseAccount } from '../people/choose-account.ts';
import { endInvitation } from '../people/invitation-store.ts';
import { LeastServed } from '../people/least-served.ts';
import { peopleLimits } from '../people/limits.ts';
import { counted, unnamedOrigin } from '../people/login-attempts.ts';
import type { UserWithSecrets } from '../people/user-store.ts';
import { loginChallenges } from '../sessions/login-challenge.ts';
import type { OidcDeps } from './deps.ts';
import {
  type IdentityProvider,
  IdentityRefused,
  type ProvenIdentity,
  ProviderAway,
} from './identity-provider.ts';
import {
  findLinkedUsers,
  findUsersToLink,
  type LinkCandidate,
  linkIdentity,
  type OidcCandidate,
} from './identity-store.ts';
import { oidcLimits } from './limits.ts';
import { parseReturnTo } from './return-to.ts';

/** The sealed state in the browser, from the button to its return. */
interface OidcState {
  readonly nonce: string;
  readonly codeVerifier: string;
  readonly returnTo: string;
  /** The chosen account of a person with several; null: none. */
  readonly accountId: string | null;
}

/** Logins with the identity provider of the settings (docs/people.md). */
export interface OidcLogins {
  /** Sends the browser to the provider; `cookie` is the value of a `Set-Cookie` header. */
  begin(
    body: Static<typeof OidcLoginBeginning>,
  ): Promise<{ readonly authorizationUrl: string; readonly cookie: string }>;
  /** Begins a session for the returning person. Throws `login_failed` with the remedy. */
  finish(
    request: Pick<FastifyRequest, 'headers' | 'ip'>,
    login: { readonly body: Static<typeof OidcLogin>; readonly requestId: RequestId },
  ): Promise<{ readonly begun: NewSession; readonly returnTo: string }>;
  readonly expiredCookie: string;
}

export function oidcLogins(deps: OidcDeps): OidcLogins {
  const { origin } = new URL(deps.baseUrl);
  const redirectUri = `${origin}/console/log-in/oidc`;
  const challenges = loginChallenges<OidcState>(deps, 'oidc');
  const checks = new LeastServed(deps.clock, {
    atOnceMax: oidcLimits.checksAtOnceMax,
    atOncePerOwnerMax: oidcLimits.checksPerNetworkMax,
    waitingMax: oidcLimits.checksWaitingMax,
    waitingPerOwnerMax: oidcLimits.checksWaitingPerNetworkMax,
    ownersMax: oidcLimits.networksMax,
    runsCountedMax: peopleLimits.runsCountedMax,
    rememberedMs: oidcLimits.networkKeptMs,
  });
  const randomText = () => Buffer.from(deps.random.bytes(32)).toString('base64url');

  return {
    begin: async ({ return_to: returnTo = '/console/', account_id: accountId = null }) => {
      const provider = configured(deps);
      const state = { nonce: randomText(), codeVerifier: randomText(), accountId };
      const { challenge, cookie } = challenges.begin({ ...state, returnTo: parseReturnTo(returnTo, origin) });
      const authorizationUrl = await asked(deps, provider, () =>
        provider.authorizationUrl(redirectUri, { state: challenge.id, ...state }),
      );
      return { authorizationUrl, cookie };
    },
    finish: (request, { body, requestId }) => {
      const provider = configured(deps);
      return counted(deps.loginAttempts, unnamedOrigin(deps, request), async () => {
        const challenge = challenges.open(request.headers);
        if (challenge === null) {
          throw refused('This login was begun in another browser, or too long ago. Log in again.');
        }
        const { id: state, state: begun } = challenge;
        const identity = await checks.run(networkOf(request.ip), () =>
          asked(deps, provider, () =>
            provider.identify(new URLSearchParams(body), { ...begun, state, redirectUri }),
          ),
        );
        const user = await findUser(deps, provider, identity, begun.accountId);
        // The second factor of this service is not asked for: whether the provider demands one is its own
        // policy (docs/people.md).
        const session = await logInAs(deps, user, {
          operation: 'logInWithOidc',
          headers: request.headers,
          requestId,
          isFirst: user.isInvited,
          admit: async (tx, locked) => {
            if (locked === null) throw refused('Your access here has ended. Ask an owner or admin.');
            if (!(await challenges.use(tx, challenge)))
              throw refused('This login was used before. Log in again.');
            const linked = await linkOrRefuse(tx, deps, provider, { identity, user });
            return locked.acceptedAtMs === null ? { ...linked, ...(await join(tx, deps, locked)) } : linked;
          },
        });
        checks.forgive(networkOf(request.ip));
        return { begun: session, returnTo: begun.returnTo };
      });
    },
    expiredCookie: challenges.expiredCookie,
  };
}

const refused = (message: string): ApiError => new ApiError('login_failed', { message });

function configured({ identityProvider }: OidcDeps): IdentityProvider {
  if (identityProvider !== null) return identityProvider;
  throw new ApiError('invalid_request', {
    message: 'This service has no identity provider: OIDC_ISSUER is not set. Log in with a password.',
  });
}

/** Explains failures of the provider to the person; the log has the causes. */
async function asked<T>(
  { logger }: Pick<OidcDeps, 'logger'>,
  { name, issuer }: IdentityProvider,
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof ProviderAway) {
      const why = error.cause instanceof Error ? error.cause.message : null;
      logger.warn({ issuer, failure: error.message, why }, 'the identity provider could not be asked');
      throw new ApiError('service_unavailable', {
        message: `${name} cannot be asked now. Log in with your password, or try again shortly.`,
      });
    }
    if (error instanceof IdentityRefused) {
      logger.warn({ issuer, failure: error.message }, 'a login with the identity provider was refused');
      throw refused(`The answer of ${name} is not valid, or was used before. Log in again.`);
    }
    throw error;
  }
}

/**
 * The user who has this identity, else the one who has its verified address and no other identity, else the
 * one who is invited by it. Of several
 * candidates none is guessed: inviting an address into one's own account must not capture its login. Throws
 * `login_failed`, and `invalid_request` for `account_id` where the person has to choose.
 */
async function findUser(
  { sql, clock }: Pick<OidcDeps, 'sql' | 'clock'>,
  { name, issuer }: IdentityProvider,
  identity: ProvenIdentity,
  accountId: string | null,
): Promise<OidcCandidate & Pick<LinkCandidate, 'isInvited'>> {
  const linked = await findLinkedUsers(sql, identity, accountId);
  if (linked.length > 0) return { ...onlyOne(linked), isInvited: false };
  const { verifiedEmail } = identity;
  if (verifiedEmail === null) {
    throw refused(`${name} does not say that it has verified your email address. Verify it there first.`);
  }
  const parsed = canonicalEmail(verifiedEmail);
  if ('fault' in parsed) {
    throw refused(`${name} has verified an email address that cannot be used here. Change it there first.`);
  }
  const { email } = parsed;
  const users = await findUsersToLink(sql, { issuer, email, nowMs: clock.now() }, accountId);
  const free = users.filter(({ isTaken }) => !isTaken);
  const known = free.filter(({ isInvited }) => !isInvited);
  if (free.length > 0) return onlyOne(known.length > 0 ? known : free);
  throw refused(
    users.length === 0
      ? `No active user here has the address ${email}, and no invitation is open for it. Ask an owner or admin for one.`
      : `The user with the address ${email} is linked to another login of ${name}. Ask an owner or admin.`,
  );
}

function onlyOne<Candidate extends OidcCandidate>(users: readonly Candidate[]): Candidate {
  const [first, ...others] = users;
  if (first !== undefined && others.length === 0) return first;
  throw chooseAccount(users);
}

/** Accepts the invitation of a user who logs in before opening its link, which nobody opens any more. */
async function join(
  tx: Transaction,
  deps: Pick<OidcDeps, 'clock'>,
  invited: UserWithSecrets,
): Promise<Readonly<Record<string, string>>> {
  await becomePerson(tx, deps, { ...invited, cameBy: 'oidc' });
  if (!(await endInvitation(tx, invited.userId, deps.clock.now())))
    throw refused('Your invitation has ended. Ask an owner or admin for another one.');
  return { accepted: 'invitation' };
}

/** Links the user to the identity, or checks the existing link. Returns members for the audit. */
async function linkOrRefuse(
  tx: Transaction,
  { clock }: Pick<OidcDeps, 'clock'>,
  { name }: IdentityProvider,
  { identity, user }: { readonly identity: ProvenIdentity; readonly user: OidcCandidate },
): Promise<Readonly<Record<string, string>>> {
  const { issuer, subject } = identity;
  const link = await linkIdentity(tx, identity, { userId: user.userId, nowMs: clock.now() });
  if (link === 'of another')
    throw refused(`You are linked to another login of ${name}. Ask an owner or admin.`);
  // From now on this identity is the user, whatever address it has.
  return link === 'new' ? { issuer, linked_subject: subject } : { issuer };
}
