import { type Static, Type } from 'typebox';
import { invalidRequest } from '../../errors/api-error.ts';
import {
  type Channel,
  type ChannelEvent,
  type ChannelKind,
  channelDisablingReasons,
  channelEvents,
  channelFaults,
  channelKinds,
  channelStatuses,
} from '../../model/channel.ts';
import { limits } from '../../model/limits.ts';
import { renderOptionalTime, renderTime, secondMs } from '../../model/time.ts';
import { parseWebUrl, webUrlRule } from './domain.ts';
import { canonicalEmail } from './email.ts';
import { closed, Name, nullable, Timestamp } from './fields.ts';
import { readOnly } from './read-only.ts';

const Events = Type.Array(Type.Enum(channelEvents), { minItems: 1, maxItems: channelEvents.length });
const Target = Type.String({ minLength: 1, maxLength: limits.webhookUrlCharsMax });
const AfterS = Type.Integer({ minimum: 0, maximum: limits.approvalExpiryMsMax / secondMs });
const Kind = Type.Enum(channelKinds);

/** `POST /channels` */
export const ChannelCreation = closed({
  name: Name,
  kind: Kind,
  /** The URL of the webhook, or the e-mail address. */
  target: Target,
  gate_id: Type.Optional(nullable(Type.String())),
  after_s: Type.Optional(AfterS),
  events: Type.Optional(Events),
});

/** Members that the owner cannot change. */
export const channelReadOnly = {
  channel_id: Type.String(),
  kind: Kind,
  gate_id: nullable(Type.String()),
  created_at: Timestamp,
};

/** The last attempt, where it failed. */
export const ChannelFailure = Type.Object({
  code: Type.Enum(channelFaults),
  detail: Type.String(),
  at: Timestamp,
});

/** Members that move with each attempt and change. */
const channelHealth = {
  target_hash: Type.String(),
  disabled_reason: nullable(Type.Enum(channelDisablingReasons)),
  failing_since: nullable(Timestamp),
  /** Attempts since the last success. */
  failures: Type.Integer(),
  last_error: nullable(ChannelFailure),
  last_sent_at: nullable(Timestamp),
  updated_at: Timestamp,
};

/** `PATCH /channels/:id`: only what is present changes. */
export const ChannelUpdate = closed({
  name: Type.Optional(Name),
  target: Type.Optional(Target),
  after_s: Type.Optional(AfterS),
  events: Type.Optional(Events),
  status: Type.Optional(Type.Enum(channelStatuses)),
  ...readOnly({ ...channelReadOnly, ...channelHealth }),
});

export const ChannelAnswer = Type.Object({
  ...channelReadOnly,
  name: Type.String(),
  /** Of a URL its host and last characters. */
  target: Type.String(),
  after_s: Type.Integer(),
  events: Events,
  status: Type.Enum(channelStatuses),
  ...channelHealth,
});

/** With `secret`, for the kind `webhook`, which is shown only once. */
export const NewChannelAnswer = Type.Evaluate(
  Type.Intersect([ChannelAnswer, Type.Object({ secret: Type.Optional(Type.String()) })]),
);

export const ChannelDeletion = Type.Object({
  channel_id: Type.String(),
  deleted: Type.Literal(true),
  deleted_at: Timestamp,
});

/** `POST /channels/:id/test` */
export const ChannelTestAnswer = Type.Object({
  channel_id: Type.String(),
  sent: Type.Boolean(),
  latency_ms: Type.Integer(),
  /** Null where it was sent. */
  error: nullable(Type.Object({ code: Type.Enum(channelFaults), detail: Type.String() })),
});

/**
 * Without duplicates, in the order of `channelEvents`. Throws `invalid_request` for the end alone, which says
 * nothing to people without its beginning.
 */
export function distinctChannelEvents(given: readonly ChannelEvent[]): readonly ChannelEvent[] {
  const events = channelEvents.filter((event) => given.includes(event));
  if (events.includes('approval.requested')) return events;
  throw invalidRequest('events', 'events must hold approval.requested: an end is told where it was asked.');
}

/**
 * Why a text is no target of such a channel, without quoting it: a URL may be all that it takes to write
 * there. Continues the name of the field; null: it may be one.
 */
export function targetFault(kind: ChannelKind, target: string): string | null {
  if (kind === 'email')
    return 'fault' in canonicalEmail(target)
      ? 'must be one e-mail address, in plain letters and without a name'
      : null;
  if (target.includes('/…')) return 'is as answers show it, without its secret: give all of it';
  return parseWebUrl(target) === null ? `must be ${webUrlRule}` : null;
}

/** As it is kept, for its hash too. */
export function storedTarget(kind: ChannelKind, target: string): string {
  const address = kind === 'email' ? canonicalEmail(target) : null;
  return address === null || 'fault' in address ? target : address.email;
}

export const renderChannel = (channel: Channel): Static<typeof ChannelAnswer> => ({
  channel_id: channel.channelId,
  name: channel.name,
  kind: channel.kind,
  gate_id: channel.gateId,
  target: channel.shownTarget,
  target_hash: channel.targetHash,
  after_s: channel.afterMs / secondMs,
  events: [...channel.events],
  status: channel.status,
  disabled_reason: channel.disabledReason,
  failing_since: renderOptionalTime(channel.failingSinceMs),
  failures: channel.failures,
  last_error:
    channel.lastError === null
      ? null
      : {
          code: channel.lastError.code,
          detail: channel.lastError.detail,
          at: renderTime(channel.lastError.atMs),
        },
  last_sent_at: renderOptionalTime(channel.lastSentAtMs),
  created_at: renderTime(channel.createdAtMs),
  updated_at: renderTime(channel.updatedAtMs),
});
