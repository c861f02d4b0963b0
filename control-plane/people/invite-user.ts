import { ApiError, invalidRequest } from '../../shared/errors/api-error.ts';
import type { UserId } from '../../shared/model/ids.ts';
import { renderTime } from '../../shared/model/time.ts';
import { type Delivery, type Role, type User, userStatusOf } from '../../shared/model/user.ts';
import { renderUser } from '../../shared/wire/api/user.ts';
import { administer } from '../audit/administer.ts';
import type { Transaction } from '../base/database.ts';
import type { Caller } from '../http/caller.ts';
import type { PeopleDeps } from './deps.ts';
import { makeInvitation, type NewInvitation } from './invitation-store.ts';
import { peopleLimits } from './limits.ts';
import { refuseHigherRole } from './people-rights.ts';
import { countUsers, insertUser, lockUser, updateUserState } from './user-store.ts';

export interface InvitedUser {
  readonly user: User;
  readonly invitation: NewInvitation;
  readonly delivery: Delivery;
}

/** Refuses to send by mail alone without a mail server: the invitation would reach nobody. */
export function refuseUndeliverable({ mailer }: Pick<PeopleDeps, 'mailer'>, delivery: Delivery): void {
  if (delivery !== 'mail' || mailer !== null) return;
  throw invalidRequest(
    'delivery',
    'delivery mail needs a mail server: set SMTP_URL and SMTP_FROM of the control plane.',
  );
}

const cameBy = (delivery: Delivery) => (delivery === 'mail' ? 'mail' : 'link');

/** Throws `email_conflict`, and `insufficient_scope` for a role above the caller's own. */
export async function inviteUser(
  tx: Transaction,
  deps: Pick<PeopleDeps, 'random' | 'clock' | 'baseUrl'>,
  {
    caller,
    wanted,
  }: {
    readonly caller: Caller;
    readonly wanted: {
      readonly email: string;
      readonly name: string;
      readonly role: Role;
      readonly delivery: Delivery;
    };
  },
): Promise<InvitedUser> {
  refuseHigherRole(caller, wanted.role);
  const nowMs = deps.clock.now();
  // Two at once may both find the last place, which does no harm.
  if ((await countUsers(tx, caller.accountId)) >= peopleLimits.usersPerAccountMax) {
    throw new ApiError('invalid_request', {
      message: `An account has at most ${peopleLimits.usersPerAccountMax} users.`,
    });
  }
  const { delivery, ...of } = wanted;
  const user: User = {
    ...of,
    userId: deps.random.newId('usr', nowMs),
    accountId: caller.accountId,
    isDisabled: false,
    acceptedAtMs: null,
    invitedBy: caller.actor.id,
    cameBy: cameBy(delivery),
    confirmedAtMs: null,
    totpEnabled: false,
    createdAtMs: nowMs,
    lastLoginAtMs: null,
  };
  if (!(await insertUser(tx, user, null))) throw new ApiError('email_conflict', { param: 'email' });
  return { user, invitation: await makeInvitation(tx, deps, user), delivery };
}

/** A new link for a user who has not accepted yet; the old one ends. */
export const renewInvitation = (
  deps: PeopleDeps,
  caller: Caller,
  { userId, delivery }: { readonly userId: UserId; readonly delivery: Delivery },
): Promise<InvitedUser> =>
  administer(deps, caller, async (tx) => {
    const found = await lockUser(tx, caller.accountId, userId);
    if (found === null) throw new ApiError('user_not_found');
    refuseHigherRole(caller, found.role);
    if (userStatusOf(found) !== 'invited') {
      throw new ApiError('user_state_conflict', {
        message: 'Only a user who has not accepted yet can get a new invitation.',
      });
    }
    // Whoever has the link may become the user: who made the one before is of no account any more.
    const user = { ...found, invitedBy: caller.actor.id, cameBy: cameBy(delivery) } as const;
    await updateUserState(tx, user);
    const invitation = await makeInvitation(tx, deps, user);
    const after = { user_id: userId, invitation_expires_at: renderTime(invitation.expiresAtMs) };
    return {
      result: { user, invitation, delivery },
      audited: { operation: 'renewInvitation', target: userId, before: null, after },
    };
  });

export const renderInvitedUser = ({ user, invitation, delivery }: InvitedUser) => ({
  user: renderUser(user),
  ...(delivery === 'mail' ? {} : { invitation_url: invitation.url }),
  expires_at: renderTime(invitation.expiresAtMs),
});
