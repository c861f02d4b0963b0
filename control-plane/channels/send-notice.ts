import { signWebhook } from '../../shared/crypto/webhook-signature.ts';
import type { ChannelError, ChannelFault, ChannelKind } from '../../shared/model/channel.ts';
import { limits } from '../../shared/model/limits.ts';
import { toSeconds, type UnixMillis } from '../../shared/model/time.ts';
import { renderApproval } from '../../shared/wire/api/approval.ts';
import { renderEvent, webhookHeaders } from '../../shared/wire/api/webhook.ts';
import { retryAfterMs } from '../webhooks/attempt-delivery.ts';
import { AnswerTooLate, type GuardedAnswer, TargetRefused } from '../webhooks/guarded-fetch.ts';
import { redactAnswer } from '../webhooks/redact-answer.ts';
import { type SealedTarget, signingSecret } from './channel-target.ts';
import type { ChannelDeps } from './deps.ts';
import { channelsLimits } from './limits.ts';
import { mailText } from './mail-text.ts';
import { type NoticeFacts, noticeOf } from './notice.ts';
import { slackBody } from './slack-text.ts';
import { isTlsFault } from './tls-fault.ts';

/** What one attempt came to. */
export type SendOutcome =
  | { readonly isSent: true }
  | {
      readonly isSent: false;
      readonly error: ChannelError;
      /** This message will be refused however often it is sent. */
      readonly isFinal: boolean;
      /** The address is no more. */
      readonly isGone: boolean;
      /** The other side asks for a pause of this length, for all messages; null: it does not. */
      readonly pauseMs: number | null;
    };

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
): Promise<SendOutcome> {
  const nowMs = deps.clock.now();
  switch (notice.kind) {
    case 'email':
      return sendMail(deps, notice, signal);
    case 'slack':
      return post(deps, notice, {
        headers: { 'content-type': 'application/json' },
        body: slackBody(noticeOf(notice.facts)),
        nowMs,
        signal,
      });
    case 'webhook':
      return post(deps, notice, { ...signedEvent(deps, notice, nowMs), nowMs, signal });
  }
}

/** The event as webhooks have it, signed in the same way. */
function signedEvent(
  { baseUrl }: Pick<ChannelDeps, 'baseUrl'>,
  { messageId, secret, facts: { event, approval } }: NoticeToSend,
  nowMs: UnixMillis,
) {
  const { createdAtMs, resolvedAtMs, expiresAtMs, status } = approval;
  const endedAtMs = status === 'expired' ? expiresAtMs : (resolvedAtMs ?? expiresAtMs);
  const message = {
    id: messageId,
    format: 'standard' as const,
    timestampS: toSeconds(nowMs),
    body: renderEvent({
      event,
      timestampMs: event === 'approval.requested' ? createdAtMs : endedAtMs,
      data: renderApproval(approval, baseUrl),
    }),
  };
  const signatures = secret === null ? [] : [signWebhook(signingSecret(secret), message)];
  return { headers: webhookHeaders({ ...message, signatures }), body: message.body };
}

interface Posted {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly nowMs: UnixMillis;
  readonly signal: AbortSignal;
}

async function post(
  { outbound }: Pick<ChannelDeps, 'outbound'>,
  { kind, target }: NoticeToSend,
  { nowMs, ...request }: Posted,
): Promise<SendOutcome> {
  try {
    const answer = await outbound.request(target, {
      method: 'POST',
      ...request,
      maxBytes: channelsLimits.channelAnswerBytesMax,
      timeoutMs: limits.webhookTimeoutMs,
    });
    return judge(answer, kind, nowMs);
  } catch (error) {
    return failed(faultOf(error), detailOf(error));
  }
}

function judge(answer: GuardedAnswer, kind: ChannelKind, nowMs: UnixMillis): SendOutcome {
  const { status, body, isCut } = answer;
  if (status >= 200 && status < 300) return { isSent: true };
  const said = redactAnswer(body, { isCut }).replace(/\s+/g, ' ').trim();
  const isBusy = status === 429 || status === 503;
  return {
    ...failed('bad_answer', `HTTP ${status} ${said}`),
    isGone: status === 410 || (kind === 'slack' && status === 404 && /^no_(?:service|team)$/.test(said)),
    pauseMs: isBusy ? retryAfterMs(answer, nowMs) : null,
  };
}

async function sendMail(
  { mailer }: Pick<ChannelDeps, 'mailer'>,
  { target, messageId, threadId, facts }: NoticeToSend,
  signal: AbortSignal,
): Promise<SendOutcome> {
  if (mailer === null)
    return failed('mail_not_configured', 'set SMTP_URL and SMTP_FROM of the control plane');
  const outcome = await mailer.send(
    { to: target, messageId, threadId, ...mailText(noticeOf(facts)) },
    signal,
  );
  return outcome.isSent ? outcome : { ...failed(outcome.code, outcome.detail), isFinal: outcome.isFinal };
}

const failed = (code: ChannelFault, detail: string) => ({
  isSent: false as const,
  error: { code, detail: detail.trim().slice(0, channelsLimits.channelErrorCharsMax) },
  isFinal: false,
  isGone: false,
  pauseMs: null,
});

function faultOf(error: unknown): ChannelFault {
  if (error instanceof TargetRefused) return 'target_refused';
  if (error instanceof AnswerTooLate) return 'timeout';
  const code = codeOf(error) ?? '';
  if (isTlsFault(code)) return 'tls_failed';
  return code === 'ECONNRESET' ? 'closed' : 'unreachable';
}

/** Never the message of an unknown error: it may hold the target. */
function detailOf(error: unknown): string {
  if (error instanceof TargetRefused || error instanceof AnswerTooLate) return error.message;
  return codeOf(error) ?? 'no answer';
}

function codeOf(error: unknown): string | null {
  const code = error instanceof Error && 'code' in error ? String(error.code) : null;
  return code !== null && /^[A-Z0-9_]{1,64}$/.test(code) ? code : null;
}
