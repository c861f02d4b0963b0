import type { Static } from 'typebox';
import { ApiError } from '../../shared/errors/api-error.ts';
import type { UserId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { type User, userStatusOf } from '../../shared/model/user.ts';
import { renderUser, type UserUpdate } from '../../shared/wire/user.ts';
import { administer } from '../audit/administer.ts';
import type { Transaction } from '../base/database.ts';
import type { Caller } from '../http/caller.ts';
import { deleteSessionsOf } from '../sessions/session-store.ts';
import type { PeopleDeps } from './deps.ts';
import { refuseHigherRole } from './own-people.ts';
import { lockUserAndOwners, removeUser, updateUserState } from './user-store.ts';

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
    const { user, isLastOwner } = await lockForChange(tx, caller, userId);
    if (body.role !== undefined) refuseHigherRole(caller, body.role);
    const next: User = {
      ...user,
      name: body.name ?? user.name,
      role: body.role ?? user.role,
      isDisabled: body.status === undefined ? user.isDisabled : body.status === 'disabled',
    };
    const losesOwner = next.role !== 'owner' || next.isDisabled;
    if (isLastOwner && losesOwner) throw new ApiError('last_owner');
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
    const { user, isLastOwner } = await lockForChange(tx, caller, userId);
    if (isLastOwner) throw new ApiError('last_owner');
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
): Promise<{ readonly user: User; readonly isLastOwner: boolean }> {
  const { user, otherActiveOwners } = await lockUserAndOwners(tx, caller.accountId, userId);
  if (user === null) throw new ApiError('user_not_found');
  refuseHigherRole(caller, user.role);
  const isActiveOwner = user.role === 'owner' && userStatusOf(user) === 'active';
  return { user, isLastOwner: isActiveOwner && otherActiveOwners === 0 };
}
