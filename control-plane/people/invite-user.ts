import { ApiError } from '../../shared/errors/api-error.ts';
import type { UserId } from '../../shared/model/ids.ts';
import { renderTime } from '../../shared/model/time.ts';
import { type Role, type User, userStatusOf } from '../../shared/model/user.ts';
import { renderUser } from '../../shared/wire/user.ts';
import { administer } from '../audit/administer.ts';
import type { Transaction } from '../base/database.ts';
import type { Caller } from '../http/caller.ts';
import type { PeopleDeps } from './deps.ts';
import { makeInvitation, type NewInvitation } from './invitation-store.ts';
import { peopleLimits } from './limits.ts';
import { refuseHigherRole } from './own-people.ts';
import { countUsers, insertUser, lockUser } from './user-store.ts';

export interface InvitedUser {
  readonly user: User;
  readonly invitation: NewInvitation;
}

/** Throws `email_conflict`, and `insufficient_scope` for a role above the caller's own. */
export async function inviteUser(
  tx: Transaction,
  deps: Pick<PeopleDeps, 'random' | 'clock' | 'baseUrl'>,
  {
    caller,
    wanted,
  }: {
    readonly caller: Caller;
    readonly wanted: { readonly email: string; readonly name: string; readonly role: Role };
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
  const user: User = {
    ...wanted,
    userId: deps.random.newId('usr', nowMs),
    accountId: caller.accountId,
    isDisabled: false,
    acceptedAtMs: null,
    totpEnabled: false,
    createdAtMs: nowMs,
    lastLoginAtMs: null,
  };
  if (!(await insertUser(tx, user, null))) throw new ApiError('email_conflict', { param: 'email' });
  return { user, invitation: await makeInvitation(tx, deps, user) };
}

/** A new link for a user who has not accepted yet; the old one ends. */
export const renewInvitation = (deps: PeopleDeps, caller: Caller, userId: UserId): Promise<InvitedUser> =>
  administer(deps, caller, async (tx) => {
    const user = await lockUser(tx, caller.accountId, userId);
    if (user === null) throw new ApiError('user_not_found');
    refuseHigherRole(caller, user.role);
    if (userStatusOf(user) !== 'invited') {
      throw new ApiError('user_state_conflict', {
        message: 'Only a user who has not accepted yet can get a new invitation.',
      });
    }
    const invitation = await makeInvitation(tx, deps, user);
    const after = { user_id: userId, invitation_expires_at: renderTime(invitation.expiresAtMs) };
    return {
      result: { user, invitation },
      audited: { operation: 'renewInvitation', target: userId, before: null, after },
    };
  });

export const renderInvitedUser = ({ user, invitation }: InvitedUser) => ({
  user: renderUser(user),
  invitation_url: invitation.url,
  expires_at: renderTime(invitation.expiresAtMs),
});
