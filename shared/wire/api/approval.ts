import { type Static, Type } from 'typebox';
import { type Approval, approvalStatuses } from '../../model/approval.ts';
import { limits } from '../../model/limits.ts';
import { renderUsd } from '../../model/money.ts';
import { renderOptionalTime, renderTime } from '../../model/time.ts';
import { AnswerProof } from '../evidence/answer-proof.ts';
import { approvalUrl } from './console-url.ts';
import { DisplayAnswer } from './display.ts';
import { closed, FreeForm, nullable, plainText, Timestamp } from './fields.ts';
import { pagingQuery } from './paging.ts';

const Status = Type.Enum(approvalStatuses);

/** `GET /approvals` */
export const ApprovalListQuery = Type.Object({
  status: Type.Optional(Status),
  /** Pending ones that this caller may answer and has not. */
  waiting_for: Type.Optional(Type.Enum(['me'])),
  /** The whole text. */
  user: Type.Optional(Type.String({ maxLength: limits.userCharsMax })),
  ...pagingQuery,
});

/** `POST /approvals/:id/approve` and `/deny` */
export const ApprovalResolution = closed({
  note: Type.Optional(nullable(plainText({ maxLength: limits.reasonCharsMax }))),
  /** The browser's answer, as `toJSON()` of WebAuthn Level 3 writes it. Null: it is not signed. */
  assertion: Type.Optional(nullable(FreeForm)),
});

/** `GET /approvals/:id` */
export const ApprovalQuery = Type.Object({
  /** 0: at once. */
  wait_ms: Type.Integer({ minimum: 0, maximum: limits.approvalWaitMsMax, default: 0 }),
});

/** What one person has said. */
const given = {
  user_id: Type.String(),
  answer: Type.Enum(['approved', 'denied']),
  at: Timestamp,
  note: nullable(Type.String()),
  /** Whether it was signed with a passkey. */
  signed: Type.Boolean(),
};

export const ApprovalAnswer = Type.Object({
  approval_id: Type.String(),
  /** The page of the console where a person answers. */
  approval_url: Type.String(),
  /** This resource of the API. */
  approval_api_url: Type.String(),
  /** The status now: a pending approval past its time is `expired`. */
  status: Status,
  passport_id: Type.String(),
  agent_id: Type.String(),
  /** For whom the agent acts; null: nobody, or an issuer of another account says it. */
  user: nullable(Type.String()),
  gate_id: Type.String(),
  request_hash: Type.String(),
  permission_key: nullable(Type.String()),
  amount_usd: nullable(Type.Number()),
  /** What is asked, as the resource server wrote it. Forgotten 90 days after `expires_at`. */
  display: nullable(DisplayAnswer),
  /** The first condition of the gate or the passport that asks for it; null: another rule does. */
  condition: nullable(Type.String()),
  created_at: Timestamp,
  expires_at: Timestamp,
  resolved_at: nullable(Timestamp),
  resolved_by: nullable(Type.String()),
  note: nullable(Type.String()),
  /** Of people, in the order in which they were given. What was taken back is not among them. */
  answers: Type.Array(Type.Object(given)),
});
export type ApprovalAnswer = Static<typeof ApprovalAnswer>;

/** Why a caller may not answer an approval. */
export const whysNotToAnswer = [
  'resolved',
  'answered',
  'scope',
  'api_key',
  'role',
  'not_named',
  'requester',
  'requester_unknown',
  'unconfirmed',
  'accepted_later',
  'one_person',
  'no_passkey',
] as const;
export type WhyNotToAnswer = (typeof whysNotToAnswer)[number];

/** Each says what to do. */
export const whyNotInWords: Readonly<Record<WhyNotToAnswer, string>> = {
  resolved: 'It is resolved already.',
  answered: 'You have answered it already. It waits for somebody else.',
  scope: 'Answers need the scope approvals:resolve. Ask an owner for the role approver.',
  api_key: 'People answer it, in the console: this gate takes no answer of an API key or token.',
  role: 'Your role may not answer approvals. Ask an owner for the role approver.',
  not_named: 'The gate names others to answer. Ask one of them.',
  requester: 'You own or made the passport, or made the key that asks, so somebody else has to answer.',
  requester_unknown:
    'The sidecar that asked does not say with which key. Bring it to the version of the control plane; then let the agent ask again.',
  unconfirmed:
    'An API key has invited you, so another person confirms you first. Ask an owner or admin to do so, under People.',
  accepted_later: 'You came after this was asked for, so somebody else has to answer.',
  one_person:
    'Somebody who counts as one person with you has answered: one invited the other, or a third both, by a link that could be read.',
  no_passkey:
    'Each answer is signed with a passkey, and you have none. Add one in the console, under Settings.',
};

