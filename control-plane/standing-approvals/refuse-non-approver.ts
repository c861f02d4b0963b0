import { ApiError } from '../../shared/errors/api-error.ts';
import type { Gate } from '../../shared/model/gate.ts';
import type { PassportId } from '../../shared/model/ids.ts';
import { whyNotInWords } from '../../shared/wire/approval.ts';
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
 * Who may not answer a request of this passport at this gate may not approve it ahead either: one judge for
 * both. Behind the passport is whoever issued it; who will ask is not known yet. A gate that wants several
 * answers, or signed ones, wants them for each request: there nothing is approved ahead.
 */
export async function refuseNonApprover(
  tx: Transaction,
  caller: Caller,
  { gate, passportId }: { readonly gate: Gate; readonly passportId: PassportId },
): Promise<void> {
  const { approvers, passkey } = gate.constraints.approvals ?? anyAnswerer;
  const rule: AnswerRule = { approvers, passkey, policyHash: null };
  if (passkey || answersNeeded(rule) > 1)
    throw new ApiError('not_an_approver', {
      message: 'This gate wants several answers, or signed ones, for each request: none is approved ahead.',
    });
  const { accountId } = gate;
  const userId = caller.person?.userId ?? null;
  const people = await readAnswerers(tx, { answers: [], gateAccountId: accountId }, userId);
  const behind = await findRequesters(tx, { accountId, passportId, askedBy: passportId });
  const owners = approvers?.notOwner === true ? await findOwners(tx, { accountId, passportId }) : [];
  const requesters = [...(approvers?.notRequester === false ? [] : behind), ...owners];
  const person = userId === null ? null : (people.get(userId) ?? null);
  const whyNot = whyNotToAnswer(rule, { requesters }, person);
  if (whyNot !== null) throw new ApiError('not_an_approver', { message: whyNotInWords[whyNot] });
}
