import { channelPauseMs } from '../../shared/model/channel.ts';
import { type ApprovalId, idTime } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { approvalUrl, consoleUrl } from '../../shared/wire/api/console-url.ts';
import { startOutbox } from '../webhooks/deliver.ts';
import type { Outbox } from '../webhooks/outbox.ts';
import { openTarget } from './channel-target.ts';
import type { ChannelDeps } from './deps.ts';
import { channelsLimits } from './limits.ts';
import {
  dropMessages,
  type LockedMessage,
  lockMessages,
  readMessageQueues,
  releaseMessages,
  trimMessages,
} from './message-queue.ts';
import { type MessageAttempt, makeMessageRecorder } from './record-messages.ts';
import { type SendOutcome, sendNotice } from './send-notice.ts';

export type MessageDeps = Pick<
  ChannelDeps,
  | 'sql'
  | 'clock'
  | 'random'
  | 'sealer'
  | 'outbound'
  | 'mailer'
  | 'baseUrl'
  | 'logger'
  | 'metrics'
  | 'replicaId'
> & {
  /** How often an idle replica looks for due messages. Default: `channelsLimits.channelPollMs`. */
  readonly pollMs?: number;
};

/**
 * Sends the messages of channels that are due, as long as this replica runs, beside those of all other
 * replicas; see `startOutbox`. At least once: one that was sent by a replica that died before it wrote so is
 * sent again.
 */
export const startChannelMessages = (deps: MessageDeps): { stop(): Promise<void> } =>
  startOutbox(deps, messageOutbox(deps));

function messageOutbox(deps: MessageDeps): Outbox<LockedMessage, MessageAttempt> {
  const { sql, clock, replicaId } = deps;
  return {
    ...{ sql, work: 'messages' },
    name: 'messages of channels',
    bounds: {
      concurrencyMax: channelsLimits.channelConcurrencyMax,
      // People do not wait for milliseconds, and an approval may end meanwhile.
      aheadMax: 0,
      lockMs: channelsLimits.channelLockMs,
      pollMs: deps.pollMs ?? channelsLimits.channelPollMs,
    },
    endpointOf: ({ channelId }) => channelId,
    readQueues: (after) => readMessageQueues(sql, { after, nowMs: clock.now() }),
    dropQueues: (channelIds) => dropMessages(sql, channelIds),
    lock: (slots) => lockMessages(sql, { slots, replicaId, nowMs: clock.now() }),
    release: (messages) => releaseMessages(sql, replicaId, messages),
    attempt: (message, signal) => attempt(deps, message, signal),
    record: makeMessageRecorder(deps),
    trim: () => trimMessages(sql, oldest(clock.now())),
  };
}

/** Ids begin with their time. */
const oldest = (nowMs: UnixMillis): string =>
  `appr_${idTime(Math.max(0, nowMs - channelsLimits.channelMessageKeptMs) as UnixMillis)}`;

async function attempt(
  deps: MessageDeps,
  message: LockedMessage,
  signal: AbortSignal,
): Promise<MessageAttempt> {
  const { clock, sealer, baseUrl } = deps;
  const { approval, channelId, kind, sealedTarget, event } = message;
  const startedAt = clock.monotonic();
  const outcome = await sendNotice(
    deps,
    {
      ...{ kind, ...openTarget(sealer, channelId, sealedTarget) },
      messageId: messageIdOf(message),
      threadId:
        event === 'approval.requested' ? null : messageIdOf({ ...message, event: 'approval.requested' }),
      facts: {
        ...message,
        approvalUrl: approvalUrl(baseUrl, approval.approvalId),
        listUrl: consoleUrl(baseUrl, 'approvals'),
      },
    },
    signal,
  );
  const latencyMs = Math.max(0, Math.round(clock.monotonic() - startedAt));
  return { ...judge(deps, message, outcome), latencyMs };
}

/** The left side of a Message-ID, and a `webhook-id`. */
const messageIdOf = ({
  approvalId,
  channelId,
  event,
}: Pick<LockedMessage, 'channelId' | 'event'> & { readonly approvalId: ApprovalId }): string =>
  `${approvalId}.${channelId}.${event === 'approval.requested' ? 'q' : 'a'}`;

function judge(
  { clock, random }: Pick<MessageDeps, 'clock' | 'random'>,
  message: LockedMessage,
  outcome: SendOutcome,
): Omit<MessageAttempt, 'latencyMs'> {
  const atMs = clock.now();
  if (outcome.isSent) {
    return {
      ...{ message, atMs, hasSucceeded: true, isGone: false, pausedUntilMs: null, error: null },
      ...{ status: 'sent', nextAttemptAtMs: null },
    };
  }
  const { isFinal, isGone, pauseMs, error } = outcome;
  const ownPauseMs = isFinal || isGone ? null : channelPauseMs(message.tries + 1);
  // Cut or stretched by a tenth, so that what failed together does not come back together.
  const jitter = 0.9 + (0.2 * (random.bytes(1)[0] ?? 0)) / 255;
  const nextAttemptAtMs =
    ownPauseMs === null
      ? null
      : (Math.round(atMs + Math.max(ownPauseMs * jitter, pauseMs ?? 0)) as UnixMillis);
  return {
    ...{ message, atMs, hasSucceeded: false, isGone, error },
    pausedUntilMs: pauseMs === null ? null : ((atMs + pauseMs) as UnixMillis),
    ...{ status: nextAttemptAtMs === null ? 'failed' : 'pending', nextAttemptAtMs },
  };
}
