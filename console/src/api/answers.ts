import type { PublicKeyCredentialRequestOptionsJSON } from '@simplewebauthn/browser';
import { type Approval, type ApprovalDetail, api, ask } from './client.ts';
import { signWith } from './passkeys.ts';

export interface Answer {
  readonly word: 'approve' | 'deny';
  readonly note: string | null;
  /** The amount that the person saw, in USD. */
  readonly amountUsd: number | null;
}

/**
 * Answers an approval. Where the gate asks for it, the person's passkey signs what the page has shown: the
 * challenge is made here, so that an amount that changed meanwhile is signed by nobody.
 */
export async function answerApproval(id: string, { word, note, amountUsd }: Answer): Promise<Approval> {
  const detail = await api.approvals.get(id);
  const { passkey } = detail.you;
  const assertion =
    passkey === null || !detail.you.may_answer
      ? undefined
      : await signWith(await optionsOf(detail, passkey, { word, amountUsd }));
  return ask<Approval>({
    method: 'POST',
    path: `/v1/approvals/${encodeURIComponent(id)}/${word}`,
    body: { ...(note === null ? {} : { note }), ...(assertion === undefined ? {} : { assertion }) },
  });
}

async function optionsOf(
  detail: ApprovalDetail,
  { rp_id: rpId, credential_ids: ids }: NonNullable<ApprovalDetail['you']['passkey']>,
  { word, amountUsd }: Pick<Answer, 'word' | 'amountUsd'>,
): Promise<PublicKeyCredentialRequestOptionsJSON> {
  if (detail.amount_usd !== amountUsd) throw new Error('The amount has changed. Read the approval again.');
  // RFC 8785: the members in this order, which is that of their names.
  const signed = JSON.stringify({
    amount_micro_usd: detail.amount_micro_usd,
    answer: word === 'approve' ? 'approved' : 'denied',
    approval_id: detail.approval_id,
    policy_hash: detail.policy_hash,
    request_hash: detail.request_hash,
  });
  const hash = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(signed));
  return {
    challenge: base64url(new Uint8Array(hash)),
    rpId,
    allowCredentials: ids.map((id) => ({ id, type: 'public-key' })),
    userVerification: 'required',
  };
}

const base64url = (bytes: Uint8Array): string =>
  btoa(String.fromCharCode(...bytes))
    .replaceAll('+', '-')
    .replaceAll('/', '_')
    .replaceAll('=', '');