/** `GET /approvals/:id` */
export const ApprovalDetail = Type.Object({
  ...ApprovalAnswer.properties,
  amount_micro_usd: nullable(Type.Integer()),
  /** The name today of the person or key in `resolved_by`; null: nobody, or removed. */
  resolved_by_name: nullable(Type.String()),
  answers: Type.Array(
    Type.Object({
      ...given,
      /** The person's name today; null: removed. */
      name: nullable(Type.String()),
      /** Who had invited this person, `key_…` or `usr_…`; null: nobody, or not known. */
      invited_by: nullable(Type.String()),
      /** Their name today; null: nobody, or removed. */
      invited_by_name: nullable(Type.String()),
      /** Whether it counts: not if the person may not answer any more. Always true once it is resolved. */
      counts: Type.Boolean(),
      /** What the passkey signed; null: it is not signed. */
      assertion: nullable(AnswerProof),
    }),
  ),
  /** How many different people have to approve. */
  answers_needed: Type.Integer(),
  /** How many more, of those who may still answer. 0 once it is resolved. */
  answers_missing: Type.Integer(),
  /** Whether each answer is signed with a passkey. */
  passkey: Type.Boolean(),
  /** The policy that such an answer signs; null: none is signed, or the policy is not in force any more. */
  policy_hash: nullable(Type.String()),
  /** About the caller. */
  you: Type.Object({
    may_answer: Type.Boolean(),
    why_not: nullable(Type.Enum(whysNotToAnswer)),
    message: nullable(Type.String()),
    /** With which of the caller's passkeys an answer is signed; null: none is. */
    passkey: nullable(Type.Object({ rp_id: Type.String(), credential_ids: Type.Array(Type.String()) })),
  }),
});
export type ApprovalDetail = Static<typeof ApprovalDetail>;

/** What the gate's rule says of an approval, for one caller. */
export interface AnswerStanding {
  readonly needed: number;
  readonly missing: number;
  readonly passkey: boolean;
  readonly policyHash: string | null;
  readonly whyNot: WhyNotToAnswer | null;
  readonly resolverName: string | null;
  readonly signsWith: { readonly rpId: string; readonly credentialIds: readonly string[] } | null;
  /** Of each answer of the approval. */
  readonly answers: readonly {
    readonly name: string | null;
    readonly inviterName: string | null;
    readonly counts: boolean;
    readonly proof: AnswerProof | null;
  }[];
}

export function renderApprovalDetail(
  approval: Approval,
  { needed, missing, passkey, policyHash, whyNot, signsWith, resolverName, answers }: AnswerStanding,
  baseUrl: string,
): ApprovalDetail {
  const rendered = renderApproval(approval, baseUrl);
  return {
    ...rendered,
    amount_micro_usd: approval.amountMicroUsd,
    resolved_by_name: resolverName,
    answers: rendered.answers.map((answer, place) => {
      const about = answers[place];
      return {
        ...answer,
        name: about?.name ?? null,
        invited_by: approval.answers[place]?.invitedBy ?? null,
        invited_by_name: about?.inviterName ?? null,
        counts: about?.counts ?? true,
        assertion: about?.proof ?? null,
      };
    }),
    answers_needed: needed,
    answers_missing: missing,
    passkey,
    policy_hash: policyHash,
    you: {
      may_answer: whyNot === null,
      why_not: whyNot,
      message: whyNot === null ? null : whyNotInWords[whyNot],
      passkey:
        signsWith === null ? null : { rp_id: signsWith.rpId, credential_ids: [...signsWith.credentialIds] },
    },
  };
}

/**
 * Also the data of the events `approval.requested` and `approval.resolved`. `baseUrl`: `{PUBLIC_URL}/v1`; the
 * console is beside it.
 */
export const renderApproval = (approval: Approval, baseUrl: string): ApprovalAnswer => ({
  approval_id: approval.approvalId,
  approval_url: approvalUrl(baseUrl, approval.approvalId),
  approval_api_url: `${baseUrl}/approvals/${approval.approvalId}`,
  status: approval.status,
  passport_id: approval.passportId,
  agent_id: approval.agentId,
  user: approval.user,
  gate_id: approval.gateId,
  request_hash: approval.requestHash,
  permission_key: approval.permissionKey,
  amount_usd: approval.amountMicroUsd === null ? null : renderUsd(approval.amountMicroUsd),
  display: approval.display as ApprovalAnswer['display'],
  condition: approval.conditions?.[0] ?? null,
  created_at: renderTime(approval.createdAtMs),
  expires_at: renderTime(approval.expiresAtMs),
  resolved_at: renderOptionalTime(approval.resolvedAtMs),
  resolved_by: approval.resolvedBy,
  note: approval.note,
  answers: approval.answers.map(({ userId, answer, atMs, note, isSigned }) => ({
    user_id: userId,
    answer,
    at: renderTime(atMs),
    note,
    signed: isSigned,
  })),
});
