import type { Static } from 'typebox';
import { ApiError } from '../../shared/errors/api-error.ts';
import type { UserId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { type Role, type User, userStatusOf } from '../../shared/model/user.ts';
import { renderUser, type UserUpdate } from '../../shared/wire/api/user.ts';
import { administer } from '../audit/administer.ts';
import type { Transaction } from '../base/database.ts';
import type { Caller } from '../http/caller.ts';
import { deleteSessionsOf } from '../sessions/session-store.ts';
import type { PeopleDeps } from './deps.ts';
import { refuseHigherRole } from './people-rights.ts';
import { lockUserAndManagers, removeUser, updateUserState } from './user-store.ts';

/**
 * Changes name, role and status. A new role and the end of access end all sessions of the user. Throws
 * `last_owner` where the account would be left without an active owner.
 */
export const updateUser = (
  deps: PeopleDeps,
  caller: Caller,
  { userId, body }: { readonly userId: UserId; readonly body: Static<typeof UserUpdate> },
): Promise<User> =>
  administer(deps, caller, async (tx) => {
    const { user, staysAs } = await lockForChange(tx, caller, userId);
    if (body.role !== undefined) refuseHigherRole(caller, body.role);
    const next: User = {
      ...user,
      name: body.name ?? user.name,
      role: body.role ?? user.role,
      isDisabled: body.status === undefined ? user.isDisabled : body.status === 'disabled',
    };
    if (staysAs !== null && (next.isDisabled || !staysAs.includes(next.role)))
      throw new ApiError('last_owner');
    await updateUserState(tx, next);
    if (next.role !== user.role || next.isDisabled) await deleteSessionsOf(tx, userId);
    return {
      result: next,
      audited: {
        operation: 'updateUser',
        target: userId,
        before: renderUser(user),
        after: renderUser(next),
      },
    };
  });

/** Removes a user and their data for good; the audit keeps their actions. */
export const deleteUser = (deps: PeopleDeps, caller: Caller, userId: UserId): Promise<UnixMillis> =>
  administer(deps, caller, async (tx) => {
    const { user, staysAs } = await lockForChange(tx, caller, userId);
    if (staysAs !== null) throw new ApiError('last_owner');
    await removeUser(tx, userId);
    const before = renderUser(user);
    return {
      result: deps.clock.now(),
      audited: { operation: 'deleteUser', target: userId, before, after: null },
    };
  });

async function lockForChange(
  tx: Transaction,
  caller: Caller,
  userId: UserId,
): Promise<{ readonly user: User; readonly staysAs: readonly Role[] | null }> {
  const { user, others } = await lockUserAndManagers(tx, caller.accountId, userId);
  if (user === null) throw new ApiError('user_not_found');
  refuseHigherRole(caller, user.role);
  return { user, staysAs: userStatusOf(user) === 'active' ? rolesToStayIn(user, others) : null };
}

/**
 * Null: an active user may go. The last owner stays; and so does the last owner or admin who is confirmed,
 * for nobody else could confirm the others.
 */
function rolesToStayIn(user: User, others: readonly User[]): readonly Role[] | null {
  if (user.role === 'owner' && !others.some(({ role }) => role === 'owner')) return ['owner'];
  const isConfirmer = ({ role, confirmedAtMs }: User) =>
    (role === 'owner' || role === 'admin') && confirmedAtMs !== null;
  return isConfirmer(user) && others.length > 0 && !others.some(isConfirmer) ? ['owner', 'admin'] : null;
}
