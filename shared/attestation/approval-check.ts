import type { SignedApproval } from '../wire/evidence.ts';
import { findProofFault } from './answer-proof.ts';
import type { NamedApproval } from './named-approvals.ts';

type Body = SignedApproval['body'];

type ApprovalFault = 'approval_differs' | 'answer_forged' | 'answer_missing';

/** Holds approvals against the records that name them, and against what their policies demand. */
export class ApprovalCheck {
  /** Policies whose answers are signed: how many people have to approve. */
  readonly #countOfSigned = new Map<string, number>();

  learnPolicy(hash: string, body: Readonly<Record<string, unknown>>): void {
    const rule = member(member(body, 'constraints'), 'approvals');
    if (member(rule, 'passkey') !== true) return;
    const count = member(member(rule, 'approvers'), 'count');
    this.#countOfSigned.set(hash, typeof count === 'number' ? count : 1);
  }

  faultOf(body: Body, named: NamedApproval): ApprovalFault | null {
    const isStanding = named.approvalId.startsWith('sappr_');
    if (body.removed === true || isStanding) return null;
    if (named.isContradicted || body.request_hash !== named.requestHash) return 'approval_differs';
    const { answers = [], amount_micro_usd: amount = null } = body;
    if (named.amountMicroUsd !== undefined && amount !== named.amountMicroUsd) return 'approval_differs';
    for (const { answer, assertion } of answers) {
      if (assertion === null) continue;
      const { policyHash } = named;
      if (policyHash !== null && assertion.policy_hash !== policyHash) return 'approval_differs';
      const about = {
        approval_id: body.approval_id,
        request_hash: named.requestHash,
        amount_micro_usd: amount,
      };
      if (findProofFault({ ...about, answer }, assertion) !== null) return 'answer_forged';
    }
    return this.#areAnswersThere(answers, named) ? null : 'answer_missing';
  }

  /** Where the policy wants signed answers, nobody else's word has resolved the approval. */
  #areAnswersThere(answers: NonNullable<Body['answers']>, named: NamedApproval): boolean {
    const count = named.policyHash === null ? undefined : this.#countOfSigned.get(named.policyHash);
    if (count === undefined) return true;
    const people = (given: 'approved' | 'denied') =>
      new Set(answers.filter(({ answer }) => answer === given).map(({ user_id }) => user_id)).size;
    return (
      answers.every(({ assertion }) => assertion !== null) &&
      (!named.isApproved || people('approved') >= count) &&
      (!named.isDenied || people('denied') >= 1)
    );
  }
}

const member = (value: unknown, name: string): unknown =>
  typeof value === 'object' && value !== null ? (value as Record<string, unknown>)[name] : undefined;
