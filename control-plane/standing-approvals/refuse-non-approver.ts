import { ApiError } from '../../shared/errors/api-error.ts';
import type { Gate } from '../../shared/model/gate.ts';
import type { PassportId } from '../../shared/model/ids.ts';
import { holdsScope } from '../../shared/model/scopes.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { whyNotInWords } from '../../shared/wire/api/approval.ts';
import { readAnswerers } from '../approvals/answer-rule.ts';
import { findOwners, findRequesters } from '../approvals/find-requesters.ts';
import {
  type AnswerRule,
  answersNeeded,
  anyAnswerer,
  whyNotToAnswer,
} from '../approvals/why-not-to-answer.ts';
import type { Transaction } from '../base/database.ts';
import type { Caller } from '../http/caller.ts';

/**
 * A person who may not answer a request of these passports at this gate may not approve it ahead either:
 * one judge for both. Behind a passport is the person who issued it; who will ask is not known yet, nor who
 * will issue passports of an owner, so a person who could issue one approves none for an owner. A gate that
 * wants several answers, or signed ones, wants them for each request: there nothing is approved ahead.
 */
export async function refuseNonApprover(
  tx: Transaction,
  caller: Caller,
  {
    gate,
    passportId,
    owner,
    nowMs,
  }: {
    readonly gate: Gate;
    readonly passportId: PassportId | null;
    readonly owner: string | null;
    readonly nowMs: UnixMillis;
  },
): Promise<void> {
  const { approvers, passkey } = gate.constraints.approvals ?? anyAnswerer;
  const rule: AnswerRule = { approvers, passkey, policyHash: null };
  if (passkey || answersNeeded(rule) > 1)
    throw new ApiError('not_an_approver', {
      message: 'This gate wants several answers, or signed ones, for each request: none is approved ahead.',
    });
  const { accountId } = gate;
  const userId = caller.person?.userId ?? null;
  const people = await readAnswerers(
    tx,
    { answers: [], gateAccountId: accountId },
    { rule, also: userId, nowMs },
  );
  const isRequesterLeftOut = approvers?.notRequester === true;
  const isIndependent = approvers?.independent === true;
  // Somebody who is one with an approver may issue passports, too.
  if (isRequesterLeftOut && owner !== null && (isIndependent || holdsScope(caller.scopes, 'passports:issue')))
    throw new ApiError('not_an_approver', {
      message:
        'You may issue passports, so you could ask by one of this owner. Ask an approver who may not, or approve a passport ahead.',
    });
  const passports = owner === null ? passportId : { of: gate, owner };
  const behind =
    isRequesterLeftOut && passports !== null
      ? await findRequesters(tx, {
          ...{ accountId, passports, askedBy: null },
          independentAtMs: isIndependent ? nowMs : null,
        })
      : [];
  const owners = approvers?.notOwner === true ? await findOwners(tx, { accountId, passportId, owner }) : [];
  const requesters = [...behind, ...owners];
  const person = userId === null ? null : (people.get(userId) ?? null);
  const whyNot = whyNotToAnswer(rule, { requesters, createdAtMs: nowMs }, person);
  if (whyNot !== null) throw new ApiError('not_an_approver', { message: whyNotInWords[whyNot] });
}
