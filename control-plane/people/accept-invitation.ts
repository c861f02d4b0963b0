import type { FastifyRequest } from 'fastify';
import type { Static } from 'typebox';
import { sha256Hex } from '../../shared/crypto/content-hash.ts';
import { ApiError, invalidRequest } from '../../shared/errors/api-error.ts';
import type { AccountId, RequestId, UserId } from '../../shared/model/ids.ts';
import type { User } from '../../shared/model/user.ts';
import { parseEmail } from '../../shared/wire/api/email.ts';
import { type InvitationAcceptance, renderUser } from '../../shared/wire/api/user.ts';
import { lockAccount } from '../accounts/account-store.ts';
import { administer } from '../audit/administer.ts';
import type { Transaction } from '../base/database.ts';
import { beginSession, type NewSession } from './begin-session.ts';
import type { PeopleDeps } from './deps.ts';
import { findInvitation, takeInvitation } from './invitation-store.ts';
import {
  countUsers,
  insertUser,
  isVouchedFor,
  lockUser,
  setPassword,
  updateUserState,
} from './user-store.ts';

type Body = Static<typeof InvitationAcceptance>;

/**
 * Makes the holder of the link the user, with a name and a password of their choice, and begins a session.
 * The link works once; that of a first owner only while the account has no user. Throws
 * `invitation_not_found`.
 */
export async function acceptInvitation(
  deps: PeopleDeps,
  { headers }: Pick<FastifyRequest, 'headers'>,
  { body, requestId }: { readonly body: Body; readonly requestId: RequestId },
): Promise<NewSession> {
  const found = await findInvitation(deps.sql, body.token, deps.clock.now());
  if (found === null) throw new ApiError('invitation_not_found');
  const { accountId } = found;
  const userId = found.userId ?? deps.random.newId('usr', deps.clock.now());
  const firstOwnerEmail = found.userId === null ? emailOfFirstOwner(body) : null;
  // Before the transaction, which must not wait for the hash. Only holders of a link cause this work, so no
  // flood of strangers is queued before it.
  const lane = { name: 'vouched', owner: sha256Hex(body.token) } as const;
  const passwordHash = await deps.passwords.hash(body.password, lane);
  const actor = { type: 'user', id: userId, clientId: null };
  return administer(deps, { accountId, mode: 'live', actor, requestId }, async (tx) => {
    const { before, user } =
      firstOwnerEmail === null
        ? await lockInvited(tx, deps, { accountId, userId, body })
        : await makeFirstOwner(tx, deps, { accountId, userId, body, email: firstOwnerEmail });
    if (!(await takeInvitation(tx, body.token, deps.clock.now()))) throw new ApiError('invitation_not_found');
    await setPassword(tx, userId, passwordHash);
    const result = await beginSession(tx, deps, { userId, headers });
    return {
      result,
      audited: {
        operation: 'acceptInvitation',
        target: userId,
        before: before === null ? null : renderUser(before),
        after: renderUser(user),
      },
    };
  });
}

function emailOfFirstOwner({ email }: Body): string {
  if (email === undefined) throw invalidRequest('email', 'email is required to become the first owner.');
  return parseEmail(email);
}

interface Accepted {
  readonly before: User | null;
  readonly user: User;
}

interface Acceptance {
  readonly accountId: AccountId;
  readonly userId: UserId;
  readonly body: Body;
}

async function lockInvited(
  tx: Transaction,
  deps: Pick<PeopleDeps, 'clock'>,
  { accountId, userId, body }: Acceptance,
): Promise<Accepted> {
  await lockAccount(tx, accountId);
  const before = await lockUser(tx, accountId, userId);
  if (before === null || before.isDisabled) throw new ApiError('invitation_not_found');
  return { before, user: await becomePerson(tx, deps, { ...before, name: body.name }) };
}

/**
 * Makes an invited user a person of the account; both rows are locked, so that of two who come at once one
 * comes first. Whom a key invited into an account that has people waits for one of them to confirm it, or a
 * key alone could be as many people as a gate asks for. So does whom such a person has invited.
 */
export async function becomePerson<Invited extends User>(
  tx: Transaction,
  { clock }: Pick<PeopleDeps, 'clock'>,
  invited: Invited,
): Promise<Invited> {
  const nowMs = clock.now();
  const confirmedAtMs = (await isVouchedFor(tx, invited)) ? nowMs : null;
  const user: Invited = { ...invited, acceptedAtMs: nowMs, confirmedAtMs };
  await updateUserState(tx, user);
  return user;
}

async function makeFirstOwner(
  tx: Transaction,
  { clock }: Pick<PeopleDeps, 'clock'>,
  { accountId, userId, body, email }: Acceptance & { readonly email: string },
): Promise<Accepted> {
  await lockAccount(tx, accountId);
  if ((await countUsers(tx, accountId)) > 0) throw new ApiError('invitation_not_found');
  const nowMs = clock.now();
  const user: User = {
    userId,
    accountId,
    email,
    name: body.name,
    role: 'owner',
    isDisabled: false,
    acceptedAtMs: nowMs,
    invitedBy: null,
    cameBy: 'first_owner',
    confirmedAtMs: nowMs,
    totpEnabled: false,
    createdAtMs: nowMs,
    lastLoginAtMs: null,
  };
  await insertUser(tx, user, null);
  return { before: null, user };
}
