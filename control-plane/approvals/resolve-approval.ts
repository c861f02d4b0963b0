import { signatureMark } from '../../shared/crypto/passkey-signature.ts';
import { ApiError } from '../../shared/errors/api-error.ts';
import { must } from '../../shared/errors/assert.ts';
import type { Approval, PersonsAnswer } from '../../shared/model/approval.ts';
import type { ApprovalId, UserId } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { type ApprovalAnswer, renderApproval, whyNotInWords } from '../../shared/wire/api/approval.ts';
import type { AnswerProof } from '../../shared/wire/evidence/answer-proof.ts';
import type { AppendingDeps } from '../attestations/deps.ts';
import { administer } from '../audit/administer.ts';
import type { Transaction } from '../base/database.ts';
import { quotaLimits } from '../book/limits.ts';
import { freeUnits } from '../book/post.ts';
import type { Caller } from '../http/caller.ts';
import { proveAnswer } from '../passkeys/sign-answer.ts';
import { boundWaits } from '../storage/bound-waits.ts';
import { readAnswerers, readAnswerRule } from './answer-rule.ts';
import { insertAnswer, readProofs } from './answer-store.ts';
import {
  approvalAt,
  lockApproval,
  type Resolved,
  type StoredApproval,
  writeResolution,
} from './approval-store.ts';
import { attestResolutions } from './attest-resolutions.ts';
import { emitApprovalEvents, hintApprovals } from './emit-approval-events.ts';
import {
  type AnswerRule,
  answersNeeded,
  countApprovals,
  hasAnsweredAsOne,
  whyNotToAnswer,
} from './why-not-to-answer.ts';

export type ResolutionDeps = Pick<
  AppendingDeps,
  'sql' | 'clock' | 'random' | 'bus' | 'baseUrl' | 'signingKeys' | 'appending' | 'logger'
>;

/** A person's decision about a request. */
export interface ResolutionInput {
  readonly status: 'approved' | 'denied';
  readonly note: string | null;
  /** What the browser gave where the answer was signed with a passkey. */
  readonly assertion: object | null;
}

/** In the audit chain, which is kept for ever: without the display, which is not. */
export const onAudit = ({ baseUrl }: Pick<ResolutionDeps, 'baseUrl'>, approval: Approval): ApprovalAnswer =>
  renderApproval({ ...approval, display: null }, baseUrl);

/**
 * Takes one answer to a pending approval. A denial resolves it, and so does the approval of as many people as
 * the gate wants; before that it stays pending with the answers so far. Resolved once: the second of two
 * concurrent calls gets `approval_already_resolved`, and so does a call after the expiry. Approved, it is
 * usable for as long as it could be pending; denied, its money is freed at once. The answer follows the
 * commit of its record.
 *
 * Passport and gate are not checked: an approval only satisfies the demand for a person's approval. All other
 * checks run when the request is sent again; a passport revoked meanwhile blocks it then.
 */
export async function resolveApproval(
  deps: ResolutionDeps,
  caller: Caller,
  { approvalId, resolution }: { readonly approvalId: ApprovalId; readonly resolution: ResolutionInput },
): Promise<Approval> {
  return administer(deps, caller, async (tx) => {
    await boundWaits(tx, { lockMsMax: quotaLimits.changeLockMsMax });
    const locked = await lockApproval(tx, caller, approvalId);
    if (locked === null) throw new ApiError('approval_not_found');
    const nowMs = deps.clock.now();
    const { status } = approvalAt(locked, nowMs);
    if (status !== 'pending') {
      throw new ApiError('approval_already_resolved', { message: `The approval is already ${status}.` });
    }
    const answered = await takeAnswer(tx, deps, caller, { locked, resolution, nowMs });
    const result = answered.isLast
      ? await resolve(tx, deps, caller, { ...answered, resolution, nowMs })
      : answered.approval;
    if (!answered.isLast) hintApprovals(tx, [result]);
    return {
      result,
      audited: {
        operation: resolution.status === 'approved' ? 'approveApproval' : 'denyApproval',
        target: approvalId,
        before: onAudit(deps, locked),
        after: onAudit(deps, result),
      },
    };
  });
}

