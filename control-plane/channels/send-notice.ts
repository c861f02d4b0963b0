import { signWebhook } from '../../shared/crypto/webhook-signature.ts';
import type { ChannelError, ChannelFault, ChannelKind } from '../../shared/model/channel.ts';
import { toSeconds } from '../../shared/model/time.ts';
import { renderApproval } from '../../shared/wire/api/approval.ts';
import { renderEvent, webhookHeaders } from '../../shared/wire/api/webhook.ts';
import { codeOf, noAnswer, post, whyNone } from '../outbox/attempt.ts';
import { AnswerTooLate, TargetRefused } from '../outbox/guarded-fetch.ts';
import type { Answer } from '../outbox/outbox.ts';
import { type SealedTarget, signingSecret } from './channel-target.ts';
import type { ChannelDeps } from './deps.ts';
import { channelsLimits } from './limits.ts';
import { mailText } from './mail-text.ts';
import { type NoticeFacts, noticeOf } from './notice.ts';
import { slackBody } from './slack-text.ts';
import { isTlsFault } from './tls-fault.ts';

export interface NoticeAnswer extends Answer {
  readonly fault: ChannelError | null;
}

export interface NoticeToSend extends SealedTarget {
  readonly kind: ChannelKind;
  /** The same in each attempt, so that a receiver can drop a repeat. */
  readonly messageId: string;
  /** Of the message about the beginning, to which this one belongs; null: this is the one. */
  readonly threadId: string | null;
  readonly facts: NoticeFacts;
}

/** Sends a notice once. Never throws for what the other side or the network does. */
export async function sendNotice(
  deps: Pick<ChannelDeps, 'clock' | 'outbound' | 'mailer' | 'baseUrl'>,
  notice: NoticeToSend,
  signal: AbortSignal,
): Promise<NoticeAnswer> {
  switch (notice.kind) {
    case 'email':
      return sendMail(deps, notice, signal);
    case 'slack':
      return postNotice(deps, notice, {
        headers: { 'content-type': 'application/json' },
        body: slackBody(noticeOf(notice.facts)),
        signal,
      });
    case 'webhook':
      return postNotice(deps, notice, { ...signedEvent(deps, notice), signal });
  }
}

/** The event as webhooks have it, signed in the same way. */
function signedEvent(
  { baseUrl, clock }: Pick<ChannelDeps, 'baseUrl' | 'clock'>,
  { messageId, secret, facts: { event, approval } }: NoticeToSend,
) {
  const { createdAtMs, resolvedAtMs, expiresAtMs, status } = approval;
  const endedAtMs = status === 'expired' ? expiresAtMs : (resolvedAtMs ?? expiresAtMs);
  const message = {
    id: messageId,
    format: 'standard' as const,
    timestampS: toSeconds(clock.now()),
    body: renderEvent({
      event,
      timestampMs: event === 'approval.requested' ? createdAtMs : endedAtMs,
      data: renderApproval(approval, baseUrl),
    }),
  };
  const signatures = secret === null ? [] : [signWebhook(signingSecret(secret), message)];
  return { headers: webhookHeaders({ ...message, signatures }), body: message.body };
}

async function postNotice(
  deps: Pick<ChannelDeps, 'clock' | 'outbound'>,
  { kind, target }: NoticeToSend,
  asked: Parameters<typeof post>[2],
): Promise<NoticeAnswer> {
  const { statusCode, said, error, ...answer } = await post(deps, target, asked);
  if (answer.hasSucceeded) return { ...answer, fault: null };
  // Never the message of an unknown error: it may hold the target.
  if (error !== null) return failed(faultOf(error), whyNone(error) ?? 'no answer');
  const words = said?.replace(/\s+/g, ' ').trim() ?? '';
  return {
    ...failed('bad_answer', `HTTP ${statusCode} ${words}`),
    isBusy: answer.isBusy,
    isGone: answer.isGone || (kind === 'slack' && statusCode === 404 && /^no_(?:service|team)$/.test(words)),
    askedForMs: answer.isBusy ? answer.askedForMs : null,
  };
}

async function sendMail(
  { mailer }: Pick<ChannelDeps, 'mailer'>,
  { target, messageId, threadId, facts }: NoticeToSend,
  signal: AbortSignal,
): Promise<NoticeAnswer> {
  if (mailer === null)
    return failed('mail_not_configured', 'set SMTP_URL and SMTP_FROM of the control plane');
  const outcome = await mailer.send(
    { to: target, messageId, threadId, ...mailText(noticeOf(facts)) },
    signal,
  );
  if (outcome.isSent) return { ...noAnswer, hasSucceeded: true, fault: null };
  return { ...failed(outcome.code, outcome.detail), isFinal: outcome.isFinal };
}

const failed = (code: ChannelFault, detail: string): NoticeAnswer => ({
  ...noAnswer,
  fault: { code, detail: detail.trim().slice(0, channelsLimits.channelErrorCharsMax) },
});

function faultOf(error: Error): ChannelFault {
  if (error instanceof TargetRefused) return 'target_refused';
  if (error instanceof AnswerTooLate) return 'timeout';
  const code = codeOf(error) ?? '';
  if (isTlsFault(code)) return 'tls_failed';
  return code === 'ECONNRESET' ? 'closed' : 'unreachable';
}
