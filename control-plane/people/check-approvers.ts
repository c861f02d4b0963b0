import { type ApiError, invalidRequest } from '../../shared/errors/api-error.ts';
import type { ApprovalRule } from '../../shared/model/constraints.ts';
import type { AccountId } from '../../shared/model/ids.ts';
import { approverRoles, type User, userStatusOf } from '../../shared/model/user.ts';
import type { Database, Transaction } from '../base/database.ts';
import { relyingPartyOf } from './relying-party.ts';
import { findApprovers, findUsers } from './user-store.ts';

const at = 'constraints.approvals';

/**
 * Refuses a rule about answers that this account cannot follow: approvals under it would wait in vain. Throws
 * `invalid_request` that says what to do.
 */
export async function refuseImpossibleApprovers(
  sql: Database | Transaction,
  { accountId, baseUrl }: { readonly accountId: AccountId; readonly baseUrl: string },
  { approvers, passkey }: Pick<ApprovalRule, 'approvers' | 'passkey'>,
): Promise<void> {
  if (passkey && relyingPartyOf(baseUrl) === null) {
    throw invalidRequest(
      `${at}.passkey`,
      `${at}.passkey needs a PUBLIC_URL with a host name and https, or localhost: browsers keep passkeys for no other.`,
    );
  }
  if (approvers === null) return;
  const { roles, users, count } = approvers;
  const named = users === null ? [] : await findUsers(sql, accountId, users);
  for (const [place, userId] of (users ?? []).entries()) {
    const user = named.find((each) => each.userId === userId);
    if (user === undefined || !mayAnswer(user)) throw unfit(`${at}.approvers.users.${place}`, user);
  }
  // More than the largest count is as good as any number.
  const found =
    users !== null && roles === null ? [] : await findApprovers(sql, accountId, roles ?? approverRoles);
  const able = new Set([...named.filter(isActive), ...found].map(({ userId }) => userId));
  if (able.size >= count) return;
  throw invalidRequest(
    `${at}.approvers.count`,
    `${at}.approvers.count is ${count}, and ${able.size} active ${able.size === 1 ? 'person' : 'people'} of this account could answer. ` +
      'Invite people, wait until they have accepted, or choose a smaller count or other roles.',
  );
}

const mayAnswer = ({ role }: User): boolean => approverRoles.some((each) => each === role);
const isActive = (user: User): boolean => userStatusOf(user) === 'active';

const unfit = (param: string, user: User | undefined): ApiError =>
  invalidRequest(
    param,
    user === undefined
      ? `${param} is no user of this account. GET /users lists them.`
      : `${param} has the role ${user.role}, which may not answer approvals. Change the role to approver first.`,
  );
