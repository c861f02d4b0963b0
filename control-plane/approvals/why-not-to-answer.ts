import type { ApprovalRule } from '../../shared/model/constraints.ts';
import type { UserId } from '../../shared/model/ids.ts';
import { approverRoles, type User, userStatusOf } from '../../shared/model/user.ts';
import type { WhyNotToAnswer } from '../../shared/wire/api/approval.ts';
import type { StoredApproval } from './approval-store.ts';

/** What a gate says about those who answer. */
export interface AnswerRule extends Pick<ApprovalRule, 'approvers' | 'passkey'> {
  /** Of the policy that this is part of, where answers are signed; they sign it too. */
  readonly policyHash: string | null;
}

/** A gate that says nothing: one answer of a person or a key. */
export const anyAnswerer: AnswerRule = { approvers: null, passkey: false, policyHash: null };

const asksForPeople = ({ approvers, passkey }: AnswerRule): boolean => approvers !== null || passkey;

export const answersNeeded = ({ approvers }: AnswerRule): number => approvers?.count ?? 1;

/** What counts of a person. */
export interface Person
  extends Pick<User, 'userId' | 'role' | 'isDisabled' | 'acceptedAtMs' | 'confirmedAtMs'> {
  /** The same for all who count as one person with this one. */
  readonly oneOf: string;
}

/** Why this person may not give an answer that counts, or null. `person` null: an API key. */
export function whyNotToAnswer(
  rule: AnswerRule,
  { requesters, createdAtMs }: Pick<StoredApproval, 'requesters' | 'createdAtMs'>,
  person: Person | null,
): WhyNotToAnswer | null {
  if (person !== null && person.confirmedAtMs === null) return 'unconfirmed';
  if (person !== null && (person.acceptedAtMs ?? 0) > createdAtMs) return 'accepted_later';
  if (!asksForPeople(rule)) return null;
  if (person === null) return 'api_key';
  const mayAnswer = approverRoles.some((role) => role === person.role);
  if (!mayAnswer || userStatusOf(person) !== 'active') return 'role';
  const { approvers } = rule;
  if (approvers === null) return null;
  const { roles, users, notRequester, notOwner } = approvers;
  const isNamed =
    (roles === null && users === null) ||
    roles?.some((role) => role === person.role) === true ||
    users?.includes(person.userId) === true;
  if (!isNamed) return 'not_named';
  if (!notRequester && !notOwner) return null;
  if (requesters === null) return 'requester_unknown';
  return requesters.includes(person.userId) ? 'requester' : null;
}

/**
 * How many of the approvals count now: those of people who may still answer. What somebody said who was
 * removed, disabled or given another role meanwhile stays on record and counts no more.
 */
export function countApprovals(
  rule: AnswerRule,
  approval: Pick<StoredApproval, 'requesters' | 'createdAtMs' | 'answers'>,
  people: ReadonlyMap<UserId, Person>,
): number {
  const counted = approval.answers.flatMap(({ userId, answer }) => {
    const person = people.get(userId);
    const isCounted =
      answer === 'approved' && person !== undefined && whyNotToAnswer(rule, approval, person) === null;
    return isCounted ? [person.oneOf] : [];
  });
  return new Set(counted).size;
}

/** Whether another one who counts as one person with this one has answered. */
export const hasAnsweredAsOne = (
  { answers }: Pick<StoredApproval, 'answers'>,
  { userId, oneOf }: Person,
  people: ReadonlyMap<UserId, Person>,
): boolean => answers.some((each) => each.userId !== userId && people.get(each.userId)?.oneOf === oneOf);
