import { ApiError } from '../../shared/errors/api-error.ts';
import { must } from '../../shared/errors/assert.ts';
import type { UserId } from '../../shared/model/ids.ts';
import { holdsScope } from '../../shared/model/scopes.ts';
import { type User, userStatusOf } from '../../shared/model/user.ts';
import { renderUser } from '../../shared/wire/api/user.ts';
import { administer } from '../audit/administer.ts';
import type { Caller } from '../http/caller.ts';
import type { PeopleDeps } from './deps.ts';
import { findUsers, lockUser, updateUserState } from './user-store.ts';

/**
 * A person says that this user is one, too, who answers approvals from then on. A repeat changes nothing. By
 * somebody who is confirmed: two whom one key invited would confirm each other. Throws
 * `insufficient_scope`, and `user_state_conflict` for a user who has not accepted.
 */
export async function confirmUser(deps: PeopleDeps, caller: Caller, userId: UserId): Promise<User> {
  if (!holdsScope(caller.scopes, 'users:manage')) {
    throw new ApiError('insufficient_scope', { message: 'Only owners and admins confirm people.' });
  }
  return administer(deps, caller, async (tx) => {
    const user = await lockUser(tx, caller.accountId, userId);
    if (user === null) throw new ApiError('user_not_found');
    if (user.confirmedAtMs !== null) return { result: user, audited: null };
    const { userId: by } = must(caller.person, 'the route asks for a session');
    const [confirmer] = await findUsers(tx, caller.accountId, [by]);
    if (confirmer === undefined || confirmer.confirmedAtMs === null) {
      throw new ApiError('insufficient_scope', {
        message: 'Another person has to confirm you first: an owner or admin who is confirmed.',
      });
    }
    if (userStatusOf(user) !== 'active') {
      throw new ApiError('user_state_conflict', {
        message: 'Only a user who has accepted the invitation, and is not disabled, can be confirmed.',
      });
    }
    const result: User = { ...user, confirmedAtMs: deps.clock.now() };
    await updateUserState(tx, result);
    return {
      result,
      audited: {
        operation: 'confirmUser',
        target: userId,
        before: renderUser(user),
        after: renderUser(result),
      },
    };
  });
}