interface Answering {
  readonly locked: StoredApproval;
  readonly resolution: ResolutionInput;
  readonly nowMs: UnixMillis;
}

interface Answered {
  readonly approval: StoredApproval;
  /** Whether the approval is resolved by it. */
  readonly isLast: boolean;
}

/**
 * Writes the answer of a person who may give it. An API key leaves none: it answers only where one answer is
 * wanted, and then `resolved_by` says so.
 */
async function takeAnswer(
  tx: Transaction,
  deps: ResolutionDeps,
  caller: Caller,
  { locked, resolution, nowMs }: Answering,
): Promise<Answered> {
  const { status, note } = resolution;
  const rule = await readAnswerRule(tx, locked);
  // The gate changes in this moment, which ends the approval.
  if (rule === null)
    throw new ApiError('approval_already_resolved', { message: 'The policy of its gate has changed.' });
  const userId = caller.person?.userId ?? null;
  const people = await readAnswerers(tx, locked, { rule, also: userId, nowMs });
  const person = userId === null ? null : (people.get(userId) ?? null);
  const whyNot = whyNotToAnswer(rule, locked, person);
  if (whyNot !== null) throw new ApiError('not_an_approver', { message: whyNotInWords[whyNot] });
  if (userId === null) return { approval: locked, isLast: true };
  if (locked.answers.some((each) => each.userId === userId)) throw new ApiError('approval_already_answered');
  if (person !== null && hasAnsweredAsOne(locked, person, people))
    throw new ApiError('not_an_approver', { message: whyNotInWords.one_person });
  const proof = rule.passkey ? await prove(tx, deps, { locked, resolution, userId, rule }) : null;
  const answer: PersonsAnswer = {
    ...{ userId, answer: status, atMs: nowMs, note, isSigned: proof !== null },
    invitedBy: person?.invitedBy ?? null,
  };
  await insertAnswer(tx, locked.approvalId, answer, proof);
  const approval = { ...locked, answers: [...locked.answers, answer] };
  const isLast = status === 'denied' || countApprovals(rule, approval, people) >= answersNeeded(rule);
  return { approval, isLast };
}

/** A signature is good for one answer: not once more after it was taken back, nor for another approval. */
async function prove(
  tx: Transaction,
  deps: ResolutionDeps,
  about: Pick<Answering, 'locked' | 'resolution'> & {
    readonly userId: UserId;
    readonly rule: AnswerRule;
  },
): Promise<AnswerProof> {
  const { locked, resolution, userId, rule } = about;
  if (resolution.assertion === null) throw new ApiError('passkey_required');
  const signed = {
    approval_id: locked.approvalId,
    request_hash: locked.requestHash,
    policy_hash: must(rule.policyHash, 'a policy with signed answers has a hash'),
    amount_micro_usd: locked.amountMicroUsd,
    answer: resolution.status,
  };
  const proof = await proveAnswer(tx, deps, { userId, signed, response: resolution.assertion });
  const markOf = ({ public_key: key, signature }: AnswerProof) => signatureMark(key, signature);
  const earlier = await readProofs(tx, locked.approvalId);
  if (earlier.some((each) => markOf(each.proof) === markOf(proof))) throw new ApiError('passkey_refused');
  return proof;
}

async function resolve(
  tx: Transaction,
  deps: ResolutionDeps,
  caller: Caller,
  {
    approval,
    resolution,
    nowMs,
  }: {
    readonly approval: StoredApproval;
    readonly resolution: ResolutionInput;
    readonly nowMs: UnixMillis;
  },
): Promise<Resolved> {
  const isApproved = resolution.status === 'approved';
  const resolved: Resolved = {
    ...approval,
    status: resolution.status,
    note: resolution.note,
    resolvedAtMs: nowMs,
    resolvedBy: caller.actor.id,
    expiresAtMs: isApproved ? ((nowMs + approval.expiresInMs) as UnixMillis) : approval.expiresAtMs,
  };
  await writeResolution(tx, resolved);
  await attestResolutions(tx, deps, [resolved], { resolution: resolution.status, nowMs });
  await emitApprovalEvents(tx, deps, 'approval.resolved', [resolved], nowMs);
  if (!isApproved) await freeUnits(tx, resolved.holds, nowMs);
  return resolved;
}
