import { type ApiError, invalidRequest } from '../../shared/errors/api-error.ts';
import type { ApprovalRule, ApproverRule } from '../../shared/model/constraints.ts';
import type { AccountId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { approverRoles, type User } from '../../shared/model/user.ts';
import type { Database, Transaction } from '../base/database.ts';
import { findOnePeople, type OnePeople, unknownMaker } from './one-people.ts';
import { relyingPartyOf } from './relying-party.ts';
import { findConfirmed, findUsers } from './user-store.ts';

const at = 'constraints.approvals';

interface Service {
  readonly accountId: AccountId;
  readonly baseUrl: string;
  readonly nowMs: UnixMillis;
}

/**
 * Refuses a rule about answers that this account cannot follow: approvals under it would wait in vain. Throws
 * `invalid_request` that says what to do.
 */
export async function refuseImpossibleApprovers(
  sql: Database | Transaction,
  { accountId, baseUrl, nowMs }: Service,
  { approvers, passkey }: Pick<ApprovalRule, 'approvers' | 'passkey'>,
): Promise<void> {
  if (passkey && relyingPartyOf(baseUrl) === null) {
    throw invalidRequest(
      `${at}.passkey`,
      `${at}.passkey needs a PUBLIC_URL with a host name and https, or localhost: browsers keep passkeys for no other.`,
    );
  }
  if (approvers === null) return;
  const { users, count, independent } = approvers;
  const named = users === null ? [] : await findUsers(sql, accountId, users);
  for (const [place, userId] of (users ?? []).entries()) {
    const user = named.find((each) => each.userId === userId);
    if (user === undefined || !mayAnswer(user)) throw unfit(`${at}.approvers.users.${place}`, user);
  }
  const able = countAble(approvers, await readAnswering(sql, accountId, nowMs));
  if (able >= count) return;
  throw invalidRequest(
    `${at}.approvers.count`,
    `${at}.approvers.count is ${count}, and ${able} active ${able === 1 ? 'person' : 'people'} of this account could answer. ` +
      'Invite people, wait until they have accepted and are confirmed, or choose a smaller count or other roles.' +
      (independent
        ? ' With independent, people whose links could be read are one with whoever read them, and so with the keys that ask: mail the links without showing them, or let people log in with OIDC first.'
        : ''),
  );
}

/** The people of an account who may answer approvals, and who of them is one person with whom. */
export interface Answering {
  readonly people: readonly User[];
  readonly one: OnePeople;
}

export async function readAnswering(
  sql: Database | Transaction,
  accountId: AccountId,
  nowMs: UnixMillis,
): Promise<Answering> {
  const people = (await findConfirmed(sql, accountId)).filter(mayAnswer);
  return { people, one: await findOnePeople(sql, accountId, { nowMs }) };
}

/**
 * How many different people could answer under this rule, whoever asks: the most that one asker leaves. With
 * `independent` and `not_requester` whoever asks by a key is one with those whose links the key, or a maker
 * of it, could read. So one of them does not count unless somebody else may ask.
 */
export function countAble(rule: ApproverRule, { people, one }: Answering): number {
  const { roles, users, notRequester, independent } = rule;
  const able = people.filter(
    ({ userId, role }) =>
      (roles === null && users === null) ||
      roles?.some((each) => each === role) === true ||
      users?.includes(userId) === true,
  );
  if (!independent) return able.length;
  const counted = new Set(able.map(({ userId }) => one.oneOf(userId)));
  if (!notRequester) return counted.size;
  const askers = people.filter(({ role }) => role !== 'approver').map(({ userId }) => one.oneOf(userId));
  const isAskedByOthers = [...askers, one.oneOf(unknownMaker)].some((asker) => !counted.has(asker));
  return isAskedByOthers ? counted.size : counted.size - 1;
}

const mayAnswer = ({ role }: User): boolean => approverRoles.some((each) => each === role);

const unfit = (param: string, user: User | undefined): ApiError =>
  invalidRequest(
    param,
    user === undefined
      ? `${param} is no user of this account. GET /users lists them.`
      : `${param} has the role ${user.role}, which may not answer approvals. Change the role to approver first.`,
  );
