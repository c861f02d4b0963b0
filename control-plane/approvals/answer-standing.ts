import type { UserId } from '../../shared/model/ids.ts';
import { holdsScope } from '../../shared/model/scopes.ts';
import type { AnswerStanding, WhyNotToAnswer } from '../../shared/wire/api/approval.ts';
import type { BaseDeps } from '../base/deps.ts';
import type { Caller } from '../http/caller.ts';
import { type SigningPasskeys, signingPasskeysOf } from '../passkeys/sign-answer.ts';
import { readAnswerers, readAnswerRule } from './answer-rule.ts';
import { readProofs } from './answer-store.ts';
import { readNames } from './answerer-names.ts';
import type { StoredApproval } from './approval-store.ts';
import {
  type AnswerRule,
  answersNeeded,
  anyAnswerer,
  countApprovals,
  hasAnsweredAsOne,
  type Person,
  whyNotToAnswer,
} from './why-not-to-answer.ts';

/** What is still needed, and whether this caller may answer. */
export async function readAnswerStanding(
  { sql, baseUrl, clock }: Pick<BaseDeps, 'sql' | 'baseUrl' | 'clock'>,
  caller: Caller,
  approval: StoredApproval,
): Promise<AnswerStanding> {
  const found = await readAnswerRule(sql, approval);
  const userId = caller.person?.userId ?? null;
  const rule = found ?? anyAnswerer;
  const people = await readAnswerers(sql, approval, { rule, also: userId, nowMs: clock.now() });
  const isPending = approval.status === 'pending' && found !== null;
  const signsWith =
    isPending && rule.passkey && userId !== null ? await signingPasskeysOf(sql, { baseUrl }, userId) : null;
  const proofs = approval.answers.some(({ isSigned }) => isSigned)
    ? (await readProofs(sql, approval.approvalId)).filter(({ doesStand }) => doesStand)
    : [];
  const needed = answersNeeded(rule);
  const names = await readNames(sql, approval.gateAccountId, [
    ...approval.answers.flatMap(({ invitedBy }) => invitedBy ?? []),
    ...(approval.resolvedBy === null ? [] : [approval.resolvedBy]),
  ]);
  const person = userId === null ? null : (people.get(userId) ?? null);
  return {
    needed,
    missing: isPending ? Math.max(1, needed - countApprovals(rule, approval, people)) : 0,
    passkey: rule.passkey,
    policyHash: rule.policyHash,
    whyNot: isPending ? whyNot(rule, approval, { caller, person, people, signsWith }) : 'resolved',
    signsWith,
    resolverName: names.get(approval.resolvedBy ?? '') ?? null,
    answers: approval.answers.map((answer) => {
      const author = people.get(answer.userId) ?? null;
      return {
        name: author?.name ?? null,
        inviterName: names.get(answer.invitedBy ?? '') ?? null,
        counts: !isPending || (author !== null && whyNotToAnswer(rule, approval, author) === null),
        proof: proofs.find((each) => each.userId === answer.userId)?.proof ?? null,
      };
    }),
  };
}

function whyNot(
  rule: AnswerRule,
  approval: StoredApproval,
  {
    caller,
    person,
    people,
    signsWith,
  }: {
    readonly caller: Caller;
    readonly person: Person | null;
    readonly people: ReadonlyMap<UserId, Person>;
    readonly signsWith: SigningPasskeys | null;
  },
): WhyNotToAnswer | null {
  if (!holdsScope(caller.scopes, 'approvals:resolve')) return 'scope';
  const found = whyNotToAnswer(rule, approval, person);
  if (found !== null) return found;
  if (approval.answers.some(({ userId }) => userId === caller.person?.userId)) return 'answered';
  if (person !== null && hasAnsweredAsOne(approval, person, people)) return 'one_person';
  return rule.passkey && (signsWith?.credentialIds ?? []).length === 0 ? 'no_passkey' : null;
}
