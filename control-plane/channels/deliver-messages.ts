import { type ChannelEvent, channelPauseMs } from '../../shared/model/channel.ts';
import { idTime } from '../../shared/model/ids.ts';
import type { UnixMillis } from '../../shared/model/time.ts';
import { approvalUrl, consoleUrl } from '../../shared/wire/api/console-url.ts';
import { outboxLimits } from '../outbox/limits.ts';
import type { Outbox } from '../outbox/outbox.ts';
import { removeOld, settle } from '../outbox/queues.ts';
import { startOutbox } from '../outbox/run-outbox.ts';
import { openTarget } from './channel-target.ts';
import type { ChannelDeps } from './deps.ts';
import { channelsLimits } from './limits.ts';
import { type LockedMessage, lockMessages, messageQueues } from './message-queue.ts';
import { type NoticeAnswer, sendNotice } from './send-notice.ts';

/** `pollMs`: how often an idle replica looks for due messages. */
type MessageDeps = ChannelDeps & { readonly pollMs?: number };

/**
 * Sends the messages of channels that are due, as long as this replica runs, beside those of all other
 * replicas; see `startOutbox`. At least once: one that was sent by a replica that died before it wrote so is
 * sent again.
 */
export const startChannelMessages = (deps: MessageDeps): { stop(): Promise<void> } =>
  startOutbox(deps, messageOutbox(deps));

const messageOutbox = (deps: MessageDeps): Outbox<LockedMessage, NoticeAnswer> => ({
  ...{ queues: messageQueues, name: 'messages of channels' },
  bounds: {
    concurrencyMax: channelsLimits.channelConcurrencyMax,
    // People do not wait for milliseconds, and an approval may end meanwhile.
    aheadMax: 0,
    lockMs: channelsLimits.channelLockMs,
    pollMs: deps.pollMs ?? channelsLimits.channelPollMs,
  },
  counters: {
    attempts: {
      name: 'agent_trust_channel_messages_total',
      help: 'Attempts to send a message about an approval to a channel, by kind and outcome.',
      labelNames: ['kind', 'outcome'],
    },
    labelsOf: ({ delivery: { kind }, answer: { fault } }) => ({ kind, outcome: fault?.code ?? 'sent' }),
    disabled: {
      name: 'agent_trust_channels_disabled_total',
      help: 'Channels that were disabled because they are gone or keep failing, by reason.',
    },
  },
  pauseMs: channelPauseMs,
  lock: (claim) => lockMessages(deps.sql, claim),
  send: (message, { signal }) => send(deps, message, signal),
  record: (attempts) => settle(deps.sql, messageQueues, deps.replicaId, attempts),
  trim: (nowMs) => {
    const old = idTime(Math.max(0, nowMs - outboxLimits.keptMs) as UnixMillis);
    return removeOld(deps.sql, [{ from: 'channel_messages', id: 'approval_id', below: `appr_${old}` }]);
  },
});

function send(deps: MessageDeps, message: LockedMessage, signal: AbortSignal): Promise<NoticeAnswer> {
  const { approval, endpointId, kind, sealedTarget, event } = message;
  /** The left side of a Message-ID, and a `webhook-id`. */
  const idOf = (told: ChannelEvent) =>
    `${approval.approvalId}.${endpointId}.${told === 'approval.requested' ? 'q' : 'a'}`;
  return sendNotice(
    deps,
    {
      ...{ kind, ...openTarget(deps.sealer, endpointId, sealedTarget) },
      messageId: idOf(event),
      threadId: event === 'approval.requested' ? null : idOf('approval.requested'),
      facts: {
        ...message,
        approvalUrl: approvalUrl(deps.baseUrl, approval.approvalId),
        listUrl: consoleUrl(deps.baseUrl, 'approvals'),
      },
    },
    signal,
  );
}
